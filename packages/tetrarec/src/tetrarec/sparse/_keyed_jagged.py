"""A batch of sparse features: for each key, a bag of values a sample."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from tetrarec.sparse import _algebra
from tetrarec.sparse._bags import Bags
from tetrarec.sparse._checks import as_counts, check_bags, check_jagged, check_length_per_key, missing_key
from tetrarec.sparse._jagged import JaggedTensor
from tetrarec.sparse._make import make
from tetrarec.sparse._text import keyed_jagged_text

Inverse = tuple[list[str], Tensor]


class KeyedJaggedTensor(Bags):
    """Bags of values of several features, key after key: all samples of the first key, then of the second.

    Lengths, offsets and the sums for each key are computed from each other when they are first asked for. The
    sums (``length_per_key``, ``offset_per_key``) are host numbers: on a GPU, asking waits for the device.

    A batch in which many samples share a bag can send each distinct bag once: ``stride_per_key_per_rank``
    says how many bags each key has, ``inverse_indices`` which of them each sample of the full batch reads.

    Args:
        keys: the features' names.
        values: values of all bags end to end, ``[N, ...]``; ids where the batch goes to an embedding.
        weights: a weight for each value, ``[N, ...]``.
        lengths: values in each bag, ``[keys x B]``, or ``[sum of strides]``; int32 or int64.
        offsets: first value of each bag, then N; one item more than ``lengths``. One of the two is enough.
        stride: B, the samples; by default lengths divided by keys.
        stride_per_key_per_rank: bags of each key on each rank, as numbers or as a ``[keys, ranks]`` tensor.
        stride_per_key: bags of each key, the same with one rank.
        length_per_key: values of each key, if they are known on the host. Checked against the lengths on the
            CPU.
        inverse_indices: ``(keys, [keys, B])``: for each key the bag of each sample; its keys may come in any
            order.

    Raises:
        ValueError: fields that contradict each other, naming the field, what was expected and what came.

    Example:
        >>> batch = KeyedJaggedTensor(["user", "film"], torch.tensor([3, 1, 4, 1]), lengths=torch.tensor([1, 0, 1, 2]))
        >>> batch
        KeyedJaggedTensor({
            "user": [[3], []],
            "film": [[1], [4, 1]]
        })
        >>> batch["film"].lengths(), batch.stride(), batch.length_per_key()
        (tensor([1, 2]), 2, [1, 3])
        >>> batch.permute([1]).keys()
        ['film']
    """

    _stride: int | None = None  # found from the lengths when asked for
    _strides: list[list[int]] | None = None  # per key and rank, where the keys have strides of their own
    _inverse: Inverse | None = None
    _length_per_key: list[int] | None = None
    _offset_per_key: list[int] | None = None

    def __init__(
        self,
        keys: Sequence[str],
        values: Tensor,
        weights: Tensor | None = None,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
        stride: int | None = None,
        stride_per_key_per_rank: Tensor | Sequence[Sequence[int]] | None = None,
        stride_per_key: Sequence[int] | None = None,
        length_per_key: Sequence[int] | None = None,
        *,
        inverse_indices: Inverse | None = None,
    ) -> None:
        where = "KeyedJaggedTensor"
        lengths, offsets = as_counts(lengths), as_counts(offsets)
        check_jagged(where, values, weights, lengths, offsets)
        strides = _strides(where, stride_per_key_per_rank, stride_per_key)
        sizes = None if strides is None else [sum(ranks) for ranks in strides]
        bags = lengths.shape[0] if lengths is not None else offsets.shape[0] - 1
        self._keys = list(keys)
        self._stride = check_bags(where, self._keys, bags, None if sizes else stride, sizes)
        if inverse_indices is not None:
            self._stride = _check_inverse(where, self._keys, inverse_indices, strides)
        if sizes and stride is not None and stride != self._stride:
            raise ValueError(f"{where}: stride must be the full batch, {self._stride}, got {stride}")
        self._values = values
        self._weights = weights
        self._lengths = lengths
        self._offsets = offsets
        self._strides = strides
        self._inverse = inverse_indices
        if length_per_key is not None:
            check_length_per_key(
                where, self._keys, values.shape[0], length_per_key, self.lengths(), self.stride_per_key()
            )
            self._length_per_key = list(length_per_key)

    @staticmethod
    def from_lengths_sync(
        keys: Sequence[str],
        values: Tensor,
        lengths: Tensor,
        weights: Tensor | None = None,
        stride: int | None = None,
        stride_per_key_per_rank: Tensor | Sequence[Sequence[int]] | None = None,
        inverse_indices: Inverse | None = None,
    ) -> "KeyedJaggedTensor":
        """Construct from lengths and compute the sums for each key at once (:meth:`sync`)."""
        return KeyedJaggedTensor(
            keys,
            values,
            weights,
            lengths=lengths,
            stride=stride,
            stride_per_key_per_rank=stride_per_key_per_rank,
            inverse_indices=inverse_indices,
        ).sync()

    @staticmethod
    def from_offsets_sync(
        keys: Sequence[str],
        values: Tensor,
        offsets: Tensor,
        weights: Tensor | None = None,
        stride: int | None = None,
        stride_per_key_per_rank: Tensor | Sequence[Sequence[int]] | None = None,
        inverse_indices: Inverse | None = None,
    ) -> "KeyedJaggedTensor":
        """Construct from offsets and compute the sums for each key at once (:meth:`sync`)."""
        return KeyedJaggedTensor(
            keys,
            values,
            weights,
            offsets=offsets,
            stride=stride,
            stride_per_key_per_rank=stride_per_key_per_rank,
            inverse_indices=inverse_indices,
        ).sync()

    @staticmethod
    def from_jt_dict(
        jt_dict: dict[str, JaggedTensor], force_variable_stride: bool = False
    ) -> "KeyedJaggedTensor":
        """Join a JaggedTensor a key. Keys of different batch sizes give a batch with a stride for each key.

        Args:
            jt_dict: one batch a key; all with weights or none.
            force_variable_stride: a stride for each key even where they agree.

        Raises:
            ValueError: the dict is empty, or some have weights and some have not.
        """
        return _algebra.join(KeyedJaggedTensor, jt_dict, force_variable_stride)

    @staticmethod
    def concat(kjt_list: Sequence["KeyedJaggedTensor"]) -> "KeyedJaggedTensor":
        """The keys of several batches of the same samples, one batch after another.

        Raises:
            ValueError: batches of different stride, or some have weights and some have not.
        """
        return _algebra.concat(kjt_list)

    @staticmethod
    def empty(
        is_weighted: bool = False,
        device: torch.device | str | None = None,
        values_dtype: torch.dtype | None = None,
        weights_dtype: torch.dtype | None = None,
        lengths_dtype: torch.dtype = torch.int32,
    ) -> "KeyedJaggedTensor":
        """No key, no sample."""
        weights = torch.empty(0, dtype=weights_dtype, device=device) if is_weighted else None
        values = torch.empty(0, dtype=values_dtype, device=device)
        lengths = torch.empty(0, dtype=lengths_dtype, device=device)
        return KeyedJaggedTensor([], values, weights, lengths=lengths, stride=0)

    @staticmethod
    def empty_like(kjt: "KeyedJaggedTensor", device: torch.device | str | None = None) -> "KeyedJaggedTensor":
        """No key and no sample, in the dtypes of ``kjt`` and by default on its device."""
        return KeyedJaggedTensor.empty(
            kjt.weights_or_none() is not None,
            kjt.device() if device is None else device,
            kjt.values().dtype,
            None if kjt.weights_or_none() is None else kjt.weights().dtype,
            kjt.lengths().dtype,
        )

    split = _algebra.split
    permute = _algebra.permute
    to_dict = _algebra.to_dict

    def keys(self) -> list[str]:
        """The features' names, in order."""
        return self._keys

    def stride(self) -> int:
        """B, the samples of the full batch: those of ``inverse_indices``, without them the largest stride."""
        if self._stride is None:
            self._stride = self._bags() // len(self._keys) if self._keys else 0
        return self._stride

    def stride_per_key(self) -> list[int]:
        """Bags of each key."""
        if self._strides is None:
            return [self.stride()] * len(self._keys)
        return [sum(ranks) for ranks in self._strides]

    def stride_per_key_per_rank(self) -> list[list[int]]:
        """Bags of each key on each rank; empty where all keys have the stride."""
        return self._strides or []

    def variable_stride_per_key(self) -> bool:
        """Whether the keys have strides of their own."""
        return self._strides is not None

    def inverse_indices(self) -> Inverse:
        """The bag that each sample reads, ``(keys, [keys, B])``.

        Raises:
            ValueError: there are none.
        """
        if self._inverse is None:
            raise ValueError(
                "KeyedJaggedTensor: has no inverse_indices; inverse_indices_or_none() gives None instead"
            )
        return self._inverse

    def inverse_indices_or_none(self) -> Inverse | None:
        """The inverse indices, or None."""
        return self._inverse

    def length_per_key(self) -> list[int]:
        """Values of each key, as host numbers."""
        if self._length_per_key is None:
            ends = self.offset_per_key()
            self._length_per_key = [end - begin for begin, end in pairwise(ends)]
        return self._length_per_key

    def length_per_key_or_none(self) -> list[int] | None:
        """Values of each key if they are known already."""
        return self._length_per_key

    def offset_per_key(self) -> list[int]:
        """First value of each key, then N, as host numbers."""
        if self._offset_per_key is None:
            if self._length_per_key is not None:
                self._offset_per_key = _running(self._length_per_key)
            elif self._strides is None and self.stride():
                self._offset_per_key = self.offsets()[:: self.stride()].tolist()
            else:
                self._offset_per_key = self.offsets()[self.lengths_offset_per_key()].tolist()
        return self._offset_per_key

    def offset_per_key_or_none(self) -> list[int] | None:
        """First value of each key if it is known already."""
        return self._offset_per_key

    def lengths_offset_per_key(self) -> list[int]:
        """First bag of each key, then the number of bags."""
        return _running(self.stride_per_key())

    def index_per_key(self) -> dict[str, int]:
        """The place of each key."""
        return {key: place for place, key in enumerate(self._keys)}

    def sync(self) -> "KeyedJaggedTensor":
        """Compute the sums for each key now, waiting for the device once; returns itself.

        On the meta device, where there is nothing to read, they stay unknown.
        """
        if not self._values.is_meta:
            self.length_per_key()
        return self

    def unsync(self) -> "KeyedJaggedTensor":
        """Forget the sums for each key; returns itself."""
        self._length_per_key = None
        self._offset_per_key = None
        return self

    def to(
        self, device: torch.device | str, non_blocking: bool = False, dtype: torch.dtype | None = None
    ) -> "KeyedJaggedTensor":
        """The same batch on another device; ``dtype`` is that of the weights."""
        weights = self._weights
        if weights is not None:
            weights = weights.to(device, weights.dtype if dtype is None else dtype, non_blocking=non_blocking)
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking), weights)

    def pin_memory(self) -> "KeyedJaggedTensor":
        """The same batch in pinned memory, from which a GPU copies without waiting."""
        weights = None if self._weights is None else self._weights.pin_memory()
        return self._map(lambda tensor: tensor.pin_memory(), weights)

    def _tensors(self) -> list[Tensor]:
        return super()._tensors() + ([] if self._inverse is None else [self._inverse[1]])

    def _map(self, function: Callable[[Tensor], Tensor], weights: Tensor | None) -> "KeyedJaggedTensor":
        return make(
            KeyedJaggedTensor,
            keys=self._keys,
            values=function(self._values),
            weights=weights,
            lengths=None if self._lengths is None else function(self._lengths),
            offsets=None if self._offsets is None else function(self._offsets),
            stride=self._stride,
            strides=self._strides,
            inverse=self._inverse and (self._inverse[0], function(self._inverse[1])),
            length_per_key=self._length_per_key,
            offset_per_key=self._offset_per_key,
        )

    def __getitem__(self, key: str) -> JaggedTensor:
        """The batch of one key.

        Raises:
            KeyError: no such key, naming the nearest.
        """
        place = self.index_per_key().get(key)
        if place is None:
            raise missing_key("KeyedJaggedTensor", key, self._keys)
        return _algebra.part(self, place)

    def __repr__(self) -> str:
        return keyed_jagged_text(self)


