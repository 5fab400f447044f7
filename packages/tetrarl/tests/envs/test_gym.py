"""GymEnv and GymWrapper against gymnasium loops written by hand."""

import importlib.util

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from tetradict import TensorDict
from torch.testing import assert_close

from tetrarl.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    Unbounded,
)
from tetrarl.envs import GymEnv, GymWrapper, check_env_specs

exact = {"rtol": 0, "atol": 0}


def needs(*modules):
    lacking = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(lacking), reason=f"needs {', '.join(lacking)}")


class Corridor(gymnasium.Env):
    """Seven cells; observations of many kinds; the episode ends at either end."""

    action_space = spaces.Discrete(2, start=3)

    def __init__(self, observation_space=None, show=None, render_mode=None):
        self.observation_space = observation_space or spaces.Box(-9, 9, (2,), np.float64)
        self.show = show or (lambda cell, steps: np.array([cell, steps], np.float64))
        self.render_mode = render_mode

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.steps = int(self.np_random.integers(2, 5)), 0
        return self.show(self.cell, self.steps), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.cell, self.steps = self.cell + (1 if action == 4 else -1), self.steps + 1
        over = self.cell in (0, 6)
        return self.show(self.cell, self.steps), float(self.cell), over, not over and self.steps == 5, {}

    def render(self):
        picture = np.zeros((4, 7, 3), np.uint8)
        picture[:, self.cell] = 10 * self.steps + 1
        return picture


RICH = spaces.Dict({
    "cell": spaces.Discrete(7),
    "deep": spaces.Dict({"steps": spaces.Box(0, 99, (1,), np.int32), "bits": spaces.MultiBinary(3)}),
    "pair": spaces.Tuple([spaces.MultiDiscrete([7, 99]), spaces.Discrete(9, start=-1)]),
})


def rich(cell, steps):
    bits = np.array([cell % 2, steps % 2, 1], np.int8)
    deep = {"steps": np.array([steps], np.int32), "bits": bits}
    return {"cell": np.int64(cell), "deep": deep, "pair": (np.array([cell, steps]), steps - 1)}


def by_hand(env, actions, seed):
    """A plain gymnasium loop that begins a new episode where one is over."""
    observation, _ = env.reset(seed=seed)
    columns = {name: [] for name in ("before", "after", "reward", "terminated", "truncated")}
    for action in actions:
        after, reward, terminated, truncated, _ = env.step(action)
        for name, value in zip(columns, (observation, after, reward, terminated, truncated), strict=True):
            columns[name].append(value)
        observation = env.reset()[0] if terminated or truncated else after
    return columns


def replay(actions):
    """A policy that takes given actions one after the other."""
    left = iter(actions)
    return lambda td: td.set("action", next(left))


def check_transitions(data, columns, key="observation"):
    assert_close(data[key], torch.from_numpy(np.array(columns["before"])), **exact)
    assert_close(data["next", key], torch.from_numpy(np.array(columns["after"])), **exact)
    assert_close(data["next", "reward"][:, 0], torch.tensor(columns["reward"], dtype=torch.float32), **exact)
    assert data["next", "terminated"][:, 0].tolist() == columns["terminated"]
    assert data["next", "truncated"][:, 0].tolist() == columns["truncated"]
    assert torch.equal(data["next", "done"], data["next", "terminated"] | data["next", "truncated"])
    for name in ("done", "terminated", "truncated"):
        assert data[name].shape == (len(data), 1) and not data[name].any()


TASKS = [
    pytest.param("CartPole-v1", {"max_episode_steps": 15}, id="CartPole"),
    pytest.param("Pendulum-v1", {"max_episode_steps": 40}, id="Pendulum"),
    pytest.param(
        "HalfCheetah-v5", {"max_episode_steps": 40}, id="HalfCheetah", marks=needs("mujoco", "imageio")
    ),
    pytest.param("Hopper-v5", {}, id="Hopper", marks=needs("mujoco", "imageio")),
]


