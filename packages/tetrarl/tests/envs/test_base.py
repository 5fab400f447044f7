"""EnvBase through small environments written for the tests."""

import pytest
import torch
from tetradict import TensorDict
from torch.testing import assert_close

from tetrarl.data import Bounded, Categorical, Composite, Unbounded
from tetrarl.envs import EnvBase, check_env_specs


class Counter(EnvBase):
    """A batch of counters that add their action up; each ends at its own goal."""

    def __init__(self, goals=3.0, give=("terminated",), **kwargs):
        goals = torch.as_tensor(goals)
        super().__init__(batch_size=goals.shape, **kwargs)
        self.goals, self.give = goals.unsqueeze(-1), give
        self.observation_spec = Composite(count=Unbounded((*goals.shape, 1)), shape=goals.shape)
        self.action_spec = Categorical(2, goals.shape)
        self.seen = []

    def _reset(self, tensordict=None, start=0.0):
        self.seen.append(None if tensordict is None else tensordict.get("_reset", None))
        return TensorDict({"count": torch.full((*self.batch_size, 1), start)}, self.batch_size)

    def _step(self, tensordict):
        count = tensordict["count"] + tensordict["action"].unsqueeze(-1)
        over = count >= self.goals
        flags = {"terminated": over, "done": over, "truncated": over}
        return TensorDict(
            {"count": count, "reward": count.squeeze(-1), **{name: flags[name] for name in self.give}},
            self.batch_size,
        )

    def _set_seed(self, seed):
        self.seed = seed


def up(td):
    return td.set("action", torch.ones(td.batch_size, dtype=torch.int64))


@pytest.mark.smoke
def test_a_step_puts_what_follows_under_next_and_keeps_the_root():
    env = Counter()
    td = up(env.reset())
    assert env.step(td) is td
    assert td["count"].item() == 0 and td["next", "count"].item() == 1
    assert td["next", "reward"].shape == (1,)
    assert {*td["next"].keys()} == {"count", "reward", "done", "terminated", "truncated"}


@pytest.mark.parametrize(
    ("give", "terminated", "truncated"),
    [
        (("terminated",), True, False),
        (("truncated",), False, True),
        (("done",), True, False),
        (("done", "terminated"), True, False),
        (("done", "truncated"), False, True),
        (("terminated", "truncated"), True, True),
    ],
)
def test_flags_that_are_left_out_are_derived(give, terminated, truncated):
    after = Counter(1.0, give).rollout(1, up)["next"]
    assert after["done"].item() is True
    assert (after["terminated"].item(), after["truncated"].item()) == (terminated, truncated)


def test_a_step_without_any_flag_is_refused():
    with pytest.raises(KeyError, match="must give one of"):
        Counter(give=()).rollout(1, up)


def test_specs_come_with_a_reward_and_three_flags():
    env = Counter(torch.tensor([1.0, 2.0]))
    assert env.reward_spec == Unbounded((2, 1)) and env.reward_keys == ["reward"]
    assert env.done_keys == ["done", "terminated", "truncated"] and env.reset_keys == ["_reset"]
    assert env.action_spec == Categorical(2, (2,)) and env.full_action_spec["action"] == env.action_spec
    assert env.observation_keys == ["count"] and env.state_keys == []
    assert env.input_spec["full_action_spec"] == env.full_action_spec
    assert env.specs["output_spec", "full_observation_spec", "count"] == Unbounded((2, 1))
    assert (env.action_key, env.reward_key, env.done_key) == ("action", "reward", "done")
    assert env.shape == (2,) and env.ndim == env.batch_dims == env.ndimension() == 1 and env.numel() == 2


def test_the_other_flags_join_a_done_spec_that_names_one():
    env = Counter()
    env.done_spec = Composite(done=Categorical(2, (1,), dtype=torch.bool))
    assert set(env.done_spec.keys()) == {"done", "terminated", "truncated"}
    env.done_spec = Composite(agents=Composite(done=Categorical(2, (3, 1), dtype=torch.bool)))
    assert set(env.done_spec["agents"].keys()) == {"done", "terminated", "truncated"}
    assert env.reset_keys == [("agents", "_reset")]


