"""Actions: from tensors to what a gymnasium environment takes, and at random."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from tetradict import TensorDictBase
from torch import Tensor

from tetrarl.data import Categorical, Composite, MultiOneHot, OneHot, TensorSpec

BLOCK = 64


def action_codec(space: spaces.Space, spec: TensorSpec) -> ActionCodec:
    """The codec of a space whose spec ``spec_of`` makes."""
    if isinstance(spec, Composite):
        return TreeCodec(space, spec)
    if isinstance(spec, OneHot):
        return OneHotCodec(space, spec)
    if isinstance(spec, Categorical) and isinstance(space, spaces.Discrete):
        return IndexCodec(space, spec)
    return ActionCodec(space, spec)


class ActionCodec:
    """Reads an action from a tensor and draws random ones, for any space of arrays.

    Random actions follow torch's global generator. Single ones are drawn in blocks, each handed out once.

    Args:
        space: of the environment.
        spec: its spec, on the CPU.
    """

    def __init__(self, space: spaces.Space, spec: TensorSpec) -> None:
        self.spec = spec
        self._shape = spec.shape
        self._dtype = space.dtype
        self._start = getattr(space, "start", 0)
        self._shifted = bool(np.any(self._start))
        self._left: Iterator[Any] = iter(())

    def read(self, action: Tensor) -> Any:
        """The action as the environment takes it.

        Raises:
            ValueError: the action has another shape than its spec.
        """
        if type(action) is not Tensor or action.shape != self._shape:
            self._check(action)
        array = self.spec.to_numpy(action) if isinstance(self.spec, MultiOneHot) else as_array(action)
        array = array + self._start if self._shifted else array
        return array if array.dtype is self._dtype else array.astype(self._dtype, copy=False)

    def random(self) -> Any:
        """A random action."""
        action = next(self._left, None)
        if action is None:
            self._left = iter(self.spec.rand((BLOCK,)).unbind(0))
            action = next(self._left)
        return action

    def forget(self) -> None:
        """Drop what was drawn beforehand, so that a new seed is followed from the next action on."""
        self._left = iter(())

    def draw(self, count: int) -> tuple[Any, list[Any]]:
        """Random actions, ``[count, ...]``, and the same as the environment takes them."""
        actions = self.spec.rand((count,))
        arrays = self.spec.to_numpy(actions)
        return actions, list(arrays + self._start if self._shifted else arrays)

    def _check(self, action: Any) -> None:
        if isinstance(action, Tensor) and action.shape == self._shape:
            return
        got = list(action.shape) if isinstance(action, Tensor) else f"a {type(action).__name__}"
        hint = ""
        if isinstance(self.spec, (OneHot, MultiOneHot)):
            hint = "; actions are one-hot here: pass categorical_action_encoding=True to act by index"
        raise ValueError(f"step: the action must have shape {list(self._shape)}, got {got}{hint}")


class OneHotCodec(ActionCodec):
    """One choice, one-hot."""

    def __init__(self, space: spaces.Discrete, spec: OneHot) -> None:
        super().__init__(space, spec)
        self._choices = list(
            np.arange(spec.n) + space.start
        )  # of gymnasium's own type, which it checks fastest

    def read(self, action: Tensor) -> np.int64:
        if type(action) is not Tensor or action.shape != self._shape:
            self._check(action)
        flags = action.tolist()
        return self._choices[flags.index(max(flags))]


class IndexCodec(ActionCodec):
    """One choice, as an integer."""

    def read(self, action: Tensor) -> np.int64:
        if type(action) is not Tensor or action.shape != self._shape:
            self._check(action)
        return np.int64(action.item()) + self._start


class TreeCodec(ActionCodec):
    """Actions of several parts, nested under ``"action"``."""

    def __init__(self, space: spaces.Dict | spaces.Tuple, spec: Composite) -> None:
        super().__init__(space, spec)
        pairs = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        self._parts = {name: action_codec(part, spec[str(name)]) for name, part in pairs}
        self._tuple = isinstance(space, spaces.Tuple)

    def read(self, action: TensorDictBase) -> Any:
        if not isinstance(action, TensorDictBase):
            raise ValueError(
                f"step: the action must be a collection of {sorted(self.spec.keys())}, "
                f"got a {type(action).__name__}"
            )
        values = {name: part.read(action[str(name)]) for name, part in self._parts.items()}
        return tuple(values.values()) if self._tuple else values

    def draw(self, count: int) -> tuple[Any, list[Any]]:
        actions = self.spec.rand((count,))
        return actions, [self.read(action) for action in actions]


def as_array(tensor: Tensor) -> np.ndarray:
    """The array of a tensor, of its memory where possible."""
    try:
        return tensor.numpy()
    except (RuntimeError, TypeError):  # it has a gradient, or lies on another device
        return tensor.detach().cpu().numpy()