@pytest.mark.filterwarnings("ignore:.*mujoco.*:DeprecationWarning")
@pytest.mark.parametrize(("name", "kwargs"), TASKS)
@pytest.mark.parametrize("way", ["random", "policy", "callback", "steps"])
def test_data_equals_a_loop_over_gymnasium_with_the_same_seed_and_actions(name, kwargs, way):
    torch.manual_seed(3)
    env = GymEnv(name, **kwargs)
    env.set_seed(7)
    steps = 100
    if way == "random":
        data = env.rollout(steps, break_when_any_done=False)
    else:
        policy = replay(env.full_action_spec.rand((steps,))["action"])
        if way == "policy":
            data = env.rollout(steps, policy, break_when_any_done=False)
        elif way == "callback":
            data = env.rollout(steps, policy, lambda env, td: None, break_when_any_done=False)
        else:
            td, taken = env.reset(), []
            for _ in range(steps):
                td, following = env.step_and_maybe_reset(policy(td))
                taken.append(td)
                td = following
            data = torch.stack(taken)
    raw = gymnasium.make(name, **kwargs)
    actions = [env.action_spec.to_numpy(action) for action in data["action"]]
    columns = by_hand(
        raw, [a[()] if isinstance(raw.action_space, spaces.Discrete) else a for a in actions], 7
    )
    check_transitions(data, columns)
    assert any(columns["terminated"]) or any(columns["truncated"])


@pytest.mark.smoke
@pytest.mark.parametrize("way", ["random", "policy", "callback"])
def test_a_rollout_stops_with_the_first_episode_and_holds_its_last_observation(way):
    env = GymWrapper(Corridor())
    env.set_seed(0)
    policy = None if way == "random" else env.rand_action
    callback = (lambda env, td: None) if way == "callback" else None
    data = env.rollout(1000, policy, callback)
    assert len(data) <= 5 and data.names == ["time"]
    assert data["next", "done"][:, 0].tolist() == [False] * (len(data) - 1) + [True]
    raw = Corridor()
    actions = (data["action"].argmax(-1) + 3).numpy()
    check_transitions(data, by_hand(raw, list(actions), 0))


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("way", ["random", "policy", "callback"])
def test_observations_of_every_kind_arrive_as_gymnasium_gave_them(categorical, way):
    env = GymWrapper(Corridor(RICH, rich), categorical)
    env.set_seed(1)
    policy = None if way == "random" else env.rand_action
    data = env.rollout(
        30, policy, (lambda env, td: None) if way == "callback" else None, break_when_any_done=False
    )
    action = data["action"] if categorical else data["action"].argmax(-1)
    columns = by_hand(Corridor(RICH, rich), list((action + 3).numpy()), 1)
    for root, name in ((data, "before"), (data["next"], "after")):
        want = {
            ("cell",): np.array([x["cell"] for x in columns[name]]),
            ("deep", "steps"): np.array([x["deep"]["steps"] for x in columns[name]]),
            ("deep", "bits"): np.array([x["deep"]["bits"] for x in columns[name]]),
            ("pair", "0"): np.array([x["pair"][0] for x in columns[name]]),
            ("pair", "1"): np.array([x["pair"][1] for x in columns[name]]) + 1,
        }
        for key, value in want.items():
            got = root[key]
            spec = env.observation_spec[key]
            if isinstance(spec, (OneHot, MultiOneHot)):
                assert spec.is_in(got)
                got = spec.to_categorical(got)
            assert_close(got, torch.from_numpy(value), **exact)
    assert data["next", "reward"][:, 0].tolist() == columns["reward"]
    check_env_specs(env)


