"""Pooled lookups on a GPU."""

from collections.abc import Sequence
from functools import lru_cache
from math import gcd

import torch
import triton
import triton.language as tl
from torch import Tensor

from tetrarec.ops._layout import Batch, Block, Feature, Layout

FIELDS = tl.constexpr(7)  # of a row of the feature table: see feature_table
TILE = 8  # rows that a program has in flight


@triton.jit
def bags_of(feature_ptr, offsets_ptr, BAGS: tl.constexpr):
    """The bags of this program, on axis 0: their numbers, which are there, and the lookups of each."""
    first_bag, bags = tl.load(feature_ptr), tl.load(feature_ptr + 1)
    bag = tl.program_id(0).to(tl.int64) * BAGS + tl.arange(0, BAGS)
    begin = tl.load(offsets_ptr + first_bag + bag, mask=bag < bags, other=0).to(tl.int64)
    end = tl.load(offsets_ptr + first_bag + bag + 1, mask=bag < bags, other=0).to(tl.int64)
    return bag, bag < bags, begin, end


@triton.jit
def rows_at(
    place,
    end,
    matrix_ptr,
    indices_ptr,
    feature_ptr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ACC: tl.constexpr,
):
    """The rows that lookups ``[BAGS, UNROLL]`` before ``end`` read, ``[BAGS, UNROLL, BLOCK_D]``; else zeros."""
    first_row, rows = tl.load(feature_ptr + 4), tl.load(feature_ptr + 5)
    row = tl.load(indices_ptr + place, mask=place < end[:, None], other=-1).to(tl.int64)
    inside = (row >= 0) & (row < rows)
    cols = tl.arange(0, BLOCK_D)
    x = tl.load(
        matrix_ptr + ((first_row + row) * D)[:, :, None] + cols[None, None, :],
        mask=inside[:, :, None] & (cols < D)[None, None, :],
        other=0.0,
    )
    return x.to(ACC), inside


@triton.jit
def embedding_bags_kernel(
    matrix_ptr,  # [R, D], rows of all tables of the group
    indices_ptr,  # [N]
    offsets_ptr,  # [bags + 1]
    samples_ptr,  # [N]; read if WEIGHTED
    features_ptr,  # [F, FIELDS], int64
    out_ptr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BAGS: tl.constexpr,
    UNROLL: tl.constexpr,
    ALIGN: tl.constexpr,  # elements that divide every place of out at which a row begins
    WEIGHTED: tl.constexpr,
    MEAN: tl.constexpr,
    ACC: tl.constexpr,
):
    """Axis 0: BAGS bags, UNROLL lookups of each at a time. Axis 1: one feature of the group."""
    feature_ptr = features_ptr + tl.program_id(1) * FIELDS
    start = tl.multiple_of(tl.load(feature_ptr + 2), ALIGN)
    stride = tl.multiple_of(tl.load(feature_ptr + 3), ALIGN)
    bag, there, begin, end = bags_of(feature_ptr, offsets_ptr, BAGS)
    acc = tl.zeros((BAGS, UNROLL, BLOCK_D), dtype=ACC)
    for step in range(0, tl.max(end - begin, 0), UNROLL):
        place = begin[:, None] + step + tl.arange(0, UNROLL)[None, :]
        x, inside = rows_at(place, end, matrix_ptr, indices_ptr, feature_ptr, D, BLOCK_D, ACC)
        if WEIGHTED:
            x *= tl.load(samples_ptr + place, mask=inside, other=0.0).to(ACC)[:, :, None]
        acc += x
    pooled = tl.sum(acc, 1)
    if MEAN:
        pooled = pooled / tl.maximum(end - begin, 1).to(ACC)[:, None]
    cols = tl.arange(0, BLOCK_D)
    tl.store(
        out_ptr + start + (bag * stride)[:, None] + cols[None, :],
        pooled.to(out_ptr.dtype.element_ty),
        mask=there[:, None] & (cols < D)[None, :],
    )


def feature_table(
    features: Sequence[Feature], blocks: Sequence[Block], first_rows: Sequence[int], device: torch.device
) -> Tensor:
    """What kernels need to know of each feature, ``[F, FIELDS]``, int64; kept for the next batch.

    First bag, bags, start and stride of its results, first row and rows of its table, and its round.
    """
    rows = [
        (*block, first, f.rows, f.round) for f, block, first in zip(features, blocks, first_rows, strict=True)
    ]
    return _on_device(tuple(rows), device)


@lru_cache(maxsize=256)
def _on_device(rows: tuple[tuple[int, ...], ...], device: torch.device) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64).to(device)


def alignment(blocks: Sequence[Block]) -> int:
    """The largest power of two, at most 16, that divides every start and stride."""
    return gcd(16, *(block.start for block in blocks), *(block.stride for block in blocks))


def tile(batch: Batch, bags: int, dim: int) -> dict[str, int]:
    """Block sizes: as many lookups of a bag at a time as bags are long, and bags to fill the tile."""
    pooling = batch.indices.numel() / max(1, bags)
    unroll = min(TILE, triton.next_power_of_2(max(1, round(pooling))))
    block = triton.next_power_of_2(dim)
    warps = min(8, max(1, TILE * block // 1024))
    return {"D": dim, "BLOCK_D": block, "BAGS": TILE // unroll, "UNROLL": unroll, "num_warps": warps}


def accumulator(dtype: torch.dtype) -> tl.dtype:
    """In which numbers sums of this dtype are kept."""
    return tl.float64 if dtype == torch.float64 else tl.float32


def launch(layout: Layout, matrices: Sequence[Tensor], batch: Batch) -> Tensor:
    """Pool every bag of every feature; one launch for each width of tables."""
    out = matrices[0].new_empty(batch.output_shape(layout))
    indices, offsets = batch.indices.contiguous(), batch.offsets.contiguous()
    samples = indices if batch.per_sample_weights is None else batch.per_sample_weights.contiguous()
    all_blocks = batch.blocks(layout)
    for group, matrix in zip(layout.groups, matrices, strict=True):
        blocks = [all_blocks[f.index] for f in group.features]
        most = max((block.bags for block in blocks), default=0)
        if most == 0:
            continue
        sizes = tile(batch, offsets.numel() - 1, group.dim)
        embedding_bags_kernel[(triton.cdiv(most, sizes["BAGS"]), len(blocks))](
            matrix,
            indices,
            offsets,
            samples,
            feature_table(group.features, blocks, [f.first_row for f in group.features], out.device),
            out,
            **sizes,
            ALIGN=alignment(blocks),
            WEIGHTED=batch.per_sample_weights is not None,
            MEAN=batch.mean,
            ACC=accumulator(matrix.dtype),
        )
    return out
