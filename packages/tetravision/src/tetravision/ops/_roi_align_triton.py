"""GPU kernels of RoIAlign; the only file of it that imports triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tetravision.ops._roi_samples import Grid


@triton.jit
def _axis(low, high, scale, offset, BINS: tl.constexpr, SAMPLES: tl.constexpr, ALIGNED: tl.constexpr):
    """First sample of the first bin, size of a bin, samples of a bin (as a float), along one axis of a region."""
    start = low * scale - offset
    size = high * scale - offset - start
    if not ALIGNED:
        size = tl.maximum(size, 1.0)
    size = size / BINS
    if SAMPLES > 0:
        samples = tl.zeros_like(size) + SAMPLES
    else:
        samples = tl.maximum(tl.ceil(size), 0.0)
    return start, size, samples


@triton.jit
def _range(first, step, samples, length):
    """Which samples of a bin can lie on the map: all, unless there are more than it has places."""
    few = samples <= 2.0 * length + 4.0
    begin = tl.minimum(tl.maximum(tl.floor((-1.0 - first) / step), 0.0), samples)
    end = tl.minimum(tl.maximum(tl.floor((length - first) / step) + 2.0, 0.0), samples)
    begin = tl.where(few, 0.0, begin)
    end = tl.where(few, samples, tl.minimum(end, begin + 2.0 * length + 4.0))
    return begin, (end - begin).to(tl.int32)


@triton.jit
def _place(place, length):
    """The two places that a sample lies between, its part of the second, and whether it counts (1.0 or 0.0)."""
    inside = tl.where((place >= -1.0) & (place <= length), 1.0, 0.0)
    place = tl.minimum(tl.maximum(place, 0.0), length - 1.0)
    low = place.to(tl.int32)
    high = tl.minimum(low + 1, length.to(tl.int32) - 1)
    return low, high, place - low, inside


@triton.jit
def roi_align_kernel(
    map_ptr,  # [B, H, W, C]
    rois_ptr,  # [K, 5]
    out_ptr,  # [K, PH, PW, C]
    B,
    C,
    H,
    W,
    scale,
    offset,
    PH: tl.constexpr,
    PW: tl.constexpr,
    SAMPLES: tl.constexpr,  # along a side of a bin; 0 for as many as it has pixels
    ALIGNED: tl.constexpr,
    ACC: tl.constexpr,  # dtype to count in, that of rois too
    BLOCK_C: tl.constexpr,
):
    """Axis 0: one bin of one region. Axis 1: one block of channels."""
    bin_ = tl.program_id(0).to(tl.int64)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = channels < C
    region = bin_ // (PH * PW)
    ph = ((bin_ // PW) % PH).to(ACC)
    pw = (bin_ % PW).to(ACC)
    height = (tl.zeros((), tl.int32) + H).to(ACC)
    width = (tl.zeros((), tl.int32) + W).to(ACC)
    picture = tl.load(rois_ptr + region * 5)
    left = tl.load(rois_ptr + region * 5 + 1)
    top = tl.load(rois_ptr + region * 5 + 2)
    right = tl.load(rois_ptr + region * 5 + 3)
    bottom = tl.load(rois_ptr + region * 5 + 4)
    y_start, y_size, y_samples = _axis(top, bottom, scale, offset, PH, SAMPLES, ALIGNED)
    x_start, x_size, x_samples = _axis(left, right, scale, offset, PW, SAMPLES, ALIGNED)
    check = (y_start + y_size + x_start + x_size) * 0.0  # NaN when a corner is NaN or infinite
    good = (check == 0.0) & (picture >= 0.0) & (picture < B)
    y_step = y_size / tl.maximum(y_samples, 1.0)
    x_step = x_size / tl.maximum(x_samples, 1.0)
    y_first = y_start + ph * y_size + 0.5 * y_step
    x_first = x_start + pw * x_size + 0.5 * x_step
    y_begin, y_count = _range(y_first, y_step, y_samples, height)
    x_begin, x_count = _range(x_first, x_step, x_samples, width)
    y_count = tl.where(good, y_count, 0)
    base = map_ptr + tl.where(good, picture, 0.0).to(tl.int64) * H * W * C
    acc = tl.zeros((BLOCK_C,), dtype=ACC)
    for i in range(0, y_count):
        y0, y1, dy, y_inside = _place(y_first + (y_begin + i) * y_step, height)
        above = base + y0.to(tl.int64) * W * C
        below = base + y1.to(tl.int64) * W * C
        for j in range(0, x_count):
            x0, x1, dx, x_inside = _place(x_first + (x_begin + j) * x_step, width)
            at0 = x0.to(tl.int64) * C + channels
            at1 = x1.to(tl.int64) * C + channels
            v00 = tl.load(above + at0, mask=mask, other=0.0).to(ACC)
            v01 = tl.load(above + at1, mask=mask, other=0.0).to(ACC)
            v10 = tl.load(below + at0, mask=mask, other=0.0).to(ACC)
            v11 = tl.load(below + at1, mask=mask, other=0.0).to(ACC)
            upper = v00 * (1.0 - dx) + v01 * dx
            lower = v10 * (1.0 - dx) + v11 * dx
            acc += (upper * (1.0 - dy) + lower * dy) * (y_inside * x_inside)
    acc = acc / (tl.maximum(y_samples, 1.0) * tl.maximum(x_samples, 1.0))
    acc = acc + tl.where(good, 0.0, float("nan"))
    tl.store(out_ptr + bin_ * C + channels, acc.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def sum_rows_kernel(
    rows_ptr,  # [N, C]
    sources_ptr,  # [E], int64
    weights_ptr,  # [E]
    ends_ptr,  # [S + 1], int64
    out_ptr,  # [S, C]
    C,
    ACC: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Axis 0: one sum. Axis 1: one block of columns."""
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = columns < C
    acc = tl.zeros((BLOCK_C,), dtype=ACC)
    for entry in range(tl.load(ends_ptr + segment), tl.load(ends_ptr + segment + 1)):
        row = tl.load(rows_ptr + tl.load(sources_ptr + entry) * C + columns, mask=mask, other=0.0)
        acc += row.to(ACC) * tl.load(weights_ptr + entry)
    tl.store(out_ptr + segment * C + columns, acc.to(out_ptr.dtype.element_ty), mask=mask)