def test_specs_that_do_not_fit_are_refused_with_the_mend():
    env = Counter(torch.tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"action_spec: shapes must begin with \[2\]"):
        env.action_spec = Categorical(2)
    with pytest.raises(ValueError, match="of size 1 for one number a step"):
        env.reward_spec = Unbounded((2,))
    with pytest.raises(TypeError, match="must be a spec, got a int"):
        env.observation_spec = 3
    env.set_spec_lock_()
    with pytest.raises(RuntimeError, match=r"set_spec_lock_\(False\)"):
        env.reward_spec = Unbounded((2, 1))
    env.set_spec_lock_(False).reward_spec = Unbounded((2, 1))


def test_a_rollout_stacks_steps_in_time_and_stops_at_the_end():
    data = Counter().rollout(10, up)
    assert data.batch_size == (3,) and data.names == ["time"]
    assert data["count"][:, 0].tolist() == [0, 1, 2]
    assert data["next", "count"][:, 0].tolist() == [1, 2, 3]
    assert data["next", "done"][:, 0].tolist() == [False, False, True]
    assert not data["done"].any()


def test_a_rollout_that_goes_on_begins_anew_with_a_reset_observation():
    data = Counter().rollout(7, up, break_when_any_done=False)
    assert data["count"][:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert data["next", "count"][:, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]


def test_only_the_environments_whose_episode_is_over_are_reset():
    env = Counter(torch.tensor([2.0, 3.0]))
    data = env.rollout(6, up, break_when_any_done=False)
    assert data.batch_size == (2, 6) and data.names == [None, "time"]
    assert data["count"][..., 0].tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]
    assert data["next", "count"][..., 0].tolist() == [[1, 2, 1, 2, 1, 2], [1, 2, 3, 1, 2, 3]]
    assert not data["done"].any() and "_reset" not in data.keys()
    assert env.seen[1][:, 0].tolist() == [True, False]


def test_a_mask_resets_some_and_keeps_the_others():
    env = Counter(torch.tensor([5.0, 5.0, 5.0]))
    td = env.step_mdp(env.step(up(env.reset())))
    td["_reset"] = torch.tensor([[False], [True], [False]])
    td = env.reset(td, start=-1.0)
    assert td["count"][:, 0].tolist() == [1, -1, 1] and "_reset" not in td.keys()


class Team(EnvBase):
    """Two players, each with its own count, reward and end, under one nested key."""

    def __init__(self):
        super().__init__(batch_size=(2,))
        shape = (2, 3, 1)
        self.observation_spec = Composite(
            clock=Unbounded((2, 1)), players=Composite(count=Unbounded(shape), shape=(2, 3)), shape=2
        )
        self.action_spec = Composite(players=Composite(move=Bounded(0, 1, shape), shape=(2, 3)), shape=2)
        self.reward_spec = Composite(players=Composite(reward=Unbounded(shape), shape=(2, 3)), shape=2)
        flag = Categorical(2, shape, dtype=torch.bool)
        self.done_spec = Composite(
            done=Categorical(2, (2, 1), dtype=torch.bool), players=Composite(done=flag, shape=(2, 3)), shape=2
        )

    def _reset(self, tensordict=None):
        players = TensorDict({"count": torch.zeros(2, 3, 1)}, [2, 3])
        return TensorDict({"clock": torch.zeros(2, 1), "players": players}, [2])

    def _step(self, tensordict):
        count = tensordict["players", "count"] + tensordict["players", "move"]
        players = TensorDict({"count": count, "reward": count, "done": count >= 2}, [2, 3])
        return TensorDict(
            {"clock": tensordict["clock"] + 1, "players": players, "done": torch.zeros(2, 1).bool()}, [2]
        )

    def _set_seed(self, seed):
        torch.manual_seed(seed)


def test_nested_keys_work_in_steps_flags_and_partial_resets():
    env = Team()
    assert env.reset_keys == ["_reset", ("players", "_reset")]
    moves = torch.tensor([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0]]).unsqueeze(-1)
    td = env.reset()
    td["players", "move"] = moves
    td, after = env.step_and_maybe_reset(td)
    assert td["next", "players", "terminated"][..., 0].tolist() == [[True, False, False], [False] * 3]
    assert after["players", "count"][..., 0].tolist() == [[0, 1, 0], [1, 1, 1]]
    assert after["clock"][:, 0].tolist() == [1, 1]
    assert ("players", "reward") not in after and ("players", "move") not in after
    check_env_specs(env, seed=0)


