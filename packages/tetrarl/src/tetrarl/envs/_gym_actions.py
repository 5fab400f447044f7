"""Actions: from tensors to what a gymnasium environment takes, and at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from tetradict import TensorDictBase
from torch import Tensor

from tetrarl.data import Bounded, Categorical, Composite, MultiOneHot, OneHot, TensorSpec

MOST_ROWS = 64


def action_codec(space: spaces.Space, spec: TensorSpec) -> ActionCodec:
    """The codec of a space whose spec ``spec_of`` makes."""
    if isinstance(spec, Composite):
        return TreeCodec(space, spec)
    if isinstance(spec, OneHot):
        return OneHotCodec(space, spec)
    if isinstance(spec, Categorical) and isinstance(space, spaces.Discrete):
        return IndexCodec(space, spec)
    if isinstance(spec, Bounded) and _one_range(spec):
        return RangeCodec(space, spec)
    return ActionCodec(space, spec)


class ActionCodec:
    """Reads an action from a tensor and draws random ones, for any space of arrays.

    Args:
        space: of the environment.
        spec: its spec.
    """

    def __init__(self, space: spaces.Space, spec: TensorSpec) -> None:
        self.spec = spec
        self._shape = spec.shape
        self._dtype = space.dtype
        self._start = getattr(space, "start", 0)
        self._shifted = bool(np.any(self._start))

    def read(self, action: Tensor) -> Any:
        """The action as the environment takes it.

        Raises:
            ValueError: the action has another shape than its spec.
        """
        self._check(action)
        array = self._to_numpy(action)
        array = array + self._start if self._shifted else array
        return array if array.dtype == self._dtype else array.astype(self._dtype)

    def _to_numpy(self, action: Tensor) -> np.ndarray:
        return self.spec.to_numpy(action) if isinstance(self.spec, MultiOneHot) else as_array(action)

    def random(self) -> Tensor:
        """A random action, by torch's global generator."""
        return self.spec.rand()

    def draw(self, count: int) -> tuple[Any, list[Any]]:
        """Random actions, ``[count, ...]``, and the same as the environment takes them."""
        actions = self.spec.rand((count,))
        arrays = self.spec.to_numpy(actions) + self._start if self._shifted else self.spec.to_numpy(actions)
        return actions, list(arrays)

    def _check(self, action: Tensor) -> None:
        if not isinstance(action, Tensor) or action.shape != self._shape:
            got = list(action.shape) if isinstance(action, Tensor) else f"a {type(action).__name__}"
            hint = ""
            if isinstance(self.spec, (OneHot, MultiOneHot)):
                hint = "; actions are one-hot here: pass categorical_action_encoding=True to act by index"
            raise ValueError(f"step: the action must have shape {list(self._shape)}, got {got}{hint}")


class _RowCodec(ActionCodec):
    """Draws single actions into rows of a block, each handed out once."""

    def __init__(self, space: spaces.Space, spec: TensorSpec) -> None:
        super().__init__(space, spec)
        self._next = self._size = 0

    def _row(self) -> int:
        """The next row, of ``_rows`` and ``_block``."""
        row = self._next
        if row == self._size:
            self._size = min(max(self._size * 2, 16), MOST_ROWS)
            self._block = torch.zeros(self._size, *self._shape, dtype=self.spec.dtype)
            self._rows = self._block.unbind(0)
            self._flags = self._block.numpy()
            row = 0
        self._next = row + 1
        return row


class OneHotCodec(_RowCodec):
    """One choice, one-hot."""

    def __init__(self, space: spaces.Discrete, spec: OneHot) -> None:
        super().__init__(space, spec)
        self._die = torch.zeros(1, dtype=torch.int64)
        self._face = self._die.numpy()

    def read(self, action: Tensor) -> np.int64:
        if type(action) is not Tensor or action.shape != self._shape:
            self._check(action)
        index = as_array(action).argmax()
        return index + self._start if self._shifted else index

    def random(self) -> Tensor:
        row = self._row()
        self._die.random_(0, self.spec.n)
        self._flags[row, self._face[0]] = 1
        return self._rows[row]


class IndexCodec(_RowCodec):
    """One choice, as an integer."""

    def read(self, action: Tensor) -> np.int64:
        self._check(action)
        return as_array(action)[()] + self._start

    def random(self) -> Tensor:
        row = self._row()
        return self._rows[row].random_(0, self.spec.n)


class RangeCodec(_RowCodec):
    """Floats that all have the same two finite bounds."""

    def __init__(self, space: spaces.Box, spec: Bounded) -> None:
        super().__init__(space, spec)
        self._low, self._high = spec.low.flatten()[0].item(), spec.high.flatten()[0].item()

    def random(self) -> Tensor:
        row = self._row()
        return self._rows[row].uniform_(self._low, self._high)


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
        return self._join({name: part.read(action[str(name)]) for name, part in self._parts.items()})

    def draw(self, count: int) -> tuple[Any, list[Any]]:
        actions = self.spec.rand((count,))
        return actions, [self.read(action) for action in actions]

    def _join(self, values: dict[Any, Any]) -> Any:
        return tuple(values.values()) if self._tuple else values


def as_array(tensor: Tensor) -> np.ndarray:
    """The array of a tensor, of its memory where possible."""
    try:
        return tensor.numpy()
    except (RuntimeError, TypeError):  # it has a gradient, or lies on another device
        return tensor.detach().cpu().numpy()


def _one_range(spec: Bounded) -> bool:
    low, high = spec.low.flatten(), spec.high.flatten()
    if not (spec.domain == "continuous" and low.numel()):
        return False
    return bool((low == low[0]).all() & (high == high[0]).all() & (high[0] - low[0]).isfinite())
