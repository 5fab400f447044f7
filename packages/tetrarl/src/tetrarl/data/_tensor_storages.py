"""Storages of tensors: given, allocated at the first write, or memory-mapped then."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tetradict import TensorDict, TensorDictBase
from torch import Tensor

from tetrarl.data._columns import Branch, Column, allocate, compile_columns, first_rows, gather, write
from tetrarl.data._storages import Storage

_CPU = torch.device("cpu")


class TensorStorage(Storage):
    """Rows kept in given tensors, all of which hold data from the start.

    Args:
        storage: a TensorDict of batch size ``[N, ...]`` or a tensor ``[N, ...]``; written in place.

    Raises:
        TypeError: an entry is no tensor.
        ValueError: it has no first dimension, or no row.

    Example:
        >>> storage = TensorStorage(TensorDict({"x": torch.arange(4)}, [4]))
        >>> storage.get(torch.tensor([3, 0]))["x"]
        tensor([3, 0])
    """

    def __init__(self, storage: TensorDictBase | Tensor) -> None:
        if not storage.shape:
            raise ValueError("TensorStorage: expected a first dimension of rows, got batch size []")
        super().__init__(storage.shape[0])
        self.device = _device_of(storage)
        self._storage: TensorDictBase | Tensor | None = None
        self._columns: Column | Branch | None = None
        self._adopt(storage)
        self._len = self.max_size

    def set(self, cursor: int | slice | Sequence[int] | Tensor, data: Any) -> None:
        """Write one row at an int, or rows at a slice (start and stop given, step 1) or an index.

        Raises:
            KeyError: entries differ from those of the first write.
            ValueError: a row's shape differs, or its dtype can't be cast without loss of kind.
            IndexError: a position lies outside the room, or leaves a gap of rows without data.
        """
        rows, shape, last = self._rows(cursor)
        if self._columns is None:
            self._adopt(self._room_for(data if shape else data[None]))
        write(self._columns, rows, shape, data)
        self._len = max(self._len, last + 1)

    def get(self, index: int | slice | Sequence[int] | Tensor) -> Any:
        """Rows by position: views for an int or a slice, copies for an index.

        An index of integers is trusted to name rows that hold data; a buffer checks what its user gives.

        Raises:
            IndexError: the storage was never written.
        """
        if self._columns is None:
            raise IndexError(f"{type(self).__name__}: no row yet; extend the buffer first")
        if type(index) is not Tensor or index.dtype is not torch.int64 or index.ndim != 1:
            if isinstance(index, int | slice) or index is Ellipsis:
                return self._storage[: self._len][index]
            index = torch.as_tensor(index)
            if index.ndim != 1 or index.dtype.is_floating_point:
                return self._storage[: self._len][index]
            index = index.nonzero().flatten() if index.dtype == torch.bool else index.long()
        if self.device.type == "cpu":
            return gather(self._columns, index, index.numpy(), self.device)
        return gather(self._columns, index.to(self.device), None, self.device)

    def __len__(self) -> int:
        return self._len

    def empty(self) -> None:
        """Forget all rows; their room stays."""
        self._len = 0

    def state_dict(self) -> dict[str, Any]:
        """The rows that hold data as (nested dicts of) tensors, which may share memory with the storage."""
        if self._columns is None:
            return {"rows": None, "batch_size": None}
        rows = first_rows(self._columns, self._len)
        return {
            "rows": rows,
            "batch_size": [self._len, *self._columns.batch_tail] if isinstance(rows, dict) else None,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copy the rows of another storage over the first ones.

        Raises:
            ValueError: there is no room for them.
        """
        rows, batch_size = state_dict["rows"], state_dict["batch_size"]
        self.empty()
        if rows is None:
            return
        data = rows if batch_size is None else TensorDict(rows, batch_size=batch_size)
        if len(data) > self.max_size:
            raise ValueError(
                f"{type(self).__name__}: room for {self.max_size} rows, the state holds {len(data)}"
            )
        if len(data):
            self.set(slice(0, len(data)), data)

    def __repr__(self) -> str:
        kept = self._storage[: self._len] if self._columns is not None else None
        return f"{type(self).__name__}(len={self._len}, max_size={self.max_size}, device={self.device}, data={kept})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_columns": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._storage is not None:
            self._columns = compile_columns(self._storage)

    def _adopt(self, storage: TensorDictBase | Tensor) -> None:
        self._columns = compile_columns(storage)
        self._storage = storage

    def _room_for(self, data: Any) -> Any:
        raise AssertionError("a TensorStorage has its room from the start")

    def _rows(self, cursor: Any) -> tuple[int | slice | Tensor, tuple[int, ...], int]:
        """The rows to write, the shape they give to the data, and the last of them."""
        if isinstance(cursor, slice):
            first, last, count = cursor.start, cursor.stop - 1, cursor.stop - cursor.start
            rows, shape = cursor, (count,)
        elif isinstance(cursor, int):
            first = last = rows = cursor + self._len if cursor < 0 else cursor
            shape = ()
        else:
            rows = torch.as_tensor(cursor).cpu()
            rows = rows.nonzero().flatten() if rows.dtype == torch.bool else rows
            shape = tuple(rows.shape)
            first, last = (int(rows.min()), int(rows.max())) if rows.numel() else (0, -1)
            if last >= self._len and len(rows[rows >= self._len].unique()) < last + 1 - self._len:
                first = last  # rows without data would stay before the last
            rows = rows if self.device is None else rows.to(self.device)
        if first < 0 or last >= self.max_size or first > self._len:
            raise IndexError(
                f"{type(self).__name__}: rows {first} to {last} of {self._len} that hold data, room for {self.max_size}"
            )
        return rows, shape, last


