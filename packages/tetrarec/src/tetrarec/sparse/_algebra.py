"""Taking keyed jagged batches apart and putting them together."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tetrarec.sparse._jagged import JaggedTensor
from tetrarec.sparse._make import make

if TYPE_CHECKING:
    from tetrarec.sparse._keyed_jagged import KeyedJaggedTensor


def split(self: "KeyedJaggedTensor", segments: Sequence[int]) -> list["KeyedJaggedTensor"]:
    """Cut the keys into groups of these sizes; values, weights and lengths of the pieces are views.

    Raises:
        ValueError: the sizes don't add up to the keys.
    """
    if sum(segments) != len(self.keys()) or min(segments, default=0) < 0:
        raise ValueError(
            f"KeyedJaggedTensor.split: segments must add up to {len(self.keys())} keys, got {list(segments)}"
        )
    pieces, first = [], 0
    values, bags = self.offset_per_key(), self.lengths_offset_per_key()
    for count in segments:
        last = first + count
        value_span, bag_span = slice(values[first], values[last]), slice(bags[first], bags[last])
        pieces.append(
            make(
                type(self),
                keys=self.keys()[first:last],
                values=self.values()[value_span],
                weights=None if self.weights_or_none() is None else self.weights()[value_span],
                lengths=self.lengths()[bag_span],
                stride=self.stride(),
                strides=self.stride_per_key_per_rank()[first:last]
                if self.variable_stride_per_key()
                else None,
                length_per_key=self.length_per_key()[first:last],
                inverse=self.inverse_indices_or_none(),
            )
        )
        first = last
    return pieces


def permute(
    self: "KeyedJaggedTensor", indices: Sequence[int], indices_tensor: Tensor | None = None
) -> "KeyedJaggedTensor":
    """The keys in another order; a key may be repeated or left out.

    Args:
        indices: the place of each key wanted.
        indices_tensor: the same numbers on the batch's device, if they are there already.

    Raises:
        ValueError: a place outside the keys, or a tensor of another length.
    """
    count = len(self.keys())
    if not all(0 <= place < count for place in indices):
        raise ValueError(f"KeyedJaggedTensor.permute: indices must be 0 to {count - 1}, got {list(indices)}")
    if indices_tensor is not None and indices_tensor.shape != (len(indices),):
        raise ValueError(
            f"KeyedJaggedTensor.permute: indices_tensor must hold the {len(indices)} indices, "
            f"got {tuple(indices_tensor.shape)}"
        )
    strides = None
    if self.variable_stride_per_key():
        strides = [self.stride_per_key_per_rank()[place] for place in indices]
        lengths = _pick(self.lengths(), self.stride_per_key(), indices)
    else:
        if indices_tensor is None:
            indices_tensor = torch.tensor(indices, dtype=torch.int64, device=self.device())
        table = self.lengths().view(count, self.stride()) if count else self.lengths().view(0, 0)
        lengths = table.index_select(0, indices_tensor).view(-1)
    per_key = self.length_per_key()
    return make(
        type(self),
        keys=[self.keys()[place] for place in indices],
        values=_pick(self.values(), per_key, indices),
        weights=None if self.weights_or_none() is None else _pick(self.weights(), per_key, indices),
        lengths=lengths,
        stride=self.stride(),
        strides=strides,
        length_per_key=[per_key[place] for place in indices],
        inverse=self.inverse_indices_or_none(),
    )


def _pick(tensor: Tensor, sizes: Sequence[int], places: Sequence[int]) -> Tensor:
    pieces = tensor.split(list(sizes))
    return torch.cat([pieces[place] for place in places]) if places else tensor[:0]


def part(batch: "KeyedJaggedTensor", place: int) -> JaggedTensor:
    """The batch of the key at a place; views but for the offsets."""
    values, bags = batch.offset_per_key(), batch.lengths_offset_per_key()
    return _part(batch, slice(values[place], values[place + 1]), slice(bags[place], bags[place + 1]))


def _part(batch: "KeyedJaggedTensor", values: slice, bags: slice) -> JaggedTensor:
    return make(
        JaggedTensor,
        values=batch.values()[values],
        weights=None if batch.weights_or_none() is None else batch.weights()[values],
        lengths=batch.lengths()[bags],
        offsets=batch.offsets()[bags.start : bags.stop + 1] - values.start,
    )


def to_dict(self: "KeyedJaggedTensor") -> dict[str, JaggedTensor]:
    """The batch of each key."""
    values, bags = pairwise(self.offset_per_key()), pairwise(self.lengths_offset_per_key())
    return {
        key: _part(self, slice(*value_span), slice(*bag_span))
        for key, value_span, bag_span in zip(self.keys(), values, bags, strict=True)
    }


def _joined_weights(where: str, weights: list[Tensor | None]) -> Tensor | None:
    given = [weight for weight in weights if weight is not None]
    if not given:
        return None
    if len(given) != len(weights):
        raise ValueError(
            f"{where}: all must have weights or none, got weights in {len(given)} of {len(weights)}"
        )
    return torch.cat(given)


def join(
    kind: type["KeyedJaggedTensor"], jt_dict: dict[str, JaggedTensor], force_variable_stride: bool
) -> "KeyedJaggedTensor":
    """One keyed batch of a batch a key."""
    where = "KeyedJaggedTensor.from_jt_dict"
    if not jt_dict:
        raise ValueError(f"{where}: needs at least one key; KeyedJaggedTensor.empty makes a batch of none")
    parts = list(jt_dict.values())
    sizes = [len(part) for part in parts]
    variable = force_variable_stride or len(set(sizes)) > 1
    return kind(
        list(jt_dict),
        torch.cat([part.values() for part in parts]),
        _joined_weights(where, [part.weights_or_none() for part in parts]),
        lengths=torch.cat([part.lengths() for part in parts]),
        stride_per_key=sizes if variable else None,
    )


def concat(batches: Sequence["KeyedJaggedTensor"]) -> "KeyedJaggedTensor":
    """The keys of several batches of the same samples."""
    where = "KeyedJaggedTensor.concat"
    if not batches:
        raise ValueError(f"{where}: needs at least one batch; KeyedJaggedTensor.empty makes one of none")
    if len({batch.stride() for batch in batches}) > 1:
        raise ValueError(f"{where}: stride must be the same, got {[batch.stride() for batch in batches]}")
    variable = any(batch.variable_stride_per_key() for batch in batches)
    per_key = [batch.length_per_key_or_none() for batch in batches]
    return make(
        type(batches[0]),
        keys=[key for batch in batches for key in batch.keys()],
        values=torch.cat([batch.values() for batch in batches]),
        weights=_joined_weights(where, [batch.weights_or_none() for batch in batches]),
        lengths=torch.cat([batch.lengths() for batch in batches]),
        stride=batches[0].stride(),
        strides=[ranks for batch in batches for ranks in _strides(batch)] if variable else None,
        length_per_key=None if None in per_key else [length for lengths in per_key for length in lengths],
        inverse=_joined_inverse(where, batches),
    )


def _strides(batch: "KeyedJaggedTensor") -> list[list[int]]:
    return batch.stride_per_key_per_rank() or [[size] for size in batch.stride_per_key()]


def _joined_inverse(where: str, batches: Sequence["KeyedJaggedTensor"]) -> tuple[list[str], Tensor] | None:
    given = [batch.inverse_indices_or_none() for batch in batches]
    if all(inverse is None for inverse in given):
        return None
    if any(inverse is None for inverse in given):
        raise ValueError(f"{where}: all must have inverse_indices or none, got them in some of {len(given)}")
    rows = {}
    for batch, (names, places) in zip(batches, given, strict=True):
        rows.update({key: places[names.index(key)] for key in batch.keys()})
    return list(rows), torch.stack(list(rows.values()))