class Stateless(EnvBase):
    """Its state is in the collection, whatever its batch size."""

    batch_locked = False

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(x=Unbounded(1))
        self.state_spec = Composite(x=Unbounded(1))
        self.action_spec = Bounded(-1, 1, (1,))

    def _reset(self, tensordict=None):
        return TensorDict({"x": torch.zeros(*tensordict.batch_size, 1)}, tensordict.batch_size)

    def _step(self, tensordict):
        x = tensordict["x"] + tensordict["action"]
        return TensorDict({"x": x, "reward": x, "terminated": x.abs() > 9}, tensordict.batch_size)

    def _set_seed(self, seed):
        torch.manual_seed(seed)


def test_an_environment_without_a_locked_batch_takes_any_batch():
    env = Stateless()
    start = env.reset(TensorDict({}, [4]))
    data = env.rollout(3, tensordict=start, auto_reset=False)
    assert data.batch_size == (4, 3) and data.names == [None, "time"]
    assert_close(data["next", "x"], data["x"] + data["action"])


def test_random_actions_are_legal_and_may_start_a_new_collection():
    env = Counter(torch.tensor([9.0, 9.0]))
    td = env.rand_action()
    assert env.full_action_spec.is_in(td) and td.batch_size == (2,)
    assert env.rand_step(env.reset())["next", "done"].shape == (2, 1)


def test_entries_that_a_policy_put_under_next_stay_there():
    env = Counter()
    td = up(env.reset())
    td["next"] = {"memory": torch.ones(2), "count": torch.zeros(1)}
    td, after = env.step_and_maybe_reset(td)
    assert td["next", "count"].item() == 1
    assert after["memory"].tolist() == [1, 1]


def test_the_callback_sees_what_the_next_step_starts_from():
    counts = []
    Counter().rollout(4, up, lambda env, td: counts.append(td["count"].item()), break_when_any_done=False)
    assert counts == [1, 2, 0]


def test_set_truncated_marks_those_that_are_not_over():
    data = Counter(torch.tensor([2.0, 5.0])).rollout(2, up, set_truncated=True)
    assert data["next", "truncated"][..., 0].tolist() == [[False, False], [False, True]]
    assert data["next", "done"][..., -1, 0].tolist() == [True, True]


def test_a_collection_of_another_batch_size_is_refused():
    with pytest.raises(ValueError, match=r"Counter.step: .*must be \[2\].*got \[3\]"):
        Counter(torch.tensor([1.0, 2.0])).step(TensorDict({}, [3]))


def test_an_episode_that_is_over_as_it_begins_is_refused_unless_allowed():
    class Over(Counter):
        def _reset(self, tensordict=None):
            return super()._reset(tensordict).set("done", torch.ones(1, dtype=torch.bool))

    with pytest.raises(RuntimeError, match="allow_done_after_reset"):
        Over().reset()
    assert Over(allow_done_after_reset=True).reset()["terminated"].item()


def test_a_step_that_gives_its_own_input_back_is_refused():
    class Same(Counter):
        def _step(self, tensordict):
            return tensordict

    class Nothing(Counter):
        def _reset(self, tensordict=None):
            return None

    with pytest.raises(ValueError, match="must return a new collection"):
        Same().step(up(Same().reset()))
    with pytest.raises(TypeError, match="must return a collection, got a NoneType"):
        Nothing().reset()


def test_a_seed_is_handed_on_and_gives_the_next_one():
    env = Counter()
    following = env.set_seed(4)
    assert env.seed == 4 and following == Counter().set_seed(4) != 4
    assert env.set_seed(4, static_seed=True) == 4 and env.set_seed(None) is None


def test_the_device_goes_to_specs_and_collections():
    env = Counter().to("meta")
    assert env.device.type == "meta" == env.action_spec.device.type == env.fake_tensordict().device.type


def test_fake_data_has_the_keys_shapes_and_dtypes_of_real_data():
    env = Counter(torch.tensor([2.0, 3.0]))
    fake, real = env.fake_tensordict(), env.rand_step(env.reset())
    want, got = (sorted((str(k), v.shape, v.dtype) for k, v in td.items(True, True)) for td in (fake, real))
    assert want == got and fake["next"].batch_size == (2,)


def test_closing_twice_is_refused_unless_allowed():
    env = Counter()
    env.close()
    env.close(raise_if_closed=False)
    with pytest.raises(RuntimeError, match="closed already"):
        env.close()
    assert repr(env) == "Counter(batch_size=[], device=None)"
