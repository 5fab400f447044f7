import pytest
import torch
from tetradict.nn import TensorDictModule, set_interaction_type
from torch import distributions as D

from tetrarl.envs import GymEnv
from tetrarl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
from tetrarl.objectives import ClipPPOLoss
from tetrarl.objectives.value import GAE

FRAMES, ROUNDS = 2048, 12


def networks(distribution):
    net = TensorDictModule(MLP(4, 2, depth=2, num_cells=64), in_keys=["observation"], out_keys=["logits"])
    actor = ProbabilisticActor(net, in_keys=["logits"], distribution_class=distribution, return_log_prob=True)
    return actor, ValueOperator(MLP(4, 1, depth=2, num_cells=64))


@pytest.mark.parametrize("categorical", [False, True], ids=["one_hot", "categorical"])
def test_a_policy_runs_in_an_environment(categorical):
    torch.manual_seed(0)
    env = GymEnv("CartPole-v1", categorical_action_encoding=categorical)
    actor, critic = networks(D.Categorical if categorical else OneHotCategorical)
    with torch.no_grad(), set_interaction_type("random"):
        data = env.rollout(100, actor, break_when_any_done=False)
    assert env.action_spec.is_in(data["action"])
    torch.testing.assert_close(data["action_log_prob"], actor.log_prob(data).detach())
    GAE(gamma=0.99, lmbda=0.95, value_network=critic)(data)
    terms = ClipPPOLoss(actor, critic)(data)
    assert abs(terms["kl_approx"]) < 1e-6 and terms["clip_fraction"] == 0


@pytest.mark.slow
def test_ppo_balances_the_pole():
    """An untrained policy lasts about 20 steps; 195 is where the task once counted as solved."""
    torch.manual_seed(0)
    env = GymEnv("CartPole-v1")
    env.set_seed(0)
    actor, critic = networks(OneHotCategorical)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(actor, critic, normalize_advantage=True)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    for _ in range(ROUNDS):
        with torch.no_grad(), set_interaction_type("random"):
            data = advantage(env.rollout(FRAMES, actor, break_when_any_done=False))
        for _ in range(10):
            for rows in torch.randperm(FRAMES).split(256):
                terms = loss(data[rows])
                optimizer.zero_grad()
                (terms["loss_objective"] + terms["loss_entropy"] + terms["loss_critic"]).backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        if FRAMES / data["next", "done"].sum() > 150 and mean_return(env, actor) >= 195:
            return
    pytest.fail(f"a mean return of 195 was not reached in {ROUNDS * FRAMES} steps")


def mean_return(env, actor):
    with torch.no_grad(), set_interaction_type("deterministic"):
        returns = [env.rollout(500, actor)["next", "reward"].sum() for _ in range(10)]
    return sum(returns) / len(returns)
