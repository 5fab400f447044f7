"""Steps and rollouts of single environments, against a plain gymnasium loop and against torchrl.

A step is ``rand_action`` and ``step_and_maybe_reset`` against sampling, ``step`` and ``reset`` of gymnasium, which
keeps nothing. A rollout is of 1000 steps, against the same loop that keeps its data and stacks it at the end.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import common
import gymnasium
import numpy as np
import torch

from tetrarl.envs import GymEnv

warnings.filterwarnings("ignore")
STEPS = 200
ROLLOUT = 1000
NAMES = ("CartPole-v1", "Pendulum-v1", "HalfCheetah-v5")


def raw_steps(name: str) -> Callable[[], Any]:
    """A plain loop that keeps nothing."""
    env = gymnasium.make(name)
    env.reset(seed=0)

    def loop() -> None:
        for _ in range(STEPS):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()

    return loop


def raw_rollout(name: str) -> Callable[[], Any]:
    """A plain loop that keeps its data and stacks it."""
    env = gymnasium.make(name)
    env.reset(seed=0)

    def loop() -> list[torch.Tensor]:
        observation, _ = env.reset()
        columns: list[list] = [[] for _ in range(5)]
        for _ in range(ROLLOUT):
            action = env.action_space.sample()
            after, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            for column, value in zip(columns, (observation, action, after, reward, over), strict=True):
                column.append(value)
            observation = env.reset()[0] if over else after
        return [torch.from_numpy(np.asarray(column)) for column in columns]

    return loop


def steps(env: Any) -> Callable[[], Any]:
    """The same steps through collections."""
    state = [env.reset()]

    def loop() -> None:
        td = state[0]
        for _ in range(STEPS):
            _, td = env.step_and_maybe_reset(env.rand_action(td))
        state[0] = td

    return loop


def rollout(env: Any) -> Callable[[], Any]:
    """1000 random steps."""
    return lambda: env.rollout(ROLLOUT, break_when_any_done=False)


def check(name: str) -> None:
    """A fast wrong answer is no result: a rollout must be what gymnasium gives for its actions."""
    env, raw = GymEnv(name), gymnasium.make(name)
    env.set_seed(0)
    data = env.rollout(100)
    raw.reset(seed=0)
    for action, after in zip(data["action"], data["next", "observation"], strict=True):
        observation = raw.step(env.action_spec.to_numpy(action))[0]
        torch.testing.assert_close(after, torch.from_numpy(observation), rtol=0, atol=0)


def main() -> None:
    """Print one line a comparison."""
    args = common.arguments(__doc__)
    torchrl = common.peer("torchrl.envs")
    if torchrl is None:
        print("# torchrl is not installed: against gymnasium alone", flush=True)
    for name in NAMES:
        cases = [("step", steps, raw_steps), (f"rollout{ROLLOUT}", rollout, raw_rollout)]
        if not any(common.wanted(args, f"{kind}/{name}") for kind, _, _ in cases):
            continue
        try:
            check(name)
        except gymnasium.error.DependencyNotInstalled as error:
            print(f"# {name} is left out: {error}", flush=True)
            continue
        for kind, ours, raw in cases:
            case = f"{kind}/{name}"
            bases = {"gymnasium": lambda raw=raw, name=name: raw(name)}
            if torchrl is not None:
                bases["torchrl"] = lambda ours=ours, name=name: ours(torchrl.GymEnv(name))
            for base, make in bases.items() if common.wanted(args, case) else ():
                result = common.compare(ours(GymEnv(name)), make(), args.rounds)
                print(
                    common.row("env", case, base, args, result, "gymnasium", "mujoco", "torchrl"), flush=True
                )


if __name__ == "__main__":
    main()
