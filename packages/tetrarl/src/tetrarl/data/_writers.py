"""Where in a storage new rows go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from tetradict import TensorDictBase
from torch import Tensor

from tetrarl.data._storages import Storage


class Writer(ABC):
    """Puts rows into the storage it is registered with."""

    _storage: Storage | None = None
    write_count = 0  # rows written in all

    def register_storage(self, storage: Storage) -> None:
        """Write into this storage from now on."""
        self._storage = storage

    @abstractmethod
    def add(self, data: Any) -> int:
        """Write one row; returns its position."""

    @abstractmethod
    def extend(self, data: Any) -> Tensor:
        """Write rows; returns their positions, int64."""

    def empty(self, write_count: bool = True) -> None:  # noqa: B027  (optional)
        """Start over with the first row.

        Args:
            write_count: also count rows from zero.
        """

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` takes."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:  # noqa: B027  (optional)
        """Go on where another writer was."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RoundRobinWriter(Writer):
    """Row after row, and over the oldest when the storage is full."""

    def __init__(self) -> None:
        self._cursor = 0
        self.write_count = 0

    def add(self, data: Any) -> int:
        """Write one row; returns its position."""
        position = self._cursor
        self._storage.set(position, data)
        self._cursor = (position + 1) % self._storage.max_size
        self.write_count += 1
        return position

    def extend(self, data: Any) -> Tensor:
        """Write rows, of which the last ``max_size`` stay; returns the position of each, ``[N]`` int64.

        Args:
            data: a TensorDict or tensor whose first dimension counts rows, or for a list storage any sequence.
        """
        count, room, start = len(data), self._storage.max_size, self._cursor
        stop = start + count
        if stop <= room:
            if count:
                self._storage.set(slice(start, stop), data)
            index = torch.from_numpy(np.arange(start, stop))  # half the time of torch.arange
        else:
            self._wrap(data, start, count)
            index = torch.arange(start, stop).remainder_(room)
        self._cursor = stop % room
        self.write_count += count
        return index

    def _wrap(self, data: Any, start: int, count: int) -> None:
        """Write over the storage's end: up to it, and on from the first row."""
        room = self._storage.max_size
        if count > room:  # the rows before the last ``room`` would be written over at once
            data, start, count = data[count - room :], (start + count) % room, room
        before = room - start
        # The first rows come first, so that a storage never has rows behind others without data.
        self._storage.set(slice(0, count - before), data[before:])
        if before:
            self._storage.set(slice(start, room), data[:before])

    def empty(self, write_count: bool = True) -> None:
        """Start over with the first row."""
        self._cursor = 0
        if write_count:
            self.write_count = 0

    def state_dict(self) -> dict[str, Any]:
        """Position of the next row, and the count."""
        return {"cursor": self._cursor, "write_count": self.write_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another writer was."""
        self._cursor, self.write_count = state_dict["cursor"], state_dict["write_count"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(cursor={self._cursor}, write_count={self.write_count})"


class TensorDictRoundRobinWriter(RoundRobinWriter):
    """The same for rows that came out of a TensorDict buffer: the entry ``index`` that they carry is left out."""

    def add(self, data: TensorDictBase) -> int:
        """Write one row; returns its position."""
        return super().add(_without_index(data))

    def extend(self, data: TensorDictBase) -> Tensor:
        """Write rows; returns the position of each, ``[N]`` int64. See :meth:`RoundRobinWriter.extend`."""
        return super().extend(_without_index(data))


class ImmutableDatasetWriter(Writer):
    """Refuses to write: for data that is read only.

    Example:
        >>> ImmutableDatasetWriter().add(None)
        Traceback (most recent call last):
        RuntimeError: this buffer is read only: its writer is an ImmutableDatasetWriter
    """

    def add(self, data: Any) -> int:
        """Refuse."""
        raise RuntimeError("this buffer is read only: its writer is an ImmutableDatasetWriter")

    def extend(self, data: Any) -> Tensor:
        """Refuse."""
        return self.add(data)

    def empty(self, write_count: bool = True) -> None:
        """Refuse."""
        self.add(None)


def _without_index(data: TensorDictBase) -> TensorDictBase:
    return data.exclude("index") if "index" in data.keys() else data
