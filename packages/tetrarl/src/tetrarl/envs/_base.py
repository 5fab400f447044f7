"""What every environment is: specs, and verbs that move collections through it."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from tetradict import NestedKey, TensorDict, TensorDictBase
from torch import nn

from tetrarl.data import Composite, TensorSpec
from tetrarl.envs import _flags, _specs
from tetrarl.envs._rollout import rollout
from tetrarl.envs._step_mdp import step_mdp

Policy = Callable[[TensorDictBase], TensorDictBase | None]


class EnvBase(nn.Module, metaclass=ABCMeta):
    """An environment, or a batch of them, that reads and writes tensor collections.

    A subclass sets its specs in ``__init__`` and writes three methods. ``_reset(tensordict, **kwargs)`` gives a new
    collection of first observations. ``_step(tensordict)`` reads the action and gives a new collection of what
    follows: observations, reward, and at least one of ``done``, ``terminated`` and ``truncated``; the others are
    derived. ``_set_seed(seed)`` seeds it.

    Data has one layout: at the root ``observation`` (or whatever the observations are called), ``action`` and the
    flags; under ``"next"`` what the step gave. Flags are bool and end, as the reward does, in a dimension of size 1.

    Args:
        device: where all data lies; ``None`` makes no promise.
        batch_size: of a batch of environments; ``[]`` for one.
        allow_done_after_reset: accept episodes that are over as they begin.

    Attributes:
        batch_locked: whether collections must have the batch size of the environment. A stateless one sets it False
            in its class.
        is_closed: whether :meth:`close` was called.

    Example:
        >>> class Walk(EnvBase):  # a step to the left or to the right, up to 3 from home
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.observation_spec = Composite(position=Bounded(-3, 3, (1,)))
        ...         self.action_spec = Bounded(-1, 1, (1,))
        ...     def _reset(self, tensordict=None):
        ...         return TensorDict({"position": torch.zeros(1)})
        ...     def _step(self, tensordict):
        ...         position = tensordict["position"] + tensordict["action"]
        ...         over = position.abs() >= 3
        ...         return TensorDict({"position": position.clamp(-3, 3), "reward": position, "terminated": over})
        ...     def _set_seed(self, seed):
        ...         torch.manual_seed(seed)
        >>> Walk().rollout(2)["next", "reward"].shape
        torch.Size([2, 1])
    """

    batch_locked: bool = True

    def __init__(
        self,
        *,
        device: torch.device | str | int | None = None,
        batch_size: Sequence[int] | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        super().__init__()
        self.device = None if device is None else torch.empty(0, device=device).device
        self.batch_size = torch.Size(batch_size or ())
        self.allow_done_after_reset = allow_done_after_reset
        self.is_closed = False
        self._specs = _specs.default_specs(self.batch_size, self.device)

    # ---- what a subclass writes

    @abstractmethod
    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase: ...

    @abstractmethod
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase: ...

    @abstractmethod
    def _set_seed(self, seed: int | None) -> None: ...

    # ---- specs

    @property
    def observation_spec(self) -> Composite:
        """Spec of the observations, always a composite; set it to one, or to a leaf named ``"observation"``."""
        return self._specs["observation"]

    @observation_spec.setter
    def observation_spec(self, spec: TensorSpec) -> None:
        self._set_spec("observation", spec)

    full_observation_spec = observation_spec

    @property
    def action_spec(self) -> TensorSpec:
        """Spec of the action: the leaf where there is one action, else the composite of all."""
        return _specs.only_leaf(self._specs["action"])

    @action_spec.setter
    def action_spec(self, spec: TensorSpec) -> None:
        self._set_spec("action", spec)

    @property
    def full_action_spec(self) -> Composite:
        """Spec of the actions, always a composite."""
        return self._specs["action"]

    @full_action_spec.setter
    def full_action_spec(self, spec: Composite) -> None:
        self._set_spec("action", spec)

    @property
    def reward_spec(self) -> TensorSpec:
        """Spec of the reward: the leaf where there is one reward, else the composite of all."""
        return _specs.only_leaf(self._specs["reward"])

    @reward_spec.setter
    def reward_spec(self, spec: TensorSpec) -> None:
        self._set_spec("reward", spec)

    @property
    def full_reward_spec(self) -> Composite:
        """Spec of the rewards, always a composite."""
        return self._specs["reward"]

    @full_reward_spec.setter
    def full_reward_spec(self, spec: Composite) -> None:
        self._set_spec("reward", spec)

    @property
    def done_spec(self) -> Composite:
        """Spec of ``done``, ``terminated`` and ``truncated``; those that a new value leaves out are added."""
        return self._specs["done"]

    @done_spec.setter
    def done_spec(self, spec: TensorSpec) -> None:
        self._set_spec("done", spec)

    full_done_spec = done_spec

    @property
    def state_spec(self) -> Composite:
        """Spec of what a step reads beside the action; empty for most environments."""
        return self._specs["state"]

    @state_spec.setter
    def state_spec(self, spec: TensorSpec) -> None:
        self._set_spec("state", spec)

    full_state_spec = state_spec

    @property
    def input_spec(self) -> Composite:
        """What a step reads: ``full_state_spec`` and ``full_action_spec``."""
        parts = {f"full_{name}_spec": self._specs[name] for name in ("state", "action")}
        return Composite(parts, shape=self.batch_size)

    @property
    def output_spec(self) -> Composite:
        """What a step gives: ``full_observation_spec``, ``full_reward_spec`` and ``full_done_spec``."""
        parts = {f"full_{name}_spec": self._specs[name] for name in ("observation", "reward", "done")}
        return Composite(parts, shape=self.batch_size)

    @property
    def specs(self) -> Composite:
        """``input_spec`` and ``output_spec``."""
        return Composite(output_spec=self.output_spec, input_spec=self.input_spec, shape=self.batch_size)

    @property
    def is_spec_locked(self) -> bool:
        """Whether specs refuse changes."""
        return all(spec.is_locked for spec in self._specs.values())

    def set_spec_lock_(self, mode: bool = True) -> Self:
        """Make all specs refuse changes, or allow them again."""
        for spec in self._specs.values():
            spec.lock_() if mode else spec.unlock_()
        return self

    def _set_spec(self, name: str, spec: TensorSpec) -> None:
        if self._specs[name].is_locked:
            raise RuntimeError(
                f"{type(self).__name__}.{name}_spec: the specs of this environment are locked, as it has read them; "
                "set_spec_lock_(False) unlocks them"
            )
        whole = _specs.as_composite(
            spec, name, self.batch_size, self.device, f"{type(self).__name__}.{name}_spec"
        )
        if name == "reward":
            _specs.check_reward(whole)
        self._specs[name] = _flags.complete_spec(whole) if name == "done" else whole

    # ---- keys

    @property
    def observation_keys(self) -> list[NestedKey]:
        """The keys of the observations; nested ones are tuples."""
        return self._specs["observation"].keys(True, True)

    @property
    def action_keys(self) -> list[NestedKey]:
        """The keys of the actions."""
        return self._specs["action"].keys(True, True)

    @property
    def reward_keys(self) -> list[NestedKey]:
        """The keys of the rewards."""
        return self._specs["reward"].keys(True, True)

    @property
    def done_keys(self) -> list[NestedKey]:
        """The keys of the flags, ``terminated`` and ``truncated`` among them."""
        return self._specs["done"].keys(True, True)

    @property
    def state_keys(self) -> list[NestedKey]:
        """The keys of what a step reads beside the action."""
        return self._specs["state"].keys(True, True)

    @property
    def reset_keys(self) -> list[NestedKey]:
        """The keys of the masks that tell :meth:`reset` which environments to reset."""
        return [(*place, _flags.MASK) if place else _flags.MASK for place in _flags.places(self.done_keys)]

    @property
    def action_key(self) -> NestedKey:
        """The key of the first action."""
        return self.action_keys[0]

    @property
    def reward_key(self) -> NestedKey:
        """The key of the first reward."""
        return self.reward_keys[0]

    @property
    def done_key(self) -> NestedKey:
        """The key of the first flag."""
        return self.done_keys[0]

    # ---- sizes

    @property
    def shape(self) -> torch.Size:
        """The batch size."""
        return self.batch_size

    @property
    def batch_dims(self) -> int:
        """How many batch dimensions there are."""
        return len(self.batch_size)

    ndim = batch_dims

    def ndimension(self) -> int:
        """How many batch dimensions there are."""
        return len(self.batch_size)

    def numel(self) -> int:
        """How many environments there are."""
        return self.batch_size.numel()

    # ---- verbs

    def reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Begin new episodes.

        Args:
            tensordict: receives the result and is returned; passed on to the environment, which may read it. A mask
                ``"_reset"`` in it, bool, of the shape of ``"done"``, chooses which of a batch are reset.
            **kwargs: passed on to the environment.

        Returns:
            First observations, and flags that are all False.

        Raises:
            RuntimeError: an episode is over as it begins.
        """
        where = _flags.places(self.done_keys)
        masks = _flags.masks_of(tensordict, where)
        fresh = self._reset(tensordict, **kwargs)
        self._check_result("_reset", fresh, tensordict)
        _flags.complete(fresh, self._specs["done"], where, after_reset=True)
        if not self.allow_done_after_reset and not masks and _flags.any_done(fresh, where):
            raise RuntimeError(
                f"{type(self).__name__}.reset: an episode is over as it begins; "
                "pass allow_done_after_reset=True to EnvBase where that is meant"
            )
        if masks:
            fresh = _flags.merge(fresh, tensordict, masks)
        if tensordict is None:
            return fresh
        for key in self.reset_keys:
            if key in tensordict:
                del tensordict[key]
        return tensordict.update(fresh)

    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Take the action in ``tensordict``, and put what follows under ``"next"``.

        Args:
            tensordict: holds the action, as well as what a stateless environment reads. Entries that a policy has put
                under ``"next"``, a recurrent state for one, stay there.

        Returns:
            ``tensordict`` itself.

        Raises:
            ValueError: its batch size is not that of the environment.
        """
        self._check_batch("step", tensordict)
        preset = tensordict.get("next", None)
        after = self._step(tensordict)
        self._check_result("_step", after, tensordict)
        _flags.complete(after, self._specs["done"], _flags.places(self.done_keys), after_reset=False)
        for key in self.reward_keys:
            reward = after.get(key, None)
            if reward is not None and reward.ndim == after.ndim:
                after.set(key, reward.unsqueeze(-1))
        if preset is not None:
            after.update(preset.exclude(*after.keys(True, True)))
        return tensordict.set("next", after)

    def step_mdp(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Make what the next step starts from out of what :meth:`step` gave."""
        return step_mdp(
            next_tensordict,
            reward_keys=self.reward_keys,
            done_keys=self.done_keys,
            action_keys=self.action_keys,
        )

    def any_done(self, tensordict: TensorDictBase) -> bool:
        """Whether an episode in ``tensordict`` is over."""
        return _flags.any_done(tensordict, _flags.places(self.done_keys))

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Reset the environments whose episode is over, and none else.

        Args:
            tensordict: observations and flags, as :meth:`step_mdp` gives them.

        Returns:
            ``tensordict`` itself, changed where something was reset.
        """
        where = _flags.places(self.done_keys)
        if not _flags.any_done(tensordict, where):
            return tensordict
        alone = where == [()] and not tensordict.batch_size
        return self.reset(tensordict if alone else _flags.mark(tensordict, where))

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Take the action in ``tensordict``; then begin new episodes where one is over.

        Returns:
            ``tensordict`` with the transition, and the collection that the next step starts from. At the end of an
            episode the first holds its last observation under ``"next"``, the second the first observation of the
            new one.
        """
        tensordict = self.step(tensordict)
        return tensordict, self.maybe_reset(self.step_mdp(tensordict))

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Put a random action into ``tensordict``, or into a new collection."""
        if tensordict is None:
            tensordict = TensorDict({}, self.batch_size, device=self.device)
        self._check_batch("rand_action", tensordict)
        action = self._specs["action"]
        return tensordict.update(action.rand(() if self.batch_locked else tensordict.batch_size))

    def rand_step(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Take a random action; see :meth:`step`."""
        return self.step(self.rand_action(tensordict))

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
        """Run steps one after the other, and stack them in time.

        Args:
            max_steps: how many steps at most.
            policy: reads a collection and puts the action into it; random actions by default.
            callback: called between steps as ``callback(env, tensordict)``, with the collection that the next step
                starts from.
            auto_reset: begin with a reset; else with ``tensordict``.
            break_when_any_done: stop where an episode is over; else begin a new one there and go on.
            tensordict: passed to the reset, or taken as the start.
            set_truncated: mark the last step as truncated where its episode was not over.

        Returns:
            Transitions of batch size ``[*batch_size, T]``, the last dimension named ``"time"``. Inside an episode the
            observation under ``"next"`` at t is that of the root at t + 1.

        Raises:
            ValueError: ``max_steps`` is not positive, or ``auto_reset`` is False and there is no ``tensordict``.

        Example:
            >>> env = GymEnv("CartPole-v1")
            >>> env.rollout(100, break_when_any_done=False)["next", "reward"].shape
            torch.Size([100, 1])
        """
        return rollout(
            self,
            max_steps,
            policy,
            callback,
            auto_reset=auto_reset,
            break_when_any_done=break_when_any_done,
            tensordict=tensordict,
            set_truncated=set_truncated,
        )

    def fake_tensordict(self) -> TensorDict:
        """One transition of zeros, with the keys, shapes and dtypes of a real one."""
        root = TensorDict({}, self.batch_size, device=self.device)
        after = root.clone()
        for name in ("state", "observation", "action", "done"):
            root.update(self._specs[name].zero())
        for name in ("observation", "reward", "done"):
            after.update(self._specs[name].zero())
        return root.set("next", after)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environment.

        Args:
            seed: the seed, or ``None`` for a fresh start.
            static_seed: give the same seed back, for environments that should all have it.

        Returns:
            The seed for the next environment.
        """
        self._set_seed(seed)
        if seed is None or static_seed:
            return seed
        return int(np.random.SeedSequence(seed).generate_state(1)[0])

    def to(self, device: torch.device | str | int) -> Self:
        """Deliver data on another device from now on."""
        self.device = torch.empty(0, device=device).device
        locked = self.is_spec_locked
        self._specs = {name: spec.to(self.device) for name, spec in self._specs.items()}
        self.set_spec_lock_(locked)
        return super().to(self.device)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Release what the environment holds.

        Args:
            raise_if_closed: raise where it was closed before.
        """
        if self.is_closed and raise_if_closed:
            raise RuntimeError(f"{type(self).__name__}.close: this environment is closed already")
        self.is_closed = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_size={list(self.batch_size)}, device={self.device})"

    # ---- checks

    def _check_batch(self, verb: str, tensordict: TensorDictBase) -> None:
        if self.batch_locked and tensordict.batch_size != self.batch_size:
            raise ValueError(
                f"{type(self).__name__}.{verb}: the collection's batch size must be {list(self.batch_size)}, "
                f"the environment's, got {list(tensordict.batch_size)}"
            )

    def _check_result(self, verb: str, result: Any, tensordict: TensorDictBase | None) -> None:
        if not isinstance(result, TensorDictBase):
            raise TypeError(
                f"{type(self).__name__}.{verb}: must return a collection, got a {type(result).__name__}"
            )
        if result is tensordict:
            raise ValueError(
                f"{type(self).__name__}.{verb}: must return a new collection, but gave back the one it got"
            )
