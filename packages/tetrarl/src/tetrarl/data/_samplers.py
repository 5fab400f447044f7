"""Which rows of a storage make a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from tetrarl.data._storages import Storage


class Sampler(ABC):
    """Chooses rows. ``generator``, which the buffer sets, is the source of its randomness; ``None`` is torch's own."""

    generator: torch.Generator | None = None
    ran_out = False  # whether the pass that the last batch belonged to is over

    @abstractmethod
    def sample(self, storage: Storage, batch_size: int) -> tuple[Tensor, dict[str, Any]]:
        """Positions of rows, ``[B]`` int64, and what else is known about them.

        Raises:
            RuntimeError: the storage holds no row.
        """

    def restart(self) -> None:  # noqa: B027  (optional)
        """Begin a new pass, where there are passes."""

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` takes."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:  # noqa: B027  (optional)
        """Go on where another sampler was."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RandomSampler(Sampler):
    """Each row of the batch uniformly, independent of the others.

    Example:
        >>> from tetrarl.data import TensorStorage
        >>> index, info = RandomSampler().sample(TensorStorage(torch.zeros(5)), 3)
        >>> index.shape, info
        (torch.Size([3]), {})
    """

    def sample(self, storage: Storage, batch_size: int) -> tuple[Tensor, dict[str, Any]]:
        """Positions, ``[batch_size]`` int64."""
        length = len(storage)
        if not length:
            _refuse_empty(storage)
        generator = self.generator
        if generator is None:  # the shorter call takes two thirds of the time
            return torch.randint(length, (batch_size,)), {}
        return torch.randint(length, (batch_size,), generator=generator, device=generator.device), {}


class SamplerWithoutReplacement(Sampler):
    """Passes over all rows, each row once a pass; a new pass begins when the storage's length has changed.

    Args:
        drop_last: leave out the rows at the end of a pass that don't fill a batch. Otherwise they make a smaller one.
        shuffle: each pass in a new random order; otherwise from the first row to the last.

    Example:
        >>> from tetrarl.data import TensorStorage
        >>> sampler, storage = SamplerWithoutReplacement(shuffle=False), TensorStorage(torch.zeros(5))
        >>> [sampler.sample(storage, 2)[0].tolist() for _ in range(4)]
        [[0, 1], [2, 3], [4], [0, 1]]
    """

    def __init__(self, drop_last: bool = False, shuffle: bool = True) -> None:
        self.drop_last = drop_last
        self.shuffle = shuffle
        self._order: Tensor | None = None
        self._next = 0

    @property
    def ran_out(self) -> bool:
        """Whether the last batch was the last of its pass."""
        return self._order is None

    def sample(self, storage: Storage, batch_size: int) -> tuple[Tensor, dict[str, Any]]:
        """Positions, ``[batch_size]`` int64 or fewer at the end of a pass.

        Raises:
            RuntimeError: the storage holds no row, or fewer than a batch with ``drop_last``.
        """
        length = len(storage)
        if not length:
            _refuse_empty(storage)
        if self.drop_last and batch_size > length:
            raise RuntimeError(
                f"SamplerWithoutReplacement: drop_last with {length} rows never fills {batch_size}"
            )
        if (
            self._order is None
            or len(self._order) != length
            or (self.drop_last and self._next + batch_size > length)
        ):
            self._order, self._next = self._new_order(length), 0
        index = self._order[self._next : self._next + batch_size]
        self._next += batch_size
        left = length - self._next
        if left <= 0 or (self.drop_last and left < batch_size):
            self._order = None
        return index, {}

    def restart(self) -> None:
        """Begin a new pass with the next batch."""
        self._order = None

    def state_dict(self) -> dict[str, Any]:
        """The rest of the pass."""
        return {"order": self._order, "next": self._next}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on in the middle of another sampler's pass."""
        self._order, self._next = state_dict["order"], state_dict["next"]

    def _new_order(self, length: int) -> Tensor:
        if not self.shuffle:
            return torch.arange(length)
        generator = self.generator
        device = None if generator is None else generator.device
        return torch.randperm(length, generator=generator, device=device)

    def __repr__(self) -> str:
        return f"SamplerWithoutReplacement(drop_last={self.drop_last}, shuffle={self.shuffle})"


def _refuse_empty(storage: Storage) -> None:
    raise RuntimeError(f"sample: the {type(storage).__name__} holds no row yet; extend the buffer first")