def test_specs_say_what_the_spaces_say():
    env = GymWrapper(Corridor(RICH, rich))
    assert env.observation_spec == Composite(
        cell=OneHot(7, dtype=torch.int64),
        deep=Composite(steps=Bounded(0, 99, (1,), dtype=torch.int32), bits=Binary(3)),
        pair=Composite({"0": MultiOneHot([7, 99], dtype=torch.int64), "1": OneHot(9, dtype=torch.int64)}),
    )
    assert env.action_spec == OneHot(2, dtype=torch.int64)
    env = GymWrapper(Corridor(RICH, rich), categorical_action_encoding=True)
    assert env.observation_spec["pair", "0"] == MultiCategorical([7, 99])
    assert env.action_spec == Categorical(2)
    assert env.reward_spec == Unbounded(1)
    assert env.done_keys == ["done", "terminated", "truncated"]


class Sums(gymnasium.Env):
    """Its reward tells which action it got."""

    observation_space = spaces.Box(-1, 1, (1,))

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.got = action
        return np.zeros(1, np.float32), 0.0, False, False, {}


TREE = spaces.Dict({
    "go": spaces.Discrete(3),
    "how": spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.MultiBinary(2)]),
})


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 3], start=[1, -1]),
        spaces.MultiBinary(3),
        spaces.Box(-2, 2, (2,), np.float64),
        spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 9.0], np.float32)),
        spaces.Box(-np.inf, np.inf, (2,)),
        spaces.Box(0, 255, (2, 2), np.uint8),
        TREE,
    ],
    ids=lambda space: str(space)[:25],
)
def test_random_actions_of_every_kind_are_legal_in_steps_and_in_rollouts(space, categorical):
    env = GymWrapper(Sums(space), categorical)
    for _ in range(100):
        td = env.rand_step(env.reset())
        assert env.full_action_spec.is_in(td)
    data = env.rollout(20)
    assert env.full_action_spec.is_in(data)
    check_env_specs(env)


def test_an_action_reaches_the_simulator_as_it_takes_it():
    env = GymWrapper(Sums(TREE))
    td = env.reset()
    td["action"] = TensorDict({
        "go": torch.tensor([0, 0, 1]),
        "how": {"0": torch.tensor([0.5, -1.0]), "1": torch.tensor([1, 0])},
    })
    env.step(td)
    got = env.unwrapped.got
    assert got["go"] == 2 and isinstance(got["how"], tuple)
    assert got["how"][0].tolist() == [0.5, -1.0] and got["how"][1].tolist() == [1, 0]


def test_an_action_with_a_gradient_or_of_another_dtype_is_taken():
    env = GymWrapper(Sums(spaces.Box(-1, 1, (2,))))
    td = env.reset().set("action", torch.tensor([0.5, 0.25], dtype=torch.float64, requires_grad=True))
    env.step(td)
    assert env.unwrapped.got.dtype == np.float32 and env.unwrapped.got.tolist() == [0.5, 0.25]


@pytest.mark.smoke
@pytest.mark.parametrize("actions", [spaces.Discrete(4), spaces.Box(-1, 1, (3,))], ids=["choice", "box"])
def test_random_actions_follow_the_seed_of_torch_and_are_spread_out(actions):
    env = GymWrapper(Sums(actions))
    draws = []
    for _ in range(2):
        torch.manual_seed(5)
        td = env.reset()
        draws.append([env.rand_action(td.copy())["action"] for _ in range(400)])
    first, second = map(torch.stack, draws)
    assert torch.equal(first, second)
    mean = first.double().mean(0)
    centre, spread = (0.25, 0.433) if isinstance(actions, spaces.Discrete) else (0, 0.577)
    assert (mean - centre).abs().max() < 5 * spread / 400**0.5


def test_what_was_handed_out_stays_as_it_was():
    env = GymWrapper(Corridor())
    td, taken, copies = env.reset(), [], []
    for _ in range(200):
        td, following = env.step_and_maybe_reset(env.rand_action(td))
        taken.append(td)
        copies.append(td.clone())
        td = following
    for td, copy in zip(taken, copies, strict=True):
        assert (td == copy).all()