def _running(sizes: Sequence[int]) -> list[int]:
    sums = [0]
    for size in sizes:
        sums.append(sums[-1] + size)
    return sums


def _strides(
    where: str, per_rank: Tensor | Sequence[Sequence[int]] | None, per_key: Sequence[int] | None
) -> list[list[int]] | None:
    if per_rank is None:
        return None if per_key is None else [[size] for size in per_key]
    strides = per_rank.tolist() if isinstance(per_rank, Tensor) else [list(ranks) for ranks in per_rank]
    if per_key is not None and [sum(ranks) for ranks in strides] != list(per_key):
        raise ValueError(
            f"{where}: stride_per_key must be the sums of stride_per_key_per_rank {strides}, got {list(per_key)}"
        )
    return strides


def _check_inverse(where: str, keys: list[str], inverse: Inverse, strides: list[list[int]] | None) -> int:
    names, places = inverse
    if strides is None:
        raise ValueError(
            f"{where}: inverse_indices need stride_per_key_per_rank, the bags of each key, got None"
        )
    if places.ndim != 2 or places.shape[0] != len(names):
        raise ValueError(
            f"{where}: inverse_indices must be (keys, [keys, B]), got {len(names)} keys and {tuple(places.shape)}"
        )
    absent = [key for key in keys if key not in names]
    if absent:
        raise ValueError(f"{where}: inverse_indices must have a row for each key, got none for {absent}")
    return places.shape[1]
