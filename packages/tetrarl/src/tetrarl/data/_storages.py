"""Where a replay buffer keeps its rows: the protocol, and a list of any objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class Storage(ABC):
    """Rows that a writer puts and a sampler reads.

    A storage says how many rows it has room for and how many hold data, which are always the first ones.

    Args:
        max_size: rows it has room for.
    """

    def __init__(self, max_size: int) -> None:
        if max_size < 1:
            raise ValueError(f"{type(self).__name__}: max_size must be 1 or more, got {max_size}")
        self.max_size = max_size

    @abstractmethod
    def set(self, cursor: int | slice | Sequence[int] | Tensor, data: Any) -> None:
        """Write one row at an int, or as many rows as a slice (start and stop given) or an index names."""

    @abstractmethod
    def get(self, index: int | slice | Sequence[int] | Tensor) -> Any:
        """Rows by position, counted from the first that holds data."""

    @abstractmethod
    def __len__(self) -> int:
        """Rows that hold data."""

    @abstractmethod
    def empty(self) -> None:
        """Forget all rows; the room for them may stay."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` takes: plain containers of tensors that share memory with the storage."""

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the rows of another storage of the same kind."""

    def collate(self, data: Any) -> Any:
        """Make one batch of what :meth:`get` gives for an index tensor."""
        return data

    def __getitem__(self, index: int | slice | Sequence[int] | Tensor) -> Any:
        return self.get(index)

    def __setitem__(self, index: int | slice | Sequence[int] | Tensor, data: Any) -> None:
        self.set(index, data)


class ListStorage(Storage):
    """A list of any objects, for data that has no common shape.

    Args:
        max_size: rows it has room for; without it, as many as memory.

    Example:
        >>> storage = ListStorage(3)
        >>> storage.set(slice(0, 2), ["a", "b"])
        >>> storage[1], len(storage)
        ('b', 2)
    """

    def __init__(self, max_size: int | None = None) -> None:
        super().__init__(torch.iinfo(torch.int64).max if max_size is None else max_size)
        self._rows: list[Any] = []

    def set(self, cursor: int | slice | Sequence[int] | Tensor, data: Any) -> None:
        """Write rows; those past the end must follow it without a gap."""
        if isinstance(cursor, int):
            positions, rows = [cursor], [data]
        else:
            positions = (
                list(range(cursor.start, cursor.stop)) if isinstance(cursor, slice) else _positions(cursor)
            )
            rows = list(data.unbind(0)) if hasattr(data, "unbind") else list(data)
        if len(positions) != len(rows):
            raise ValueError(f"ListStorage: {len(positions)} positions for {len(rows)} rows")
        for position, row in zip(positions, rows, strict=True):
            if position == len(self._rows) and position < self.max_size:
                self._rows.append(row)
            elif -len(self._rows) <= position < len(self._rows):
                self._rows[position] = row
            else:
                raise IndexError(
                    f"ListStorage: row {position} of {len(self._rows)} (room for {self.max_size})"
                )

    def get(self, index: int | slice | Sequence[int] | Tensor) -> Any:
        """The object of an int, the list of objects of anything else."""
        if isinstance(index, int | slice):
            return self._rows[index]
        return [self._rows[position] for position in _positions(index)]

    def __len__(self) -> int:
        return len(self._rows)

    def empty(self) -> None:
        """Forget all rows."""
        self._rows = []

    def collate(self, data: list[Any]) -> Any:
        """Stack tensors and TensorDicts; leave a list of anything else."""
        if data and all(isinstance(row, Tensor) or hasattr(row, "batch_size") for row in data):
            return torch.stack(data)
        return data

    def state_dict(self) -> dict[str, Any]:
        """The objects themselves."""
        return {"rows": list(self._rows)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the objects of another list."""
        rows = state_dict["rows"]
        if len(rows) > self.max_size:
            raise ValueError(f"ListStorage: room for {self.max_size} rows, the state holds {len(rows)}")
        self._rows = list(rows)

    def __repr__(self) -> str:
        return f"ListStorage(len={len(self)}, max_size={self.max_size})"


def _positions(index: Sequence[int] | Tensor) -> list[int]:
    index = torch.as_tensor(index)
    return (index.nonzero() if index.dtype == torch.bool else index).flatten().tolist()
