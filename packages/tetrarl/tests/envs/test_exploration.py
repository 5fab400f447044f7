import torch
from tetradict.nn import InteractionType, interaction_type

from tetrarl.envs import ExplorationType, GymEnv, exploration_type, set_exploration_type


def test_the_exploration_type_is_the_interaction_type_that_modules_follow():
    assert ExplorationType is InteractionType
    with set_exploration_type(ExplorationType.MODE):
        assert exploration_type() is interaction_type() is InteractionType.MODE
    assert exploration_type() is None


def test_a_policy_sees_the_type_in_force_during_a_rollout():
    seen = []

    def policy(td):
        seen.append(exploration_type())
        return td.set("action", torch.zeros(1))

    with set_exploration_type(ExplorationType.RANDOM):
        GymEnv("Pendulum-v1").rollout(2, policy)
    assert seen == [ExplorationType.RANDOM] * 2
