"""From a keyed jagged batch to pooled embeddings, whatever does the pooling."""

from collections.abc import Callable

import torch
from torch import Tensor

from tetrarec.modules._tables import TableGroup, TablePlan, key_places
from tetrarec.sparse import KeyedJaggedTensor, KeyedTensor
from tetrarec.sparse._checks import INTEGERS
from tetrarec.sparse._make import make

Pool = Callable[[int, list[int], list[int]], Tensor]


def pool_batch(where: str, plan: TablePlan, features: KeyedJaggedTensor, pool: Pool) -> KeyedTensor:
    """Look a batch up group by group and lay the results out as one KeyedTensor ``[B, sum of dims]``.

    Args:
        where: the module, for messages.
        plan: the groups of tables.
        features: the batch; its keys may come in any order, and others may stand between.
        pool: ``pool(group, feature_keys, batch_sizes)`` gives ``[B, dims]`` for one batch size, for one a key
            the 1-D blocks of the features.

    Raises:
        KeyError: a feature that the batch lacks.
        TypeError: values that are no ids.
    """
    ids = features.values()
    if ids.dtype not in INTEGERS or ids.ndim != 1:
        raise TypeError(
            f"{where}: values must be ids, [N] of int32 or int64, got {ids.dtype} {tuple(ids.shape)}"
        )
    outputs = []
    for place, group in enumerate(plan.groups):
        feature_keys = key_places(where, features.keys(), group.feature_names)
        if features.variable_stride_per_key():
            sizes = features.stride_per_key()
            outputs.append(_expand(group, features, sizes, pool(place, feature_keys, sizes)))
        else:
            outputs.append(pool(place, feature_keys, [features.stride()]))
    return make(KeyedTensor, keys=plan.names, length_per_key=plan.dims, values=plan.assemble(outputs))


def _expand(group: TableGroup, features: KeyedJaggedTensor, sizes: list[int], pooled: Tensor) -> Tensor:
    """From the distinct bags of each feature to the full batch, ``[B, dims]``."""
    bags = dict(zip(features.keys(), sizes, strict=True))
    names, places = features.inverse_indices()
    if len(sizes) == 1:  # the bags of the one key are the rows of a matrix already
        return pooled.index_select(0, places[names.index(features.keys()[0])])
    parts, start = [], 0
    for feature, dim in zip(group.feature_names, group.layout.feature_dims, strict=True):
        block = pooled.narrow(0, start, bags[feature] * dim).view(bags[feature], dim)
        parts.append(block.index_select(0, places[names.index(feature)]))
        start += bags[feature] * dim
    return torch.cat(parts, dim=1)
