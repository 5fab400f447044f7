"""GPU kernels of non-maximum suppression; the only file of it that imports triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS = 64


@triton.jit
def nms_hits_kernel(
    boxes_ptr,  # [4, N], sorted; rows left, top, right, bottom
    ends_ptr,  # [N], int64: where the class of each box ends
    hits_ptr,  # [N, WORDS], int32, the answer: bit j % 32 of word j // 32 of row i says that box i drops box j
    threshold_ptr,  # [1], of the boxes' dtype
    N,
    WORDS,
    ROWS: tl.constexpr,
):
    """Axis 0: one block of rows. Axis 1: one word, 32 columns."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, 32)
    columns = tl.program_id(1) * 32 + lanes
    in_rows, in_columns = rows < N, columns < N
    left1 = tl.load(boxes_ptr + rows, mask=in_rows, other=0.0)[:, None]
    top1 = tl.load(boxes_ptr + N + rows, mask=in_rows, other=0.0)[:, None]
    right1 = tl.load(boxes_ptr + 2 * N + rows, mask=in_rows, other=0.0)[:, None]
    bottom1 = tl.load(boxes_ptr + 3 * N + rows, mask=in_rows, other=0.0)[:, None]
    left2 = tl.load(boxes_ptr + columns, mask=in_columns, other=0.0)[None, :]
    top2 = tl.load(boxes_ptr + N + columns, mask=in_columns, other=0.0)[None, :]
    right2 = tl.load(boxes_ptr + 2 * N + columns, mask=in_columns, other=0.0)[None, :]
    bottom2 = tl.load(boxes_ptr + 3 * N + columns, mask=in_columns, other=0.0)[None, :]
    ends = tl.load(ends_ptr + rows, mask=in_rows, other=0)
    width = tl.maximum(tl.minimum(right1, right2) - tl.maximum(left1, left2), 0.0)
    height = tl.maximum(tl.minimum(bottom1, bottom2) - tl.maximum(top1, top2), 0.0)
    overlap = width * height
    union = (right1 - left1) * (bottom1 - top1) + (right2 - left2) * (bottom2 - top2) - overlap
    hit = (overlap / union) > tl.load(threshold_ptr)
    hit = hit & (columns[None, :] > rows[:, None]) & (columns[None, :] < ends[:, None])
    bits = tl.sum(tl.where(hit, 1 << lanes[None, :], 0), 1)
    tl.store(hits_ptr + rows.to(tl.int64) * WORDS + tl.program_id(1), bits, mask=in_rows)


@triton.jit
def nms_scan_kernel(
    hits_ptr,  # [N, WORDS], int32
    alive_ptr,  # [N], int8, the answer
    N,
    WORDS,
    BLOCK: tl.constexpr,  # at least WORDS
):
    """One program. Settles 32 boxes at a time, then lets those that survive drop later ones."""
    lanes = tl.arange(0, 32)
    words = tl.arange(0, BLOCK)
    dropped = tl.zeros((BLOCK,), dtype=tl.int32)
    for word in range(0, WORDS):
        alive = ~tl.sum(tl.where(words == word, dropped, 0), 0)
        first = (tl.zeros((), tl.int64) + word) * 32
        for bit in tl.static_range(32):
            inside = first + bit < N
            row = tl.load(hits_ptr + (first + bit) * WORDS + word, mask=inside, other=0)
            alive = alive & ~tl.where(((alive >> bit) & 1) == 1, row, 0)
        tl.store(alive_ptr + first + lanes, ((alive >> lanes) & 1).to(tl.int8), mask=first + lanes < N)
        for bit in tl.static_range(32):
            row = (first + bit) * WORDS + words
            wanted = tl.where(first + bit < N, (alive >> bit) & 1, 0)
            limit = tl.where(wanted == 1, WORDS, 0)
            dropped = dropped | tl.load(hits_ptr + row, mask=words < limit, other=0)


def launch(boxes: Tensor, ends: Tensor, threshold: float) -> Tensor:
    """Which of boxes ``[N, 4]``, sorted by class and score, survive: ``[N]`` bool. Takes ``N * N / 8`` bytes."""
    n = boxes.shape[0]
    alive = torch.empty(n, dtype=torch.int8, device=boxes.device)
    if n:
        words = triton.cdiv(n, 32)
        hits = torch.empty(n, words, dtype=torch.int32, device=boxes.device)
        limit = torch.tensor([threshold], dtype=boxes.dtype, device=boxes.device)
        nms_hits_kernel[(triton.cdiv(n, _ROWS), words)](
            boxes.t().contiguous(), ends, hits, limit, n, words, ROWS=_ROWS, num_warps=4
        )
        block = max(32, triton.next_power_of_2(words))
        nms_scan_kernel[(1,)](hits, alive, n, words, BLOCK=block, num_warps=min(32, max(1, block // 128)))
    return alive.bool()
