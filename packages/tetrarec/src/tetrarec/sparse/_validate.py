"""Checks that read values; for data pipelines and tests, not for every step."""

from collections.abc import Sequence
from typing import Protocol

import torch

from tetrarec.sparse._keyed_jagged import KeyedJaggedTensor


class _Table(Protocol):
    num_embeddings: int
    name: str
    feature_names: list[str]


def validate_keyed_jagged_tensor(kjt: KeyedJaggedTensor, configs: Sequence[_Table] | None = None) -> None:
    """Read a batch through and refuse what metadata can't show. On a GPU this waits for the device.

    Lengths must not be negative, offsets must begin at 0, never fall and end at the number of values, lengths
    and offsets must agree, keys must be different, inverse indices must name bags that are there, and with
    ``configs`` every id must lie inside its table.

    Args:
        kjt: the batch.
        configs: configurations of the tables that will look it up.

    Raises:
        ValueError: naming the field, what was expected and what came.

    Example:
        >>> batch = KeyedJaggedTensor(["a"], torch.tensor([1, 2]), lengths=torch.tensor([1, 2]))
        >>> validate_keyed_jagged_tensor(batch)
        Traceback (most recent call last):
        ValueError: KeyedJaggedTensor: lengths must add up to the 2 values, got 3
    """
    keys, where = kjt.keys(), "KeyedJaggedTensor"
    if len(set(keys)) != len(keys):
        raise ValueError(f"{where}: keys must be different, got {keys}")
    lengths, offsets, count = kjt.lengths(), kjt.offsets(), kjt.values().shape[0]
    if lengths.numel() and int(lengths.min()) < 0:
        raise ValueError(f"{where}: lengths must not be negative, got {int(lengths.min())}")
    if int(lengths.sum()) != count:
        raise ValueError(f"{where}: lengths must add up to the {count} values, got {int(lengths.sum())}")
    if int(offsets[0]) != 0 or int(offsets[-1]) != count:
        raise ValueError(
            f"{where}: offsets must go from 0 to the {count} values, got {int(offsets[0])} to {int(offsets[-1])}"
        )
    if not torch.equal(offsets.diff(), lengths):
        raise ValueError(f"{where}: offsets must be the running sum of lengths, and are not")
    _check_inverse(where, kjt)
    for table in configs or ():
        _check_ids(where, kjt, table)


def _check_inverse(where: str, kjt: KeyedJaggedTensor) -> None:
    inverse = kjt.inverse_indices_or_none()
    if inverse is None or not inverse[1].numel():
        return
    sizes = dict(zip(kjt.keys(), kjt.stride_per_key(), strict=True))
    for key, places in zip(*inverse, strict=True):
        low, high = int(places.min()), int(places.max())
        if key in sizes and (low < 0 or high >= sizes[key]):
            raise ValueError(
                f"{where}: inverse_indices of {key!r} must be 0 to {sizes[key] - 1}, got {low if low < 0 else high}"
            )


def _check_ids(where: str, kjt: KeyedJaggedTensor, table: _Table) -> None:
    for feature in table.feature_names:
        if feature not in kjt.keys():
            raise ValueError(f"{where}: keys must have {feature!r}, which table {table.name!r} looks up")
        ids = kjt[feature].values()
        if not ids.numel():
            continue
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= table.num_embeddings:
            raise ValueError(
                f"{where}: ids of {feature!r} must be 0 to {table.num_embeddings - 1}, the rows of table "
                f"{table.name!r}, got {low if low < 0 else high}"
            )
