"""The tensors that a tensor storage is made of, found once and then written and read without a look at the keys.

A column is one leaf with room for all rows. Small rows on the CPU are copied and gathered by numpy, whose calls
cost a third of torch's; large ones by torch, which can use several threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tetradict import TensorDict, TensorDictBase
from torch import Size, Tensor

_NUMPY_ROW_BYTES = 2048  # rows up to this size go through numpy
_INT64 = torch.int64


class Column:
    """One leaf: ``[capacity, *shape]``."""

    __slots__ = ("array", "dtype", "key", "shape", "tensor")

    def __init__(self, tensor: Tensor, key: tuple[str, ...]) -> None:
        self.tensor = tensor.detach().as_subclass(Tensor)
        self.key = key
        self.shape = tuple(tensor.shape[1:])
        self.dtype = tensor.dtype
        self.array: np.ndarray | None = None
        row_bytes = tensor.element_size() * self.shape_size()
        if tensor.device.type == "cpu" and row_bytes <= _NUMPY_ROW_BYTES and tensor.dtype != torch.bfloat16:
            self.array = self.tensor.numpy()

    def shape_size(self) -> int:
        """Elements of one row."""
        return int(np.prod(self.shape))

    def write(self, rows: slice | int | Tensor, shape: tuple[int, ...], value: Any) -> None:
        """Write ``value``, of the shape ``shape`` of the rows followed by that of one row."""
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
        if self.array is not None and value.dtype is self.dtype and type(rows) is not Tensor:
            try:
                self.array[rows] = value.numpy()
            except (RuntimeError, TypeError):  # it needs gradients, lies on another device, is a lazy view
                self.tensor[rows] = value.detach().to(self.tensor.device)
            return
        self.tensor[rows] = value.detach().to(self.tensor.device, self.dtype)

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

    def write(self, rows: slice | int | Tensor, shape: tuple[int, ...], data: Any) -> None:
        """Write a collection into rows; see :meth:`Column.write`."""
        children = self.children
        if not isinstance(data, TensorDictBase | Mapping):
            raise TypeError(
                f"storage: expected a TensorDict with {self._names(children)}, got {type(data).__name__}"
            )
        entries = data.items()
        if len(entries) != len(children):
            self._differ(data)
        for name, value in entries:
            child = children.get(name)
            if child is None:
                self._differ(data)
            child.write(rows, shape, value)

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
        return node.tensor.index_select(0, index)
    out = {}
    for name, child in node.children.items():
        if type(child) is Column and child.array is not None:
            out[name] = torch.from_numpy(child.array.take(array, 0))
        else:
            out[name] = gather(child, index, array, device)
    return TensorDict.trusted(out, Size((len(index), *node.batch_tail)), device)


def allocate(data: Any, capacity: int, device: torch.device, key: tuple[str, ...] = ()) -> Any:
    """Room for ``capacity`` rows like those of ``data``, whose first dimension is one row or more.

    Raises:
        TypeError: an entry is no tensor.
    """
    if isinstance(data, TensorDictBase):
        entries = {name: allocate(value, capacity, device, (*key, name)) for name, value in data.items()}
        return TensorDict.trusted(entries, Size((capacity, *data.batch_size[1:])), device)
    compile_columns(data, key)
    return torch.empty((capacity, *data.shape[1:]), dtype=data.dtype, device=device)
