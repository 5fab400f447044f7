"""Whether an environment does what its specs say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tetradict import TensorDictBase
from torch import Tensor

from tetrarl.data import Composite

if TYPE_CHECKING:
    from tetrarl.envs._base import EnvBase

STEPS = 3


def check_env_specs(env: EnvBase, *, check_dtype: bool = True, seed: int | None = None) -> None:
    """Run an environment for a few steps and compare what it gives with its specs.

    The keys, shapes, dtypes and devices must be those of ``env.fake_tensordict()``, and every value legal; flags
    must be unset at the root, and each step must start from what the one before gave.

    Args:
        env: the environment; it is reset and stepped.
        check_dtype: compare dtypes, and whether values are legal.
        seed: for the environment and for torch, whose state is put back afterwards.

    Raises:
        AssertionError: with every difference found.

    Example:
        >>> check_env_specs(GymEnv("CartPole-v1"))
    """
    with torch.random.fork_rng(enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
            env.set_seed(seed)
        fake = env.fake_tensordict()
        td = env.reset() if env.batch_locked else env.reset(env.fake_tensordict())
        for step in range(STEPS):
            where = f"at step {step}"
            td, following = env.step_and_maybe_reset(env.rand_action(td))
            faults = [
                *_differences(fake, td, check_dtype),
                *(_illegal(env, td) if check_dtype else ()),
                *_broken_chain(env, td, following),
            ]
            if faults:
                raise AssertionError(f"check_env_specs: {env!r}, {where}:\n  " + "\n  ".join(faults))
            td = following


def _differences(fake: TensorDictBase, real: TensorDictBase, check_dtype: bool) -> list[str]:
    wanted, given = (dict(td.items(True, True)) for td in (fake, real))
    faults = [f"{key!r} is in the specs, but not in the data" for key in wanted if key not in given]
    faults += [f"{key!r} is in the data, but not in the specs" for key in given if key not in wanted]
    for key in wanted.keys() & given.keys():
        want, got = wanted[key], given[key]
        if not (isinstance(want, Tensor) and isinstance(got, Tensor)):
            continue
        aspects = ("shape", "dtype", "device") if check_dtype else ("shape", "device")
        faults += [
            f"{key!r} has {aspect} {getattr(got, aspect)}, by its spec it is {getattr(want, aspect)}"
            for aspect in aspects
            if getattr(got, aspect) != getattr(want, aspect)
        ]
    return faults


def _illegal(env: EnvBase, td: TensorDictBase) -> list[str]:
    inputs, outputs = [env.full_action_spec, env.state_spec], [env.full_reward_spec]
    both = [env.observation_spec, env.done_spec]
    faults = _not_in(td, [*inputs, *both], ())
    return faults + _not_in(td["next"], [*outputs, *both], ("next",))


def _not_in(td: TensorDictBase, specs: list[Composite], prefix: tuple[str, ...]) -> list[str]:
    faults = []
    for spec in specs:
        for key, leaf in spec.items(True, True):
            path = (key,) if isinstance(key, str) else key
            value = td.get(path, None)
            if value is not None and not leaf.is_in(value):
                faults.append(f"{(*prefix, *path)!r} is not in its spec {leaf!r}")
    return faults


def _broken_chain(env: EnvBase, td: TensorDictBase, following: TensorDictBase) -> list[str]:
    faults = []
    for key in env.done_keys:
        if bool(td[key].any()):
            faults.append(f"{key!r} is set at the root, where an episode goes on")
    if not env.any_done(td["next"]):
        after = td["next"]
        faults += [
            f"{key!r} of the next root is not what the step gave"
            for key in env.observation_keys
            if key in after and key in following and not torch.equal(after[key], following[key])
        ]
    return faults
