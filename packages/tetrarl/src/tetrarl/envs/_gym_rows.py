"""Rows of arrays that are handed out as tensors: a transition costs no allocation of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tetradict import TensorDict, TensorDictBase
from torch import Tensor

from tetrarl.envs._gym_spaces import Field

BLOCK_BYTES = 1 << 18
NO_BATCH = torch.Size([])
MOST_ROWS = 64  # more of them leave the cache before they are handed out


class Block:
    """Arrays of K rows for observations, flags and reward, all zeros, and the tensors that view each row.

    Every row is written and handed out once. A block lives as long as a tensor of it does, and is not used again:
    what was handed out stays as it was.

    Attributes:
        observations: one array a field, ``[K, *field.shape]``.
        done: bool, ``[K]``; so are ``terminated`` and ``truncated``.
        reward: float32, ``[K]``.
        rows: for each row a tuple of tensors: the observations, ``done``, ``terminated``, ``truncated``, ``reward``.
    """

    __slots__ = ("done", "observations", "reward", "rows", "size", "terminated", "truncated")

    def __init__(self, fields: Sequence[Field], size: int) -> None:
        self.size = size
        self.observations = empty_columns(fields, size)
        self.done, self.terminated, self.truncated = flags = np.zeros((3, size), bool)
        self.reward = np.zeros(size, np.float32)
        ones = [array.reshape(size, 1) for array in (*flags, self.reward)]
        self.rows = rows_of([*self.observations, *ones])


def empty_columns(fields: Sequence[Field], size: int) -> list[np.ndarray]:
    """One array of zeros a field, ``[size, *field.shape]``."""
    return [np.zeros((size, *field.shape), field.dtype) for field in fields]


def rows_of(columns: Sequence[np.ndarray]) -> list[tuple[Tensor, ...]]:
    """For each row a tuple of tensors that view it, one a column."""
    return list(zip(*(torch.from_numpy(column).unbind(0) for column in columns), strict=True))


def rows_per_block(fields: Sequence[Field]) -> int:
    """How many rows a block may have: as many as fill about 256 KiB, at most 64."""
    row_bytes = sum(field.dtype.itemsize * int(np.prod(field.shape)) for field in fields)
    return int(np.clip(BLOCK_BYTES // max(row_bytes, 1), 1, MOST_ROWS))


class Layout:
    """How a row, or columns of rows, become collections.

    Args:
        fields: the observations.
        device: where the collections say they lie.

    Attributes:
        root_keys: the keys of a root, in the order of a row.
        after_keys: the same for what stands under ``"next"``: the reward too.
        nested: whether any key is nested; where none is, ``root_names`` and ``after_names`` are these keys as words.
        expected: the names of a root and of an action: a collection with no other names has nothing to carry over.
    """

    __slots__ = ("_device", "after_keys", "after_names", "expected", "nested", "root_keys", "root_names")

    def __init__(self, fields: Sequence[Field], device: torch.device | None) -> None:
        flags = [("done",), ("terminated",), ("truncated",)]
        self.root_keys = [*(field.key for field in fields), *flags]
        self.after_keys = [*self.root_keys, ("reward",)]
        self.nested = any(len(key) > 1 for key in self.root_keys)
        self.root_names = tuple(key[0] for key in self.root_keys)
        self.after_names = (*self.root_names, "reward")
        self.expected = frozenset((*self.root_names, "action"))
        self._device = device

    def root(self, row: Sequence[Any], batch_size: torch.Size = NO_BATCH) -> TensorDict:
        """Observations and flags; the reward of the row is left aside."""
        return self._tree(self.root_keys, row, batch_size)

    def after(self, row: Sequence[Any], batch_size: torch.Size = NO_BATCH) -> TensorDict:
        """Observations, flags and reward."""
        return self._tree(self.after_keys, row, batch_size)

    def is_plain(self, td: TensorDictBase) -> bool:
        """Whether ``td`` surely has nothing to carry over to the next step."""
        return not self.nested and self.expected.issuperset(td.keys())

    def _tree(
        self, keys: Sequence[tuple[str, ...]], row: Sequence[Any], batch_size: torch.Size
    ) -> TensorDict:
        levels: dict[str, Any] = {}
        below: dict[str, list[tuple[tuple[str, ...], Any]]] = {}
        for (name, *rest), value in zip(keys, row, strict=False):
            if rest:
                below.setdefault(name, []).append((tuple(rest), value))
            else:
                levels[name] = value
        for name, entries in below.items():
            inner_keys, values = zip(*entries, strict=True)
            levels[name] = self._tree(inner_keys, values, batch_size)
        return TensorDict.trusted(levels, batch_size, self._device)