def test_pictures_show_the_state_after_each_step():
    env = GymWrapper(Corridor(render_mode="rgb_array"), from_pixels=True, pixels_only=False)
    assert env.observation_spec["pixels"] == Unbounded((4, 7, 3), dtype=torch.uint8)
    for policy, callback in ((None, None), (env.rand_action, None), (None, lambda env, td: None)):
        data = env.rollout(20, policy, callback, break_when_any_done=False)
        for at in (data, data["next"]):
            cell, steps = at["observation"].long().unbind(-1)
            assert torch.equal(at["pixels"].long().amax((1, 2, 3)), 10 * steps + 1)
            assert torch.equal(at["pixels"][:, 0, :, 0].long().argmax(-1), cell)
    check_env_specs(env)


def test_pictures_alone_are_the_default_with_from_pixels():
    env = GymWrapper(Corridor(render_mode="rgb_array"), from_pixels=True)
    assert env.observation_keys == ["pixels"]
    assert env.rollout(3, break_when_any_done=False)["pixels"].shape == (3, 4, 7, 3)


@needs("pygame")
def test_gym_env_makes_an_environment_that_draws():
    env = GymEnv("CartPole-v1", from_pixels=True)
    data = env.rollout(2)
    assert data["pixels"].dtype == torch.uint8 and data["pixels"].float().std() > 1
    env.close()


@pytest.mark.parametrize("way", [None, lambda env, td: None])
def test_frame_skip_repeats_the_action_and_adds_the_rewards_up(way):
    env = GymWrapper(Corridor(), frame_skip=2)
    env.set_seed(0)
    right = OneHot(2, dtype=torch.int64).encode(1)
    data = env.rollout(10, lambda td: td.set("action", right), way)
    raw, total = Corridor(), []
    cell = int(raw.reset(seed=0)[0][0])
    while cell < 6:
        gained = 0
        for _ in range(2):
            if cell < 6:
                cell, gained = cell + 1, gained + cell + 1
        total.append(float(gained))
    assert data["next", "reward"][:, 0].tolist() == total
    assert data["next", "observation"][-1, 0] == 6


def test_the_time_limit_truncates_and_does_not_terminate():
    data = GymEnv("Pendulum-v1", max_episode_steps=4).rollout(10)
    assert len(data) == 4
    assert data["next", "truncated"][-1] and data["next", "done"][-1] and not data["next", "terminated"].any()


def test_set_truncated_marks_an_unfinished_end_alone():
    env = GymEnv("Pendulum-v1")
    data = env.rollout(3, set_truncated=True)
    assert data["next", "truncated"][:, 0].tolist() == [False, False, True]
    assert data["next", "done"][-1] and not data["next", "terminated"].any() and not data["done"].any()
    right = OneHot(2, dtype=torch.int64).encode(1)
    data = GymWrapper(Corridor()).rollout(5, lambda td: td.set("action", right), set_truncated=True)
    assert data["next", "terminated"][-1] and not data["next", "truncated"].any()


def test_a_seed_is_for_the_next_reset_alone_and_the_next_seed_differs():
    env = GymEnv("CartPole-v1")
    assert env.set_seed(3) == env.set_seed(3) != 3
    assert env.set_seed(3, static_seed=True) == 3
    first, second = env.reset()["observation"], env.reset()["observation"]
    raw = gymnasium.make("CartPole-v1")
    assert_close(first, torch.from_numpy(raw.reset(seed=3)[0]), **exact)
    assert_close(second, torch.from_numpy(raw.reset()[0]), **exact)
    assert_close(env.reset(seed=3)["observation"], first, **exact)


