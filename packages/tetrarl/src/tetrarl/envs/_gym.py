"""gymnasium environments."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Self

import gymnasium
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from tetradict import TensorDict, TensorDictBase

from tetrarl.data import Composite, Unbounded
from tetrarl.envs._base import EnvBase, Policy
from tetrarl.envs._gym_actions import action_codec
from tetrarl.envs._gym_driver import Driver, frame_field
from tetrarl.envs._gym_rollout import policy_rollout, random_rollout
from tetrarl.envs._gym_spaces import Field, fields_of, spec_of
from tetrarl.envs._rollout import check_rollout, finish


class GymWrapper(EnvBase):
    """A gymnasium environment that reads and writes tensor collections.

    The observation stands under ``"observation"``; the parts of a Dict observation under their own names; those of
    a Tuple under ``("observation", "0")`` and so on. Its dtype is kept. The reward is float32. What the environment
    calls terminated and truncated is kept apart, and ``"done"`` is either.

    What a step needs is worked out once, as the environment is wrapped. Tensors are rows of larger blocks (at most
    64 rows or 256 KiB): one that is kept keeps its block; ``clone`` it where that matters. Random actions follow
    torch's global generator; single ones are drawn in blocks, which :meth:`reset` begins anew.

    Args:
        env: the environment. It is the wrapper's from now on.
        categorical_action_encoding: write choices, of actions and of observations, as integers; else one-hot, int64.
        from_pixels: render a picture at each step, under ``"pixels"``, uint8, ``[H, W, 3]``. The environment must
            have been made with ``render_mode="rgb_array"``; it is reset once, to learn the size of its pictures.
        pixels_only: with ``from_pixels``, leave out the other observations.
        frame_skip: repeat each action this often, and add the rewards up.
        device: where all data lies. The simulator stays on the CPU.

    Raises:
        TypeError: ``env`` is no gymnasium environment, or has a space for which there is no spec.
        ValueError: pictures are asked of an environment that draws none, or ``frame_skip`` is not positive.

    Example:
        >>> import gymnasium
        >>> env = GymWrapper(gymnasium.make("CartPole-v1"), categorical_action_encoding=True)
        >>> env.action_spec.n
        2
    """

    libname: str = "gymnasium"

    def __init__(
        self,
        env: gymnasium.Env,
        categorical_action_encoding: bool = False,
        *,
        from_pixels: bool = False,
        pixels_only: bool = True,
        frame_skip: int | None = None,
        device: torch.device | str | int | None = None,
    ) -> None:
        _check_env(env, from_pixels, frame_skip)
        super().__init__(device=device)
        self._env = env
        fields = self._read_spaces(categorical_action_encoding, from_pixels, pixels_only)
        codec = action_codec(env.action_space, self.full_action_spec["action"].to("cpu"))
        self._driver = Driver(env, fields, codec, frame_skip, self.device)
        self.set_spec_lock_()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A subclass that steps or resets in its own way takes the general way through it."""
        super().__init_subclass__(**kwargs)
        if {"_step", "_reset"} & vars(cls).keys():
            for name in ("step", "step_and_maybe_reset", "rollout"):
                if name not in vars(cls):
                    setattr(cls, name, getattr(EnvBase, name))

    def _read_spaces(self, categorical: bool, from_pixels: bool, pixels_only: bool) -> list[Field]:
        """Set the specs, and give the fields of the observations."""
        space = self._env.observation_space
        fields, specs = [], Composite()
        if not (from_pixels and pixels_only):
            specs = spec_of(space, categorical, "observation_space")
            at_root = isinstance(space, spaces.Dict)
            specs = specs if at_root else Composite(observation=specs)
            fields = fields_of(space, categorical, () if at_root else ("observation",))
        if from_pixels:
            frames = frame_field(self._env)
            fields.append(frames)
            specs["pixels"] = Unbounded(frames.shape, "cpu", torch.uint8)
        self.observation_spec = specs
        self.action_spec = Composite(action=spec_of(self._env.action_space, categorical, "action_space"))
        return fields

    # ---- verbs

    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if tensordict.batch_size:
            self._check_batch("step", tensordict)
        self._driver.advance(tensordict)
        return tensordict

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        if tensordict.batch_size:
            self._check_batch("step_and_maybe_reset", tensordict)
        return tensordict, self._driver.transition(tensordict)

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        if tensordict is None:
            tensordict = TensorDict({}, device=self.device)
        elif tensordict.batch_size:
            self._check_batch("rand_action", tensordict)
        driver = self._driver
        action = driver.actions.random()
        tensordict["action"] = action if driver.far is None else action.to(driver.far)
        return tensordict

    def rollout(
        self,
        max_steps: int,
        policy: Policy | None = None,
        callback: Callable[[EnvBase, TensorDictBase], Any] | None = None,
        *,
        auto_reset: bool = True,
        break_when_any_done: bool = True,
        tensordict: TensorDictBase | None = None,
        set_truncated: bool = False,
    ) -> TensorDictBase:
        if callback is not None or tensordict is not None:
            return super().rollout(
                max_steps,
                policy,
                callback,
                auto_reset=auto_reset,
                break_when_any_done=break_when_any_done,
                tensordict=tensordict,
                set_truncated=set_truncated,
            )
        check_rollout(max_steps, auto_reset, tensordict)
        if policy is None:
            out = random_rollout(self._driver, max_steps, break_when_any_done)
        else:
            out = policy_rollout(self._driver, max_steps, policy, break_when_any_done)
        if self._driver.far is not None:
            out = out.to(self._driver.far)
        return finish(self, out, set_truncated)

    def to(self, device: torch.device | str | int) -> Self:
        super().to(device)
        self._driver.place(self.device)
        return self

    def close(self, *, raise_if_closed: bool = True) -> None:
        super().close(raise_if_closed=raise_if_closed)
        self._env.close()

    def __getattr__(self, name: str) -> Any:
        """Look up what the wrapper lacks in the environment: ``env.unwrapped``, ``env.render()``."""
        if name.startswith("_"):
            return super().__getattr__(name)
        return getattr(self._env, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._env}, device={self.device})"

    # ---- what EnvBase calls

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDict:
        self._driver.actions.forget()
        return self._driver.first(**kwargs)

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        return self._driver.advance(tensordict.copy())[0]

    def _set_seed(self, seed: int | None) -> None:
        self._driver.seed = seed


