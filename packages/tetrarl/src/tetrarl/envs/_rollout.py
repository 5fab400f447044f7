"""Steps one after the other, stacked in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tetradict import TensorDictBase

from tetrarl.envs import _flags

if TYPE_CHECKING:
    from tetrarl.envs._base import EnvBase


def check_rollout(max_steps: int, auto_reset: bool, tensordict: TensorDictBase | None) -> None:
    """Refuse a rollout that has no length or no start."""
    if max_steps < 1:
        raise ValueError(f"rollout: max_steps must be 1 or more, got {max_steps}")
    if not auto_reset and tensordict is None:
        raise ValueError("rollout: with auto_reset=False pass tensordict, the collection to start from")


def rollout(
    env: EnvBase,
    max_steps: int,
    policy: Callable[[TensorDictBase], TensorDictBase | None] | None,
    callback: Callable[[EnvBase, TensorDictBase], Any] | None,
    *,
    auto_reset: bool,
    break_when_any_done: bool,
    tensordict: TensorDictBase | None,
    set_truncated: bool,
) -> TensorDictBase:
    """What ``EnvBase.rollout`` does, step by step, for any environment."""
    check_rollout(max_steps, auto_reset, tensordict)
    act = env.rand_action if policy is None else policy
    td = env.reset(tensordict) if auto_reset else tensordict.copy()
    steps = []
    while True:
        acted = act(td)
        td = td if acted is None else acted
        if break_when_any_done:
            td = env.step(td)
            steps.append(td)
            if len(steps) == max_steps or env.any_done(td.get("next")):
                break
            td = env.step_mdp(td)
        else:
            td, following = env.step_and_maybe_reset(td)
            steps.append(td)
            if len(steps) == max_steps:
                break
            td = following
        if callback is not None:
            callback(env, td)
    out = torch.stack(steps, dim=env.ndim if env.batch_locked else steps[0].ndim)
    return finish(env, out, set_truncated)


def finish(env: EnvBase, out: TensorDictBase, set_truncated: bool) -> TensorDictBase:
    """Name the time dimension, and mark the last step if asked to."""
    out.names = [*out.names[:-1], "time"]
    if set_truncated:
        last = (*(slice(None),) * (out.ndim - 1), -1)
        for place in _flags.places(env.done_keys):
            done, truncated = out["next", *place, "done"], out["next", *place, "truncated"]
            truncated[last] |= ~done[last]
            done[last] = True
    return out