@pytest.mark.smoke
@pytest.mark.parametrize("fast", [True, False])
def test_a_policy_may_add_entries_that_are_kept_and_carried_to_the_next_step(fast):
    env = GymWrapper(Corridor(), categorical_action_encoding=True)

    def policy(td):
        count = td.get("count", torch.zeros(1))
        state = td.get("state", torch.zeros(2))
        td["count"] = count + 1
        td["doubled"] = td["observation"] * 2
        td["next", "state"] = state + 1
        td["state"] = state
        td["action"] = torch.tensor(1)
        return td

    data = env.rollout(6, policy, None if fast else lambda env, td: None, break_when_any_done=False)
    assert data["count"][:, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert data["state"][:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert data["next", "state"][:, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert_close(data["doubled"], 2 * data["observation"])


@pytest.mark.parametrize("fast", [True, False])
def test_a_policy_may_replace_observations_and_return_another_collection(fast):
    env = GymWrapper(Corridor(), categorical_action_encoding=True)

    def policy(td):
        td = td.copy()
        td["observation"] = td["observation"] / 10
        return td.set("action", torch.tensor(0))

    data = env.rollout(4, policy, None if fast else lambda env, td: None, break_when_any_done=False)
    fresh = data["done"].new_zeros(4)
    fresh[1:] = data["next", "done"][:-1, 0]
    going_on = ~fresh
    going_on[0] = False
    assert_close(data["observation"][going_on] * 10, data["next", "observation"][:-1][going_on[1:]])


def test_gradients_of_what_a_policy_writes_are_kept():
    weight = torch.tensor(0.5, requires_grad=True)
    env = GymEnv("Pendulum-v1")
    data = env.rollout(5, lambda td: td.set("action", weight * td["observation"][:1]))
    data["action"].sum().backward()
    assert_close(weight.grad, data["observation"][:, 0].sum())


def test_a_rollout_goes_on_from_a_collection():
    env = GymEnv("CartPole-v1")
    td, after = env.step_and_maybe_reset(env.rand_action(env.reset()))
    data = env.rollout(3, tensordict=after, auto_reset=False)
    assert_close(data["observation"][0], td["next", "observation"], **exact)
    assert "action" not in after.keys()


def test_a_reset_puts_first_observations_into_the_collection_it_is_given():
    env = GymEnv("CartPole-v1")
    td = TensorDict({"goal": torch.ones(2)})
    assert env.reset(td) is td
    assert set(td.keys()) == {"goal", "observation", "done", "terminated", "truncated"}
    assert env.rollout(3, tensordict=td)["goal"].shape == (3, 2)


def test_a_device_is_promised_and_kept():
    env = GymEnv("CartPole-v1", device="cpu")
    td, following = env.step_and_maybe_reset(env.rand_action(env.reset()))
    assert env.device == td.device == td["next"].device == following.device == torch.device("cpu")
    assert env.rollout(2).device == torch.device("cpu")
    assert GymEnv("CartPole-v1").rollout(2).device is None
    assert GymEnv("CartPole-v1").to("cpu").reset().device == torch.device("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("way", ["random", "policy", "callback", "steps"])
def test_data_lies_on_the_gpu_that_is_asked_for(way):
    env = GymEnv("Pendulum-v1", device="cuda")
    if way == "steps":
        td, following = env.step_and_maybe_reset(env.rand_action(env.reset()))
        data = torch.stack([td])
        assert following["observation"].device == env.device
    else:
        policy = None if way == "random" else lambda td: td.set("action", td["observation"][:1])
        data = env.rollout(5, policy, (lambda env, td: None) if way == "callback" else None)
    assert data.device == env.device
    assert all(value.device == env.device for value in data.values(True, True))
    assert_close(data["next", "observation"][:-1], data["observation"][1:], **exact)


def test_stepping_before_a_reset_is_refused():
    env = GymEnv("CartPole-v1")
    with pytest.raises(RuntimeError, match=r"call reset\(\) before the first step"):
        env.rand_step()


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (torch.tensor(1), r"must have shape \[2\], got \[\]; actions are one-hot here.*categorical"),
        (torch.zeros(3), r"must have shape \[2\], got \[3\]"),
    ],
)
def test_an_action_of_the_wrong_shape_is_refused_with_the_mend(action, words):
    env = GymEnv("CartPole-v1")
    with pytest.raises(ValueError, match=words):
        env.step(env.reset().set("action", action))


def test_a_missing_action_and_a_wrong_batch_size_are_refused():
    env = GymEnv("CartPole-v1")
    with pytest.raises(KeyError, match="action"):
        env.step(env.reset())
    with pytest.raises(ValueError, match=r"batch size must be \[\].*got \[2\]"):
        env.step(TensorDict({"action": torch.zeros(2, 2)}, [2]))
    with pytest.raises(ValueError, match="max_steps must be 1 or more"):
        env.rollout(0)
    with pytest.raises(ValueError, match="pass tensordict"):
        env.rollout(1, auto_reset=False)


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"no environment 'CartPol-v1'; the nearest names are \['CartPole-v1'"
    ):
        GymEnv("CartPol-v1")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: GymWrapper("CartPole-v1"), TypeError, "must be a gymnasium.Env, got a str"),
        (lambda: GymWrapper(gymnasium.make_vec("CartPole-v1", 2)), TypeError, "single environment"),
        (
            lambda: GymWrapper(Corridor(spaces.Text(5))),
            TypeError,
            r"observation_space is a Text.*FlattenObservation",
        ),
        (lambda: GymWrapper(Corridor(), from_pixels=True), ValueError, 'render_mode="rgb_array", got None'),
        (lambda: GymWrapper(Corridor(), frame_skip=0), ValueError, "frame_skip must be 1 or more"),
    ],
)
def test_what_cannot_be_wrapped_is_refused_with_the_reason(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_an_observation_that_breaks_its_space_is_told_at_the_reset():
    env = GymWrapper(Corridor(show=lambda cell, steps: np.zeros(3)))
    with pytest.raises(ValueError, match=r"'observation' has shape \[2\], but it gave \[3\]"):
        env.reset()


def test_the_specs_are_locked_as_the_environment_has_read_them():
    env = GymEnv("CartPole-v1")
    assert env.is_spec_locked
    with pytest.raises(RuntimeError, match="locked"):
        env.action_spec = Categorical(2)
    with pytest.raises(RuntimeError, match="locked"):
        env.observation_spec["x"] = Unbounded(1)


def test_attributes_of_the_wrapped_environment_show_through():
    env = GymEnv("CartPole-v1")
    assert env.unwrapped.gravity == 9.8 and env.metadata["render_fps"] == 50
    with pytest.raises(AttributeError):
        _ = env.nothing_of_this_name
    assert repr(env) == "GymEnv('CartPole-v1', device=None)" and "CartPole" in repr(
        GymWrapper(gymnasium.make("CartPole-v1"))
    )


@pytest.mark.parametrize("way", ["rollout", "policy", "steps", "step"])
def test_a_subclass_that_steps_in_its_own_way_is_followed_everywhere(way):
    class Doubled(GymWrapper):
        def _step(self, tensordict):
            after = super()._step(tensordict)
            return after.set("reward", 2 * after["reward"])

        def _reset(self, tensordict=None, **kwargs):
            return super()._reset(tensordict, **kwargs).set("fresh", torch.ones(1))

    env = Doubled(Corridor())
    if way in ("rollout", "policy"):
        data = env.rollout(8, None if way == "rollout" else env.rand_action, break_when_any_done=False)
    else:
        td = env.rand_action(env.reset())
        data = env.step(td) if way == "step" else env.step_and_maybe_reset(td)[0]
        data = data.unsqueeze(0)
    assert torch.equal(data["next", "reward"][:, 0], 2 * data["next", "observation"][:, 0].float())
    assert data["fresh"].all()


def test_closing_twice_is_refused_unless_allowed():
    env = GymEnv("CartPole-v1")
    env.close()
    assert env.is_closed
    env.close(raise_if_closed=False)
    with pytest.raises(RuntimeError, match="closed already"):
        env.close()