class GymEnv(GymWrapper):
    """A gymnasium environment, made by its name.

    Args:
        env_name: as ``gymnasium.make`` takes it.
        categorical_action_encoding: see :class:`GymWrapper`.
        from_pixels: see :class:`GymWrapper`; the environment is made with ``render_mode="rgb_array"``.
        pixels_only: see :class:`GymWrapper`.
        frame_skip: see :class:`GymWrapper`.
        device: see :class:`GymWrapper`.
        disable_env_checker: leave out gymnasium's own checks of the environment.
        **kwargs: passed on to ``gymnasium.make``.

    Raises:
        ValueError: gymnasium knows no environment of this name; the nearest names are told.

    Example:
        >>> env = GymEnv("CartPole-v1")
        >>> env.set_seed(0) != 0
        True
        >>> env.reset()["observation"]
        tensor([ 0.0137, -0.0230, -0.0459, -0.0483])
        >>> env.rollout(3, break_when_any_done=False).batch_size
        torch.Size([3])
    """

    def __init__(
        self,
        env_name: str,
        *,
        categorical_action_encoding: bool = False,
        from_pixels: bool = False,
        pixels_only: bool = True,
        frame_skip: int | None = None,
        device: torch.device | str | int | None = None,
        disable_env_checker: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if from_pixels:
            kwargs.setdefault("render_mode", "rgb_array")
        super().__init__(
            _make(env_name, disable_env_checker, kwargs),
            categorical_action_encoding,
            from_pixels=from_pixels,
            pixels_only=pixels_only,
            frame_skip=frame_skip,
            device=device,
        )
        self.env_name = env_name

    def __repr__(self) -> str:
        return f"GymEnv({self.env_name!r}, device={self.device})"


def _make(env_name: str, disable_env_checker: bool | None, kwargs: dict[str, Any]) -> gymnasium.Env:
    try:
        return gymnasium.make(env_name, disable_env_checker=disable_env_checker, **kwargs)
    except gymnasium.error.UnregisteredEnv as error:
        close = get_close_matches(env_name, list(gymnasium.registry), n=3)
        told = f"the nearest names are {close}" if close else "gymnasium.registry lists those there are"
        raise ValueError(f"GymEnv: gymnasium has no environment {env_name!r}; {told}") from error


def _check_env(env: Any, from_pixels: bool, frame_skip: int | None) -> None:
    if isinstance(env, VectorEnv):
        raise TypeError(
            f"GymWrapper: takes a single environment, got {env}, which is a batch of them; wrap one of its kind"
        )
    if not isinstance(env, gymnasium.Env):
        raise TypeError(f"GymWrapper: env must be a gymnasium.Env, got a {type(env).__name__}")
    if from_pixels and env.render_mode != "rgb_array":
        raise ValueError(
            f'GymWrapper: from_pixels wants an environment made with render_mode="rgb_array", got {env.render_mode!r}'
        )
    if frame_skip is not None and frame_skip < 1:
        raise ValueError(f"GymWrapper: frame_skip must be 1 or more, got {frame_skip}")
