"""Gradients of touched rows on a GPU, summed in a fixed order, then stored or used for the update.

Lookups are listed with the row of the state that they touch, and sorted by it. Each program then walks a
*segment* of sorted lookups and finishes the runs that lie inside it. A run that crosses a border leaves a
piece in each segment; a second pass adds the pieces up. No atomics, no sizes read back to the host, and no
program has more work than a segment, whatever the skew.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tetrarec.ops._embedding_bags_triton import FIELDS, accumulator, alignment, bags_of, feature_table
from tetrarec.ops._layout import Batch, Layout

SEGMENT = 32  # sorted lookups a program
LANES = 16  # pieces of a crossing run added at a time
LIST_BAGS = 32  # bags that a program lists


@triton.jit
def list_lookups_kernel(
    indices_ptr,  # [N]
    offsets_ptr,  # [bags + 1]
    samples_ptr,  # [N]; read if WEIGHTED
    features_ptr,  # [F, FIELDS], int64
    rows_ptr,  # [rounds x N], row of the state
    grad_at_ptr,  # [rounds x N], int64, where the bag's gradient begins
    scale_ptr,  # [rounds x N], what it is multiplied by; written if WEIGHTED or MEAN
    N,
    BAGS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MEAN: tl.constexpr,
):
    """Axis 0: BAGS bags. Axis 1: one feature. An id outside its table is left out."""
    feature_ptr = features_ptr + tl.program_id(1) * FIELDS
    start, stride = tl.load(feature_ptr + 2), tl.load(feature_ptr + 3)
    first_row, rows = tl.load(feature_ptr + 4), tl.load(feature_ptr + 5)
    base = tl.load(feature_ptr + 6) * N
    bag, _, begin, end = bags_of(feature_ptr, offsets_ptr, BAGS)
    scale = 1.0 / tl.maximum(end - begin, 1).to(scale_ptr.dtype.element_ty)
    for step in range(0, tl.max(end - begin, 0)):
        place = begin + step
        row = tl.load(indices_ptr + place, mask=place < end, other=-1).to(tl.int64)
        inside = (row >= 0) & (row < rows)
        tl.store(rows_ptr + base + place, (first_row + row).to(rows_ptr.dtype.element_ty), mask=inside)
        tl.store(grad_at_ptr + base + place, start + bag * stride, mask=inside)
        if WEIGHTED:
            sample = tl.load(samples_ptr + place, mask=inside, other=0.0).to(scale_ptr.dtype.element_ty)
            tl.store(scale_ptr + base + place, sample * scale if MEAN else sample, mask=inside)
        elif MEAN:
            tl.store(scale_ptr + base + place, scale, mask=inside)


@triton.jit
def finish_row(
    row,
    low,
    g,
    target_ptr,
    state_ptr,
    rate_ptr,
    eps,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    UPDATE: tl.constexpr,
):
    """Store the gradient ``g`` of a row, or move the row by it."""
    cols = tl.arange(0, BLOCK_D)
    at = target_ptr + (row - low).to(tl.int64) * D + cols
    if UPDATE:
        sums = tl.load(state_ptr + row).to(g.dtype) + tl.sum(g * g, 0) / D
        tl.store(state_ptr + row, sums.to(state_ptr.dtype.element_ty))
        rate = tl.load(rate_ptr).to(g.dtype)
        x = tl.load(at, mask=cols < D, other=0.0).to(g.dtype)
        g = x - rate * g / (tl.sqrt(sums) + eps)
    tl.store(at, g.to(target_ptr.dtype.element_ty), mask=cols < D)


@triton.jit
def sum_runs_kernel(
    rows_ptr,  # [M], sorted
    grad_at_ptr,  # [M], in the same order
    scale_ptr,  # [M], in the same order; read if SCALED
    grad_ptr,
    target_ptr,  # [high - low, D], the group's tables or their gradients
    state_ptr,  # [rows]; used if UPDATE
    rate_ptr,  # 0-d; used if UPDATE
    heads_ptr,  # [segments, BLOCK_D], pieces of runs begun in an earlier segment
    tails_ptr,  # [segments, BLOCK_D], pieces of runs that go on in the next
    eps,
    M,
    low,  # rows of the group: low to high - 1
    high,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    LENGTH: tl.constexpr,
    ALIGN: tl.constexpr,  # elements that divide every item of grad_at
    SCALED: tl.constexpr,
    UPDATE: tl.constexpr,
    ACC: tl.constexpr,
):
    """Axis 0: one segment of LENGTH sorted lookups."""
    segment = tl.program_id(0).to(tl.int64)
    begin = segment * LENGTH
    end = tl.minimum(begin + LENGTH, M)
    row = tl.load(rows_ptr + begin)
    if (row < high) & (tl.load(rows_ptr + end - 1) >= low):
        cols = tl.arange(0, BLOCK_D)
        opened = (tl.load(rows_ptr + begin - 1, mask=begin > 0, other=-1) == row).to(tl.int32)
        acc = tl.zeros((BLOCK_D,), dtype=ACC)
        for place in range(begin, end):
            ours = (row >= low) & (row < high)
            at = tl.multiple_of(tl.load(grad_at_ptr + place), ALIGN)
            g = tl.load(grad_ptr + at + cols, mask=cols < tl.where(ours, D, 0), other=0.0).to(ACC)
            if SCALED:
                g *= tl.load(scale_ptr + place).to(ACC)
            acc += g
            following = tl.load(rows_ptr + place + 1, mask=place + 1 < M, other=-1)
            if (following != row) | (place + 1 == end):
                if ours:
                    if opened != 0:
                        tl.store(heads_ptr + segment * BLOCK_D + cols, acc)
                    elif following != row:
                        finish_row(row, low, acc, target_ptr, state_ptr, rate_ptr, eps, D, BLOCK_D, UPDATE)
                    else:
                        tl.store(tails_ptr + segment * BLOCK_D + cols, acc)
                acc = tl.zeros((BLOCK_D,), dtype=ACC)
                opened = opened * 0
            row = following


@triton.jit
def join_pieces_kernel(
    rows_ptr,  # [M], sorted
    target_ptr,  # [high - low, D]
    state_ptr,  # [rows]; used if UPDATE
    rate_ptr,  # 0-d; used if UPDATE
    heads_ptr,  # [segments, BLOCK_D]
    tails_ptr,  # [segments, BLOCK_D]
    eps,
    M,
    low,
    high,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    LENGTH: tl.constexpr,
    PIECES: tl.constexpr,
    UPDATE: tl.constexpr,
):
    """Axis 0: one segment; it finishes the run that begins in it and crosses its end."""
    segment = tl.program_id(0).to(tl.int64)
    begin, end = segment * LENGTH, (segment + 1) * LENGTH
    row = tl.load(rows_ptr + end - 1, mask=end < M, other=-1)
    crosses = (tl.load(rows_ptr + end, mask=end < M, other=-2) == row) & (row >= low) & (row < high)
    if crosses & (tl.load(rows_ptr + begin - 1, mask=begin > 0, other=-1) != row):
        cols = tl.arange(0, BLOCK_D)
        acc = tl.load(tails_ptr + segment * BLOCK_D + cols)
        piece = segment + 1 + tl.arange(0, PIECES)
        found = tl.load(rows_ptr + piece * LENGTH, mask=piece * LENGTH < M, other=-1) == row
        while tl.sum(found.to(tl.int32), 0) > 0:
            acc += tl.sum(
                tl.load(
                    heads_ptr + (piece * BLOCK_D)[:, None] + cols[None, :], mask=found[:, None], other=0.0
                ),
                0,
            )
            piece += PIECES
            found = tl.load(rows_ptr + piece * LENGTH, mask=piece * LENGTH < M, other=-1) == row
        finish_row(row, low, acc, target_ptr, state_ptr, rate_ptr, eps, D, BLOCK_D, UPDATE)


def sorted_lookups(
    layout: Layout, batch: Batch, scale_dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor | None]:
    """``(rows, grad_at, scale)`` of all lookups, ``[M]``, in the order of the rows; places left out come
    last.

    M is the ids times the most features that read one key, whatever the batch holds: nothing is read back.
    """
    indices, offsets = batch.indices.contiguous(), batch.offsets.contiguous()
    blocks, total = batch.blocks(layout), sum(layout.rows)
    count = indices.numel() * layout.rounds
    narrow = torch.int32 if total < 2**31 - 1 else torch.int64
    rows = torch.full((count,), total, dtype=narrow, device=indices.device)
    grad_at = torch.zeros(count, dtype=torch.int64, device=indices.device)
    scaled = batch.mean or batch.per_sample_weights is not None
    scale = torch.zeros(count if scaled else 1, dtype=scale_dtype, device=indices.device)
    samples = scale if batch.per_sample_weights is None else batch.per_sample_weights.contiguous()
    first_rows = [layout.table_first_rows[f.table] for f in layout.features]
    most = max(block.bags for block in blocks)
    list_lookups_kernel[(triton.cdiv(most, LIST_BAGS), len(blocks))](
        indices,
        offsets,
        samples,
        feature_table(layout.features, blocks, first_rows, indices.device),
        rows,
        grad_at,
        scale,
        indices.numel(),
        BAGS=LIST_BAGS,
        WEIGHTED=batch.per_sample_weights is not None,
        MEAN=batch.mean,
        num_warps=1,
    )
    rows, order = torch.sort(rows, stable=True)
    return rows, grad_at.index_select(0, order), scale.index_select(0, order) if scaled else None


def launch(
    layout: Layout,
    grad: Tensor,
    batch: Batch,
    target: Tensor,
    state: Tensor | None = None,
    learning_rate: Tensor | None = None,
    eps: float = 0.0,
) -> None:
    """Write the gradients of touched rows to the flat ``target``; with ``state``, move its rows by them."""
    if not batch.indices.numel() or not grad.numel():
        return
    grad = grad.contiguous()
    wide = torch.promote_types(grad.dtype, torch.float32)
    rows, grad_at, scale = sorted_lookups(layout, batch, wide)
    blocks, count = batch.blocks(layout), rows.numel()
    segments = triton.cdiv(count, SEGMENT)
    for group in layout.groups:
        if not group.features:
            continue
        block = triton.next_power_of_2(group.dim)
        heads, tails = torch.empty(2, segments, block, dtype=wide, device=grad.device)
        sizes = {"D": group.dim, "BLOCK_D": block, "LENGTH": SEGMENT, "UPDATE": state is not None}
        sizes["num_warps"] = min(4, max(1, block // 256))
        matrix = group.matrix(target)
        span = (count, group.first_row, group.first_row + group.rows)
        states = (grad, grad) if state is None else (state, learning_rate)
        sum_runs_kernel[(segments,)](
            rows,
            grad_at,
            grad if scale is None else scale,
            grad,
            matrix,
            *states,
            heads,
            tails,
            eps,
            *span,
            **sizes,
            ALIGN=alignment([blocks[f.index] for f in group.features]),
            SCALED=scale is not None,
            ACC=accumulator(grad.dtype),
        )
        join_pieces_kernel[(segments,)](
            rows, matrix, *states, heads, tails, eps, *span, **sizes, PIECES=LANES
        )
