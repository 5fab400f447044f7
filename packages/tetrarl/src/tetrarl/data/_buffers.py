"""Replay buffers: a storage, who writes to it, and who chooses what is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from tetradict import TensorDictBase
from torch import Tensor

from tetrarl.data._samplers import RandomSampler, Sampler
from tetrarl.data._storages import ListStorage, Storage
from tetrarl.data._writers import RoundRobinWriter, TensorDictRoundRobinWriter, Writer

Index = int | slice | Sequence[int] | Tensor


class ReplayBuffer:
    """Rows that come in one order and go out in another.

    Args:
        storage: where rows are kept; a :class:`ListStorage` of 1000 when not given.
        sampler: chooses the rows of a batch; uniformly when not given.
        writer: puts new rows; over the oldest ones when not given.
        collate_fn: makes a batch of what the storage gives for an index. Tensor storages give batches as they are;
            a list storage stacks tensors and leaves a list of anything else.
        transform: called with each batch that is sampled or read, returns what is handed out.
        batch_size: rows of a sample, where :meth:`sample` is not told.
        generator: source of the sampler's randomness; without it, torch's own, so that ``torch.manual_seed`` decides.

    Example:
        >>> from tetradict import TensorDict
        >>> from tetrarl.data import LazyTensorStorage
        >>> buffer = ReplayBuffer(storage=LazyTensorStorage(1000), batch_size=2)
        >>> buffer.extend(TensorDict({"reward": torch.ones(5, 1)}, [5]))
        tensor([0, 1, 2, 3, 4])
        >>> len(buffer), buffer.sample()["reward"].shape
        (5, torch.Size([2, 1]))
    """

    _default_writer: type[Writer] = RoundRobinWriter

    def __init__(
        self,
        *,
        storage: Storage | None = None,
        sampler: Sampler | None = None,
        writer: Writer | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        batch_size: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self._storage = ListStorage(1000) if storage is None else storage
        self._sampler = RandomSampler() if sampler is None else sampler
        self._writer = self._default_writer() if writer is None else writer
        for part, kind in ((self._storage, Storage), (self._sampler, Sampler), (self._writer, Writer)):
            if not isinstance(part, kind):
                raise TypeError(
                    f"{type(self).__name__}: expected a {kind.__name__}, got {type(part).__name__}"
                )
        self._writer.register_storage(self._storage)
        if generator is not None:
            self._sampler.generator = generator
        self._collate = self._storage.collate if collate_fn is None else collate_fn
        self._transforms = [] if transform is None else [transform]
        self._batch_size = None if batch_size is None else _checked_size(batch_size)

    @property
    def storage(self) -> Storage:
        """Where rows are kept."""
        return self._storage

    @property
    def sampler(self) -> Sampler:
        """Who chooses the rows of a batch."""
        return self._sampler

    @property
    def writer(self) -> Writer:
        """Who puts new rows."""
        return self._writer

    @property
    def batch_size(self) -> int | None:
        """Rows of a sample, where :meth:`sample` is not told."""
        return self._batch_size

    @property
    def write_count(self) -> int:
        """Rows written in all."""
        return self._writer.write_count

    def append_transform(self, transform: Callable[[Any], Any]) -> ReplayBuffer:
        """Call ``transform`` on batches, after those that are there; returns the buffer."""
        self._transforms.append(transform)
        return self

    def add(self, data: Any) -> int:
        """Write one row.

        Args:
            data: one row, without the dimension that counts rows.

        Returns:
            Its position.
        """
        return self._writer.add(data)

    def extend(self, data: Any) -> Tensor:
        """Write rows.

        Args:
            data: a TensorDict or tensor whose first dimension counts rows; for a list storage, any sequence.

        Returns:
            The position of each row, ``[N]`` int64.
        """
        return self._writer.extend(data)

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """A batch of rows that the sampler chooses, copied out of the storage.

        Args:
            batch_size: how many; the buffer's own ``batch_size`` when not given.
            return_info: also return a dict with ``index``, ``[B]`` int64, and what else the sampler tells.

        Returns:
            The batch, or batch and info.

        Raises:
            ValueError: no batch size, here or at the buffer.
            RuntimeError: the buffer is empty.
        """
        if batch_size is None:
            batch_size = self._batch_size
            if batch_size is None:
                raise ValueError(
                    f"{type(self).__name__}.sample: no batch_size, neither here nor at the buffer"
                )
        elif batch_size < 1:
            _checked_size(batch_size)
        index, info = self._sampler.sample(self._storage, batch_size)
        batch = self._hand_out(self._collate(self._storage.get(index)), index)
        return (batch, {"index": index, **info}) if return_info else batch

    def empty(self, empty_write_count: bool = True) -> None:
        """Forget all rows.

        Args:
            empty_write_count: also count written rows from zero.
        """
        self._writer.empty(empty_write_count)
        self._storage.empty()
        self._sampler.restart()

    def state_dict(self) -> dict[str, Any]:
        """Rows and positions, in plain containers that ``torch.save`` writes and ``weights_only`` reads.

        The rows may share memory with the storage: save or copy them before the next write.
        """
        generator = self._sampler.generator
        return {
            "storage": self._storage.state_dict(),
            "sampler": self._sampler.state_dict(),
            "writer": self._writer.state_dict(),
            "generator": None if generator is None else generator.get_state(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another buffer of the same parts was.

        Raises:
            ValueError: the storage has no room for the rows, or one of the two buffers has a generator of its own.
        """
        generator, state = self._sampler.generator, state_dict["generator"]
        if (generator is None) != (state is None):
            raise ValueError(
                "load_state_dict: only one of the two buffers has a generator; give both one, or none"
            )
        self._storage.load_state_dict(state_dict["storage"])
        self._sampler.load_state_dict(state_dict["sampler"])
        self._writer.load_state_dict(state_dict["writer"])
        if generator is not None:
            generator.set_state(state)

    def __len__(self) -> int:
        return len(self._storage)

    def __getitem__(self, index: Index) -> Any:
        known = self._known(index)
        return self._hand_out(self._storage.get(known), known)

    def __setitem__(self, index: Index, data: Any) -> None:
        self._storage.set(self._known(index), data)

    def __iter__(self) -> Iterator[Any]:
        """Batch after batch: one pass where the sampler makes passes, without end otherwise."""
        self._sampler.restart()
        while True:
            yield self.sample()
            if self._sampler.ran_out:
                return

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(storage={self._storage}, sampler={self._sampler}, writer={self._writer}, "
            f"batch_size={self._batch_size})"
        )

    def _hand_out(self, data: Any, index: int | slice | Tensor) -> Any:
        for transform in self._transforms:
            data = transform(data)
        return data

    def _known(self, index: Index) -> int | slice | Tensor:
        """The index with only rows that hold data, none of them counted from the end."""
        length = len(self)
        if isinstance(index, int):
            if not -length <= index < length:
                raise IndexError(f"{type(self).__name__}: row {index} of {length}")
            return index % length
        if isinstance(index, slice):
            start, stop, step = index.indices(length)
            return slice(start, max(start, stop)) if step == 1 else torch.arange(start, stop, step)
        if index is Ellipsis:
            return slice(0, length)
        index = torch.as_tensor(index)
        if index.dtype == torch.bool:
            if len(index) != length:
                raise IndexError(f"{type(self).__name__}: a mask of {len(index)} for {length} rows")
            return index.nonzero().flatten()
        if index.numel() and not (-length <= index.min() and index.max() < length):
            raise IndexError(
                f"{type(self).__name__}: rows {int(index.min())} to {int(index.max())} of {length}"
            )
        return index.long() % length if length else index.long()


class TensorDictReplayBuffer(ReplayBuffer):
    """A buffer of TensorDicts whose batches tell where they came from.

    As :class:`ReplayBuffer`; what it hands out has an entry ``index``, int64: the position of each row.

    Example:
        >>> from tetradict import TensorDict
        >>> from tetrarl.data import LazyTensorStorage
        >>> buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(1000), batch_size=2)
        >>> _ = buffer.extend(TensorDict({"reward": torch.arange(5.0)}, [5]))
        >>> batch = buffer.sample()
        >>> bool((batch["reward"] == batch["index"]).all())
        True
    """

    _default_writer = TensorDictRoundRobinWriter

    def _hand_out(self, data: TensorDictBase, index: int | slice | Tensor) -> TensorDictBase:
        if not isinstance(index, Tensor):
            index = torch.arange(index.start, index.stop) if isinstance(index, slice) else torch.tensor(index)
        data["index"] = index
        return super()._hand_out(data, index)


def _checked_size(batch_size: int) -> int:
    if batch_size < 1:
        raise ValueError(f"batch_size must be 1 or more, got {batch_size}")
    return batch_size
