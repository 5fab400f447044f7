"""The gradient of per-sample weights: row times the gradient of its bag, summed over the width."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tetrarec.ops._embedding_bags import matrices_of, plan_of
from tetrarec.ops._library import LIBRARY
from tetrarec.ops._lookups import Lookups, block_view, key_cuts, lookups, output_rows

LOOKUPS = 4096  # whose rows are gathered at a time

LIBRARY.define(
    "sample_weight_gradients(Tensor grad, Tensor[] tables, Tensor indices, Tensor offsets, Tensor per_sample_weights, "
    "int[] feature_tables, int[] feature_keys, SymInt[] batch_sizes, bool mean) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)


def sample_weight_gradients_reference(grad: Tensor, tables: Sequence[Tensor], *lookup: Any) -> Tensor:
    """What sample_weight_gradients means, ``[N]`` in the dtype of the weights; any dtype, any device."""
    layout, batch = plan_of(tables, *lookup)
    result, grad = torch.zeros_like(batch.per_sample_weights), grad.contiguous()
    for feature, block in zip(layout.features, batch.blocks(layout), strict=True):
        table = tables[feature.table]
        bounds = batch.offsets[block.first_bag : block.first_bag + block.bags + 1].long()
        lengths, ids = bounds.diff(), slice(int(bounds[0]), int(bounds[-1]))
        bag_grad = block_view(grad, block, table.shape[1])
        if batch.mean:
            bag_grad = bag_grad / lengths.clamp(min=1).unsqueeze(1)
        rows = table[batch.indices[ids].long()]
        result[ids] += (rows * torch.repeat_interleave(bag_grad, lengths, dim=0)).sum(1).to(result.dtype)
    return result


def _sample_weight_gradients_cpu(grad: Tensor, tables: list[Tensor], *lookup: Any) -> Tensor:
    layout, batch = plan_of(tables, *lookup)
    layout, matrices = matrices_of(tables, layout)
    cuts, blocks = key_cuts(batch), batch.blocks(layout)
    grad = grad.contiguous().to(torch.promote_types(grad.dtype, torch.float32))
    result = grad.new_zeros(batch.indices.numel())
    for group, matrix in zip(layout.groups, matrices, strict=True):
        for part in lookups(group, blocks, batch, cuts, lambda ids, bags: ids, LOOKUPS):
            dots, position = _dots(part, matrix, grad, group.dim, batch.mean), 0
            for begin, end in part.spans:  # a key that serves two features gets the sum of both
                result[begin:end] += dots[position : position + end - begin]
                position += end - begin
    return result.to(batch.per_sample_weights.dtype)


def _dots(part: Lookups, matrix: Tensor, grad: Tensor, dim: int, mean: bool) -> Tensor:
    bag_grad, places = output_rows(grad, part.blocks, dim)
    table = matrix.narrow(0, part.first_row, part.table_rows)
    pairs = zip(part.rows.split(LOOKUPS), part.per_lookup(places).split(LOOKUPS), strict=True)
    dots = torch.cat([
        torch.linalg.vecdot(table[rows].to(grad.dtype), bag_grad[bags]) for rows, bags in pairs
    ])
    return dots * part.per_lookup(part.bag_scale(dots.dtype)) if mean else dots


def _sample_weight_gradients_cuda(grad: Tensor, tables: list[Tensor], *lookup: Any) -> Tensor:
    from tetrarec.ops._sample_weights_triton import launch  # noqa: PLC0415  (triton: seconds to import, absent on CPU)

    layout, batch = plan_of(tables, *lookup)
    return launch(*matrices_of(tables, layout), grad, batch)


def _sample_weight_gradients_fake(grad: Tensor, tables: list[Tensor], *lookup: Any) -> Tensor:
    return torch.empty_like(lookup[2])


LIBRARY.impl("sample_weight_gradients", sample_weight_gradients_reference, "CompositeExplicitAutograd")
LIBRARY.impl("sample_weight_gradients", _sample_weight_gradients_cpu, "CPU")
LIBRARY.impl("sample_weight_gradients", _sample_weight_gradients_cuda, "CUDA")
torch.library.register_fake("tetrarec::sample_weight_gradients", _sample_weight_gradients_fake, lib=LIBRARY)
