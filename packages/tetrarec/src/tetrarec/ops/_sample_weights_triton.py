"""The gradient of per-sample weights on a GPU."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from tetrarec.ops._embedding_bags_triton import (
    FIELDS,
    accumulator,
    alignment,
    bags_of,
    feature_table,
    rows_at,
    tile,
)
from tetrarec.ops._layout import Batch, Layout


@triton.jit
def sample_weights_kernel(
    matrix_ptr,  # [R, D], rows of all tables of the group
    indices_ptr,  # [N]
    offsets_ptr,  # [bags + 1]
    features_ptr,  # [F, FIELDS], int64
    grad_ptr,
    out_ptr,  # [rounds x N]
    N,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BAGS: tl.constexpr,
    UNROLL: tl.constexpr,
    ALIGN: tl.constexpr,  # elements that divide every place of grad at which a row begins
    MEAN: tl.constexpr,
    ACC: tl.constexpr,
):
    """Axis 0: BAGS bags, UNROLL lookups of each at a time. Axis 1: one feature of the group."""
    feature_ptr = features_ptr + tl.program_id(1) * FIELDS
    start = tl.multiple_of(tl.load(feature_ptr + 2), ALIGN)
    stride = tl.multiple_of(tl.load(feature_ptr + 3), ALIGN)
    base = tl.load(feature_ptr + 6) * N
    bag, there, begin, end = bags_of(feature_ptr, offsets_ptr, BAGS)
    cols = tl.arange(0, BLOCK_D)
    g = tl.load(
        grad_ptr + start + (bag * stride)[:, None] + cols[None, :],
        mask=there[:, None] & (cols < D)[None, :],
        other=0.0,
    ).to(ACC)
    if MEAN:
        g = g / tl.maximum(end - begin, 1).to(ACC)[:, None]
    for step in range(0, tl.max(end - begin, 0), UNROLL):
        place = begin[:, None] + step + tl.arange(0, UNROLL)[None, :]
        x, inside = rows_at(place, end, matrix_ptr, indices_ptr, feature_ptr, D, BLOCK_D, ACC)
        tl.store(out_ptr + base + place, tl.sum(x * g[:, None, :], 2), mask=inside)


def launch(layout: Layout, matrices: Sequence[Tensor], grad: Tensor, batch: Batch) -> Tensor:
    """The gradient of each weight, ``[N]``; a key that serves several features gets the sum of all."""
    indices, offsets, grad = batch.indices.contiguous(), batch.offsets.contiguous(), grad.contiguous()
    all_blocks = batch.blocks(layout)
    wide = torch.promote_types(grad.dtype, torch.float32)
    out = torch.zeros(layout.rounds, indices.numel(), dtype=wide, device=grad.device)
    for group, matrix in zip(layout.groups, matrices, strict=True):
        blocks = [all_blocks[f.index] for f in group.features]
        most = max((block.bags for block in blocks), default=0)
        if most == 0:
            continue
        sizes = tile(batch, offsets.numel() - 1, group.dim)
        sample_weights_kernel[(triton.cdiv(most, sizes["BAGS"]), len(blocks))](
            matrix,
            indices,
            offsets,
            feature_table(group.features, blocks, [f.first_row for f in group.features], out.device),
            grad,
            out,
            indices.numel(),
            **sizes,
            ALIGN=alignment(blocks),
            MEAN=batch.mean,
            ACC=accumulator(grad.dtype),
        )
    return out.sum(0).to(batch.per_sample_weights.dtype)
