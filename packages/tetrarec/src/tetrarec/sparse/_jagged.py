"""One jagged batch: B bags of values end to end."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tetrarec.sparse._bags import Bags
from tetrarec.sparse._checks import as_counts, check_jagged
from tetrarec.sparse._make import make
from tetrarec.sparse._text import jagged_text


class JaggedTensor(Bags):
    """B bags of values, stored end to end with their lengths or offsets.

    Lengths and offsets are computed from each other when they are first asked for.

    Args:
        values: values of all bags, ``[N, ...]``, any dtype.
        weights: a weight for each value, ``[N, ...]``.
        lengths: values in each bag, ``[B]``, int32 or int64.
        offsets: first value of each bag, then N: ``[B + 1]``, int32 or int64. One of the two is enough.

    Raises:
        ValueError: shapes or dtypes that don't fit together, naming the field.

    Example:
        >>> bags = JaggedTensor(torch.tensor([7, 8, 9]), lengths=torch.tensor([2, 0, 1]))
        >>> bags
        JaggedTensor([[7, 8], [], [9]])
        >>> bags.offsets()
        tensor([0, 2, 2, 3])
        >>> bags.to_padded_dense(2)
        tensor([[7, 8],
                [0, 0],
                [9, 0]])
    """

    def __init__(
        self,
        values: Tensor,
        weights: Tensor | None = None,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
    ) -> None:
        lengths, offsets = as_counts(lengths), as_counts(offsets)
        check_jagged("JaggedTensor", values, weights, lengths, offsets)
        self._values = values
        self._weights = weights
        self._lengths = lengths
        self._offsets = offsets

    @staticmethod
    def empty(
        is_weighted: bool = False,
        device: torch.device | str | None = None,
        values_dtype: torch.dtype | None = None,
        weights_dtype: torch.dtype | None = None,
        lengths_dtype: torch.dtype = torch.int32,
    ) -> "JaggedTensor":
        """No bag at all."""
        weights = torch.empty(0, dtype=weights_dtype, device=device) if is_weighted else None
        values = torch.empty(0, dtype=values_dtype, device=device)
        return JaggedTensor(values, weights, lengths=torch.empty(0, dtype=lengths_dtype, device=device))

    @staticmethod
    def empty_like(jt: "JaggedTensor", device: torch.device | str | None = None) -> "JaggedTensor":
        """The same shapes and dtypes, uninitialised."""
        return _map(jt, lambda tensor: torch.empty_like(tensor, device=device))

    @staticmethod
    def from_dense(values: Sequence[Tensor], weights: Sequence[Tensor] | None = None) -> "JaggedTensor":
        """One bag of each tensor ``[N_i, ...]``; lengths and offsets lie on the values' device.

        Raises:
            ValueError: no tensor is given, or weights of other lengths.
        """
        if not values:
            raise ValueError(
                "JaggedTensor.from_dense: needs at least one tensor; JaggedTensor.empty makes one of none"
            )
        sizes = [value.shape[0] for value in values]
        if weights is not None and [weight.shape[0] for weight in weights] != sizes:
            raise ValueError(
                f"JaggedTensor.from_dense: weights must have the lengths of values, {sizes}, "
                f"got {[weight.shape[0] for weight in weights]}"
            )
        lengths = torch.tensor(sizes, device=values[0].device)
        offsets = torch.tensor([0, *sizes], device=values[0].device).cumsum(0)
        joined = None if weights is None else torch.cat(list(weights))
        return JaggedTensor(torch.cat(list(values)), joined, lengths=lengths, offsets=offsets)

    @staticmethod
    def from_dense_lengths(values: Tensor, lengths: Tensor, weights: Tensor | None = None) -> "JaggedTensor":
        """The first ``lengths[b]`` values of each row of a padded ``[B, L]`` matrix."""
        mask = torch.arange(values.shape[1], device=values.device) < lengths.unsqueeze(1)
        return JaggedTensor(values[mask], None if weights is None else weights[mask], lengths=lengths)

    def to_dense(self) -> list[Tensor]:
        """The values of each bag, as views. Reads the offsets: on a GPU this waits for the device."""
        return _split(self._values, self.offsets())

    def to_dense_weights(self) -> list[Tensor]:
        """The weights of each bag, as views.

        Raises:
            ValueError: there are no weights.
        """
        return _split(self.weights(), self.offsets())

    def to_padded_dense(self, desired_length: int | None = None, padding_value: float = 0.0) -> Tensor:
        """Every bag as a row of one matrix, ``[B, L, ...]``; short bags are padded, long ones cut.

        Args:
            desired_length: L; by default the longest bag, which has to be read from the device.
            padding_value: what fills the rest.
        """
        return _padded(self._values, self.lengths(), self.offsets(), desired_length, padding_value)

    def to_padded_dense_weights(
        self, desired_length: int | None = None, padding_value: float = 0.0
    ) -> Tensor:
        """:meth:`to_padded_dense` of the weights.

        Raises:
            ValueError: there are no weights.
        """
        return _padded(self.weights(), self.lengths(), self.offsets(), desired_length, padding_value)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "JaggedTensor":
        """The same batch on another device."""
        return _map(self, lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def __len__(self) -> int:
        """The number of bags."""
        return self._bags()

    def __repr__(self) -> str:
        return jagged_text(self)


def _map(jagged: JaggedTensor, function: Callable[[Tensor], Tensor]) -> JaggedTensor:
    names = "values", "weights", "lengths", "offsets"
    parts = jagged.values(), jagged.weights_or_none(), jagged.lengths_or_none(), jagged.offsets_or_none()
    moved = (None if part is None else function(part) for part in parts)
    return make(JaggedTensor, **dict(zip(names, moved, strict=True)))


def _split(values: Tensor, offsets: Tensor) -> list[Tensor]:
    return list(values.split(offsets.diff().tolist()))


def _padded(values: Tensor, lengths: Tensor, offsets: Tensor, size: int | None, padding: float) -> Tensor:
    if size is None:
        size = int(lengths.max()) if lengths.numel() else 0
    column = torch.arange(size, device=values.device)
    # One row of padding is appended and read where a bag has ended, so that a batch without values works as well.
    pad = values.new_full((1, *values.shape[1:]), padding)
    place = torch.where(column < lengths.unsqueeze(1), offsets[:-1].unsqueeze(1) + column, values.shape[0])
    return torch.cat([values, pad])[place]
