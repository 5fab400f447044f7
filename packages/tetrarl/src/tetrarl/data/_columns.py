"""The tensors that a tensor storage is made of, found once and then written and read without a look at the keys.

A column is one leaf with room for all rows. Small rows on the CPU are copied and gathered by numpy, whose calls
cost a third of torch's; large ones by torch, which can use several threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from tetradict import TensorDict, TensorDictBase
from torch import Size, Tensor

_NUMPY_ROW_BYTES = 2048  # rows up to this size go through numpy
_INT64 = torch.int64


class Column:
    """One leaf: ``[capacity, *shape]``."""

    __slots__ = ("array", "dtype", "key", "on_host", "shape", "tensor")

    def __init__(self, tensor: Tensor, key: tuple[str, ...]) -> None:
        self.tensor = tensor.detach().as_subclass(Tensor)
        self.key = key
        self.shape = tuple(tensor.shape[1:])
        self.dtype = tensor.dtype
        self.on_host = tensor.device.type == "cpu"
        self.array: np.ndarray | None = None  # the same memory, for rows that numpy copies
        row_bytes = tensor.element_size() * math.prod(self.shape)
        if self.on_host and row_bytes <= _NUMPY_ROW_BYTES and tensor.dtype != torch.bfloat16:
            self.array = self.tensor.numpy()

    def check(self, value: Any, shape: tuple[int, ...]) -> None:
        """Refuse what can't be written into rows of the shape ``shape``."""
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{self._name()}: a tensor storage holds tensors, got {type(value).__name__}; use ListStorage"
            )
        if value.shape != (*shape, *self.shape):
            raise ValueError(
                f"{self._name()}: expected shape {(*shape, *self.shape)}, got {tuple(value.shape)}; "
                "the first write fixed the shape of a row"
            )
        if value.dtype is not self.dtype and not torch.can_cast(value.dtype, self.dtype):
            raise ValueError(
                f"{self._name()}: the storage holds {self.dtype}, got {value.dtype}; cast it first"
            )

    def write(self, rows: slice | int | Tensor, value: Tensor) -> None:
        """Write what was checked."""
        self.tensor[rows] = value.detach().to(self.tensor.device, self.dtype)

    def take(self, index: Tensor) -> Tensor:
        """Copies of rows, for what numpy doesn't gather: large rows, other devices, bfloat16."""
        if not self.on_host:
            return self.tensor.index_select(0, index)
        return torch.index_select(
            self.tensor, 0, index, out=_host_empty((len(index), *self.shape), self.dtype)
        )

    def _name(self) -> str:
        return f"storage entry {'/'.join(self.key)!r}" if self.key else "storage"


class Branch:
    """One level of a collection: its columns and the levels below, by name."""

    __slots__ = ("batch_tail", "children", "key")

    def __init__(self, td: TensorDictBase, key: tuple[str, ...]) -> None:
        self.key = key
        self.batch_tail = td.batch_size[1:]
        self.children: dict[str, Column | Branch] = {
            name: compile_columns(value, (*key, name)) for name, value in td.items()
        }

    def check(self, data: Any, shape: tuple[int, ...], writes: list[tuple[Column, Tensor]]) -> None:
        """Add every column with its new value to ``writes``; refuse other entries than those of the first write."""
        children = self.children
        if not isinstance(data, TensorDictBase):
            raise TypeError(
                f"storage: expected a TensorDict with {self._names(children)}, got {type(data).__name__}"
            )
        entries = data.items()
        if len(entries) != len(children):
            self._differ(data)
        for name, value in entries:
            child = children.get(name)
            if type(child) is Column:
                if (
                    type(value) is not Tensor
                    or value.dtype is not child.dtype
                    or value.shape != (*shape, *child.shape)
                ):
                    child.check(value, shape)
                writes.append((child, value))
            elif child is None:
                self._differ(data)
            else:
                child.check(value, shape, writes)

    def _differ(self, data: Any) -> None:
        found = set(data.keys())
        raise KeyError(
            f"storage: entries differ from those of the first write: missing {self._names(self.children.keys() - found)}, "
            f"new {self._names(found - self.children.keys())}"
        )

    def _names(self, names: Any) -> str:
        return "[" + ", ".join(repr("/".join((*self.key, name))) for name in sorted(names)) + "]"