def launch(input: Tensor, rois: Tensor, grid: Grid) -> Tensor:
    """Pool ``rois [K, 5]`` of ``input [B, C, H, W]`` on the device of both."""
    batch, channels, height, width = input.shape
    double = input.dtype == torch.float64
    last = input.stride(1) == 1 and channels > 1 and height * width > 1
    out = input.new_empty(len(rois), grid.pooled_height, grid.pooled_width, channels)
    if out.numel():
        block = _block(channels)
        programs = (len(rois) * grid.bins, triton.cdiv(channels, block))
        roi_align_kernel[programs](
            input.permute(0, 2, 3, 1).contiguous(),
            rois.to(torch.float64 if double else torch.float32).contiguous(),
            out,
            batch,
            channels,
            height,
            width,
            grid.spatial_scale,
            0.5 if grid.aligned else 0.0,
            PH=grid.pooled_height,
            PW=grid.pooled_width,
            SAMPLES=max(grid.sampling_ratio, 0),
            ALIGNED=grid.aligned,
            ACC=tl.float64 if double else tl.float32,
            BLOCK_C=block,
            num_warps=_warps(block, input.element_size()),
        )
    pooled = out.permute(0, 3, 1, 2)
    return pooled if last else pooled.contiguous()


def sum_rows(rows: Tensor, sources: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Weighted sums of rows ``[N, C]``: sum i is over ``sources[ends[i]:ends[i + 1]]``."""
    channels = rows.shape[1]
    out = rows.new_empty(len(ends) - 1, channels)
    if out.numel():
        block = _block(channels)
        sum_rows_kernel[(len(ends) - 1, triton.cdiv(channels, block))](
            rows.contiguous(),
            sources,
            weights,
            ends,
            out,
            channels,
            ACC=tl.float64 if rows.dtype == torch.float64 else tl.float32,
            BLOCK_C=block,
            num_warps=_warps(block, rows.element_size()),
        )
    return out


def _block(channels: int) -> int:
    return min(256, max(16, triton.next_power_of_2(channels)))


def _warps(block: int, size_bytes: int) -> int:
    """As many as read a block at 16 bytes a thread."""
    lanes = 64 if torch.version.hip else 32
    return max(1, block * size_bytes // (16 * lanes))