class LazyTensorStorage(TensorStorage):
    """Rows kept in tensors that the first write shapes.

    Args:
        max_size: rows it has room for, allocated at the first write.
        device: where they are kept; ``"auto"`` is the device of the first write.

    Example:
        >>> storage = LazyTensorStorage(10)
        >>> storage.set(slice(0, 2), TensorDict({"x": torch.ones(2, 3)}, [2]))
        >>> len(storage), storage[:]["x"].shape
        (2, torch.Size([2, 3]))
    """

    def __init__(self, max_size: int, *, device: torch.device | str = "cpu") -> None:
        Storage.__init__(self, max_size)
        self.device = None if device == "auto" else torch.device(device)
        self._storage = self._columns = None
        self._len = 0

    def _room_for(self, data: Any) -> Any:
        if self.device is None:
            self.device = _device_of(data)
        return allocate(data, self.max_size, self.device)


class LazyMemmapStorage(LazyTensorStorage):
    """Rows kept in memory-mapped files that the first write shapes.

    The folder is a memory-mapped collection of batch size ``[max_size]`` that other processes may open with
    ``TensorDict.load_memmap(scratch_dir)`` while this one writes; rows not written yet are zeros there.

    Args:
        max_size: rows it has room for. Files have that size from the start; the disk fills as rows are written.
        scratch_dir: folder for the files, made if needed. Without it, a temporary one that goes with the storage.
        device: where batches are put; the files are on the host's disk.
        existsok: write over a collection that ``scratch_dir`` already holds.

    Raises:
        FileExistsError: at the first write, ``scratch_dir`` holds a collection.

    Example:
        >>> storage = LazyMemmapStorage(10)
        >>> storage.set(0, TensorDict({"x": torch.ones(3)}, []))
        >>> storage.get(torch.tensor([0]))["x"]
        tensor([[1., 1., 1.]])
    """

    def __init__(
        self,
        max_size: int,
        *,
        scratch_dir: str | Path | None = None,
        device: torch.device | str = "cpu",
        existsok: bool = False,
    ) -> None:
        super().__init__(max_size)
        self._read_device = torch.device(device)
        self.scratch_dir = None if scratch_dir is None else Path(scratch_dir)
        self._existsok = existsok

    def get(self, index: int | slice | Sequence[int] | Tensor) -> Any:
        """Rows by position, on the device that batches are put on; see :meth:`TensorStorage.get`."""
        data = super().get(index)
        return data if self._read_device.type == "cpu" else data.to(self._read_device)

    def _room_for(self, data: Any) -> Any:
        if self.scratch_dir is None:
            self.scratch_dir = Path(tempfile.mkdtemp(prefix="tetrarl-"))
            weakref.finalize(self, shutil.rmtree, self.scratch_dir, ignore_errors=True)
        if isinstance(data, Tensor):
            raise TypeError("LazyMemmapStorage: keeps TensorDicts; wrap the tensor in one")
        row = allocate(data, 1, self.device)
        return row.expand(self.max_size, *row.batch_size[1:]).memmap_like(
            self.scratch_dir, existsok=self._existsok
        )


def _device_of(data: TensorDictBase | Tensor) -> torch.device:
    if isinstance(data, Tensor):
        return data.device
    devices = {leaf.device for _, leaf in data.items(include_nested=True, leaves_only=True)}
    if len(devices) > 1:
        raise ValueError(f"storage: expected all entries on one device, got {sorted(map(str, devices))}")
    return next(iter(devices), _CPU)