def compile_columns(data: Any, key: tuple[str, ...] = ()) -> Column | Branch:
    """The columns of a collection of batch size ``[capacity, ...]``, or of one tensor."""
    if isinstance(data, TensorDictBase):
        return Branch(data, key)
    if not isinstance(data, Tensor):
        name = "/".join(key)
        raise TypeError(
            f"storage entry {name!r}: a tensor storage holds tensors, got {type(data).__name__}; use ListStorage"
        )
    return Column(data, key)


def write(node: Column | Branch, rows: slice | int | Tensor, shape: tuple[int, ...], data: Any) -> None:
    """Write rows, after all of them are found to fit.

    Args:
        node: of :func:`compile_columns`.
        rows: one row, rows that follow each other, or an index.
        shape: that rows have: ``()``, ``(N,)`` or that of the index.
        data: a collection with the entries of ``node``, or a tensor, of batch size ``[*shape, ...]``.
    """
    writes: list[tuple[Column, Tensor]] = []
    if type(node) is Column:
        node.check(data, shape)
        writes.append((node, data))
    else:
        node.check(data, shape, writes)
    if type(rows) is Tensor:
        for column, value in writes:
            column.write(rows, value)
        return
    for column, value in writes:
        if column.array is None or value.dtype is not column.dtype:
            column.write(rows, value)
            continue
        try:
            column.array[rows] = value.numpy()
        except (RuntimeError, TypeError):  # it needs gradients, lies on another device, is a lazy view
            column.write(rows, value)


def gather(node: Column | Branch, index: Tensor, array: np.ndarray, device: torch.device) -> Any:
    """Copies of rows.

    Args:
        node: of :func:`compile_columns`.
        index: ``[B]`` int64 on the device of the columns.
        array: the same as numpy sees it; read where columns lie on the CPU.
        device: of the columns, for the collection.
    """
    if type(node) is Column:
        if node.array is not None:
            return torch.from_numpy(node.array.take(array, 0))
        return node.take(index)
    out = {}
    for name, child in node.children.items():
        if type(child) is Column and child.array is not None:
            out[name] = torch.from_numpy(child.array.take(array, 0))
        else:
            out[name] = gather(child, index, array, device)
    return TensorDict.trusted(out, Size((len(index), *node.batch_tail)), device)


def first_rows(node: Column | Branch, count: int) -> Any:
    """The first ``count`` rows as plain tensors in nested dicts: shared if these are all rows, copied otherwise, since
    saving a part of a tensor would save the whole.
    """
    if type(node) is Branch:
        return {name: first_rows(child, count) for name, child in node.children.items()}
    return node.tensor if count == len(node.tensor) else node.tensor[:count].clone()


def allocate(data: Any, capacity: int, device: torch.device, key: tuple[str, ...] = ()) -> Any:
    """Room for ``capacity`` rows like those of ``data``, whose first dimension is one row or more.

    Raises:
        TypeError: an entry is no tensor.
    """
    if isinstance(data, TensorDictBase):
        entries = {name: allocate(value, capacity, device, (*key, name)) for name, value in data.items()}
        return TensorDict.trusted(entries, Size((capacity, *data.batch_size[1:])), device)
    compile_columns(data, key)
    shape = (capacity, *data.shape[1:])
    if device.type == "cpu":
        return _host_empty(shape, data.dtype)
    return torch.empty(shape, dtype=data.dtype, device=device)


def _host_empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """As ``torch.empty``, in numpy's memory: it asks the system for huge pages, which halves the time to fill it."""
    size_bytes = math.prod(shape) * dtype.itemsize
    return torch.from_numpy(np.empty(size_bytes, np.uint8)).view(dtype).view(shape)
