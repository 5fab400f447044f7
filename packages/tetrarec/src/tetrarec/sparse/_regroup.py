"""Columns of keyed tensors, put together anew."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tetrarec.sparse._checks import missing_key

if TYPE_CHECKING:
    from tetrarec.sparse._keyed import KeyedTensor


def regroup(keyed_tensors: Sequence["KeyedTensor"], groups: Sequence[Sequence[str]]) -> list[Tensor]:
    """A tensor for each group of keys; one split of each input, one cat of each group."""
    found, repeated = {}, set()
    for keyed in keyed_tensors:
        for key, piece in keyed.to_dict().items():
            if key in found:
                repeated.add(key)
            found[key] = piece
    for key in (key for group in groups for key in group):
        if key not in found:
            raise missing_key("KeyedTensor.regroup", key, list(found))
        if key in repeated:
            raise ValueError(
                f"KeyedTensor.regroup: the key {key!r} stands in several of the tensors; rename one"
            )
    dim = keyed_tensors[0].key_dim() if keyed_tensors else 1
    return [torch.cat([found[key] for key in group], dim=dim) for group in groups]
