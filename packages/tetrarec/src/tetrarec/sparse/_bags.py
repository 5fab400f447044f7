"""What the jagged containers share: values in bags, with lengths or offsets."""

import torch
from torch import Tensor

from tetrarec.ops import lengths_to_offsets


class Bags:
    """Bags of values end to end; lengths and offsets are computed from each other when they are asked for."""

    _values: Tensor
    _weights: Tensor | None = None
    _lengths: Tensor | None = None
    _offsets: Tensor | None = None

    def values(self) -> Tensor:
        """Values of all bags end to end, ``[N, ...]``."""
        return self._values

    def weights(self) -> Tensor:
        """A weight for each value, ``[N, ...]``.

        Raises:
            ValueError: there are none.
        """
        if self._weights is None:
            raise ValueError(f"{type(self).__name__}: has no weights; weights_or_none() gives None instead")
        return self._weights

    def weights_or_none(self) -> Tensor | None:
        """The weights, or None."""
        return self._weights

    def lengths(self) -> Tensor:
        """Values in each bag; one item a bag, key after key where there are keys."""
        if self._lengths is None:
            self._lengths = torch.diff(self._offsets)
        return self._lengths

    def lengths_or_none(self) -> Tensor | None:
        """The lengths if they are there already."""
        return self._lengths

    def offsets(self) -> Tensor:
        """First value of each bag, then N; one item more than there are bags."""
        if self._offsets is None:
            self._offsets = lengths_to_offsets(self._lengths)
        return self._offsets

    def offsets_or_none(self) -> Tensor | None:
        """The offsets if they are there already."""
        return self._offsets

    def device(self) -> torch.device:
        """Where the values lie."""
        return self._values.device

    def record_stream(self, stream: torch.Stream) -> None:
        """Tell the allocator that ``stream`` uses these tensors."""
        for tensor in self._tensors():
            tensor.record_stream(stream)

    def size_in_bytes(self) -> int:
        """Bytes of all tensors held."""
        return sum(tensor.nbytes for tensor in self._tensors())

    def _bags(self) -> int:
        return self._lengths.shape[0] if self._lengths is not None else self._offsets.shape[0] - 1

    def _tensors(self) -> list[Tensor]:
        parts = [self._values, self._weights, self._lengths, self._offsets]
        return [part for part in parts if part is not None]
