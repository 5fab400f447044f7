"""RoIAlign: the mean of bilinear samples in each bin of a region.

The meaning, the CPU formulation (a weighted sum of rows of the map laid out channels last, which is what embedding bags are
fast at; its gradient is the same sum read the other way round) and the operator.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import channel_shuffle, embedding_bag

from tetravision._plain import plain_of
from tetravision.ops._roi_samples import Grid, entries, finite

_CACHED = 1 << 20  # values that a part of the answer may have to stay in cache


def roi_align(
    input: Tensor,
    boxes: Tensor | Sequence[Tensor],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Pool regions of a feature map to one size, by bilinear samples.

    Args:
        input: ``[B, C, H, W]``, any floating dtype. Counted in float32, or float64 when it is that.
        boxes: ``[K, 5]``: the picture's number, then left, top, right, bottom; or one ``[L, 4]`` for each picture.
            Any floating dtype, whatever that of ``input``. No gradient flows to them.
        output_size: bins along height and width, or one number for both.
        spatial_scale: from the coordinates of ``boxes`` to those of ``input``.
        sampling_ratio: samples along each side of a bin; 0 or less: as many as the bin has pixels, rounded up.
        aligned: let whole coordinates be the corners of pixels, and not their middles. Without it a region is at least one pixel wide.

    Returns:
        ``[K, C, *output_size]`` in the dtype of ``input``; channels last in memory when ``input`` is. Samples further than a pixel outside the
        map count as 0. A region with NaN or an infinite corner gives NaN, and no gradient to the map.

    Raises:
        ValueError: shapes that don't go together; on a CPU, also the number of a picture that isn't there. On a GPU, where
            looking would stall, such a region gives NaN.
        TypeError: ``input`` is not floating.

    Example:
        >>> roi_align(torch.ones(1, 2, 8, 8), [torch.tensor([[0., 0., 4., 4.]])], 2, aligned=True).shape
        torch.Size([1, 2, 2, 2])

    Source: He et al. 2017 (arXiv:1703.06870), section 3; ``aligned`` and the edge rules as in common use since 2019.
    """
    input = plain_of(input)
    if input.ndim != 4:
        raise ValueError(f"roi_align: input must be [B, C, H, W], got shape {tuple(input.shape)}")
    if not input.is_floating_point():
        raise TypeError(f"roi_align: input must be floating, got {input.dtype}")
    rois = to_rois(boxes, input.shape[0], "roi_align")
    height, width = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    return _roi_align(input, rois, spatial_scale, height, width, sampling_ratio, aligned)


class RoIAlign(nn.Module):
    """:func:`roi_align` as a module.

    Example:
        >>> RoIAlign(7, spatial_scale=0.25, sampling_ratio=2)
        RoIAlign(output_size=7, spatial_scale=0.25, sampling_ratio=2, aligned=False)
    """

    def __init__(
        self,
        output_size: int | Sequence[int],
        spatial_scale: float,
        sampling_ratio: int,
        aligned: bool = False,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned

    def forward(self, input: Tensor, rois: Tensor | Sequence[Tensor]) -> Tensor:
        """Pool ``rois`` of ``input``."""
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)

    def extra_repr(self) -> str:
        """The arguments."""
        names = ("output_size", "spatial_scale", "sampling_ratio", "aligned")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


def to_rois(boxes: Tensor | Sequence[Tensor], batch: int, where: str) -> Tensor:
    """One ``[K, 5]`` tensor from either way to write regions."""
    if isinstance(boxes, Tensor):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise ValueError(
                f"{where}: boxes must be [K, 5] (picture, left, top, right, bottom), got shape {tuple(boxes.shape)}; "
                "for boxes of each picture, pass a list of [L, 4]"
            )
        return plain_of(boxes)
    if len(boxes) != batch:
        raise ValueError(f"{where}: there are {batch} pictures, but a list of {len(boxes)} tensors of boxes")
    rows = []
    for number, each in enumerate(boxes):
        if each.ndim != 2 or each.shape[1] != 4:
            raise ValueError(f"{where}: boxes of a picture must be [L, 4], got shape {tuple(each.shape)}")
        plain = plain_of(each)
        rows.append(torch.cat([torch.full_like(plain[:, :1], number), plain], 1))
    return torch.cat(rows)


def roi_align_reference(input: Tensor, rois: Tensor, grid: Grid) -> Tensor:
    """What roi_align means, one region after another, for regions of pictures that are there."""
    out = input.new_full((len(rois), input.shape[1], grid.pooled_height, grid.pooled_width), torch.nan)
    for number, roi in enumerate(rois.to(input.dtype)):
        left, top, right, bottom = (roi[1:] * grid.spatial_scale - (0.5 if grid.aligned else 0.0)).tolist()
        w, h = (
            (right - left, bottom - top) if grid.aligned else (max(right - left, 1.0), max(bottom - top, 1.0))
        )
        if not torch.isfinite(roi).all():
            continue
        ys, inside_y, rows = _sample_places(top, h, grid.pooled_height, grid.sampling_ratio, input.shape[2])
        xs, inside_x, columns = _sample_places(
            left, w, grid.pooled_width, grid.sampling_ratio, input.shape[3]
        )
        if rows == 0 or columns == 0:
            out[number] = 0
            continue
        values = _bilinear(input[int(roi[0])], ys.to(input), xs.to(input))
        values = values * (inside_y[:, None] & inside_x).to(input)
        out[number] = values.unflatten(1, (-1, rows)).unflatten(3, (-1, columns)).mean((2, 4))
    return out


def _sample_places(
    start: float, size: float, bins: int, ratio: int, length: int
) -> tuple[Tensor, Tensor, int]:
    """Coordinates of all samples along an axis, which of them count, and how many a bin has."""
    samples = ratio if ratio > 0 else max(int(-(-size / bins // 1)), 0)
    step = size / bins / max(samples, 1)
    places = start + (torch.arange(bins * samples, dtype=torch.float64) + 0.5) * step
    return places.clamp(0, length - 1), (places >= -1) & (places <= length), samples


def _bilinear(picture: Tensor, ys: Tensor, xs: Tensor) -> Tensor:
    """Values of ``[C, H, W]`` at all pairs of coordinates inside it."""
    rows = torch.lerp(picture[:, ys.floor().long()], picture[:, ys.ceil().long()], (ys - ys.floor())[:, None])
    return torch.lerp(rows[..., xs.floor().long()], rows[..., xs.ceil().long()], xs - xs.floor())


@torch.library.custom_op("tetravision::roi_align", mutates_args=())
def _roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    _check_pictures(rois, input.shape[0])
    grid = Grid(spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
    return _forward_cpu(input, rois, grid)


@torch.library.custom_op("tetravision::roi_align_backward", mutates_args=())
def _roi_align_backward(
    grad: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    grid = Grid(spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
    return backward(grad, rois, (batch, channels, height, width), grid, _sum_rows)


@_roi_align.register_kernel("cuda")
def _(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    from tetravision.ops._roi_align_triton import launch  # noqa: PLC0415  (triton: seconds to import, absent on CPU)

    return launch(input, rois, Grid(spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned))


@_roi_align_backward.register_kernel("cuda")
def _(
    grad: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    from tetravision.ops._roi_align_triton import sum_rows  # noqa: PLC0415  (triton: seconds to import, absent on CPU)

    grid = Grid(spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
    return backward(grad, rois, (batch, channels, height, width), grid, sum_rows)


@_roi_align.register_fake
def _(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    grid = Grid(spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
    return _empty_output(input, rois.shape[0], grid)


@_roi_align_backward.register_fake
def _(
    grad: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    return grad.new_empty(batch, height, width, channels).permute(0, 3, 1, 2)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, rois, *pooling = inputs
    ctx.save_for_backward(rois)
    ctx.shape, ctx.pooling = input.shape, pooling


def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    (rois,) = ctx.saved_tensors
    scale, pooled_height, pooled_width, ratio, aligned = ctx.pooling
    out = _roi_align_backward(grad, rois, scale, pooled_height, pooled_width, *ctx.shape, ratio, aligned)
    return out, *[None] * 6


def _setup_context_of_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, rois, scale, pooled_height, pooled_width, *_, ratio, aligned = inputs
    ctx.save_for_backward(rois)
    ctx.pooling = (scale, pooled_height, pooled_width, ratio, aligned)


def _double_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    """Pooling is linear in the map, so the gradient of its gradient is pooling again."""
    (rois,) = ctx.saved_tensors
    return _roi_align(grad, rois, *ctx.pooling), *[None] * 10


_roi_align.register_autograd(_backward, setup_context=_setup_context)
_roi_align_backward.register_autograd(_double_backward, setup_context=_setup_context_of_backward)


def _check_pictures(rois: Tensor, batch: int) -> None:
    numbers = rois[:, 0]
    wrong = numbers[(numbers < 0) | (numbers >= batch)]
    if wrong.numel():
        raise ValueError(
            f"roi_align: the first column of boxes numbers {batch} pictures from 0, got {wrong[0].item():g}"
        )


def _layout(input: Tensor) -> torch.memory_format:
    """Channels last for a map that is and can be told from one that isn't."""
    last = input.stride(1) == 1 and input.shape[1] > 1 and input.shape[2] * input.shape[3] > 1
    return torch.channels_last if last else torch.contiguous_format


def count_dtype(values: Tensor) -> torch.dtype:
    """What to count in."""
    return torch.float64 if values.dtype == torch.float64 else torch.float32


def _forward_cpu(input: Tensor, rois: Tensor, grid: Grid) -> Tensor:
    dtype, channels = count_dtype(input), input.shape[1]
    rois = rois.to(dtype)
    rows = _channels_last_rows(input).to(dtype)
    out = _empty_output(input, len(rois), grid)
    place = out.permute(0, 2, 3, 1) if _layout(input) is torch.channels_last else out
    empty = torch.ones(len(rois), dtype=torch.bool, device=rois.device)
    most = max(
        1, _CACHED // (grid.bins * channels)
    )  # sums of a part are moved to their place while they are in cache
    for part in entries(rois, input.shape, grid, most_regions=most):
        pooled = embedding_bag(part.pixels, rows, per_sample_weights=part.weights, mode="sum").to(out.dtype)
        if place is out:
            pooled = _transpose(pooled.view(-1, grid.bins, channels))
        place[part.regions] = pooled.view(-1, *place.shape[1:])
        empty[part.regions] = False
    out.index_fill_(0, empty.nonzero().squeeze(-1), 0)  # out[empty] = 0 would walk over all of out
    return out.index_fill_(0, (~finite(rois, grid)).nonzero().squeeze(-1), torch.nan)


def _channels_last_rows(values: Tensor) -> Tensor:
    """``[B, C, H, W]`` as rows ``[B*H*W, C]``."""
    if values.stride(1) == 1 or values.device.type != "cpu":
        return values.permute(0, 2, 3, 1).reshape(-1, values.shape[1])
    return _transpose(values.flatten(2).contiguous()).view(-1, values.shape[1])


def _transpose(values: Tensor) -> Tensor:
    """``[N, P, Q]`` to ``[N, Q, P]`` in new memory. Shuffling channels in groups of P is that, and five times faster than a copy."""
    n, p, q = values.shape
    if values.numel() == 0:
        return values.new_empty(n, q, p)
    pixels = values.view(1, 1, n, p * q).permute(0, 3, 1, 2)
    return channel_shuffle(pixels, p).permute(0, 2, 3, 1).reshape(n, q, p)


def _empty_output(input: Tensor, regions: int, grid: Grid) -> Tensor:
    shape = (regions, input.shape[1], grid.pooled_height, grid.pooled_width)
    return torch.empty(shape, dtype=input.dtype, device=input.device, memory_format=_layout(input))


def backward(
    grad: Tensor, rois: Tensor, shape: Sequence[int], grid: Grid, sum_rows: Callable[..., Tensor]
) -> Tensor:
    """Gradient to the map: for each of its pixels, the weighted sum of the gradients of the bins that read it.

    Entries are sorted by pixel first, so that each sum has one writer and a fixed order: results repeat, also on a GPU.
    """
    batch, channels, height, width = shape
    dtype = count_dtype(grad)
    bins = _channels_last_rows(grad).to(dtype)
    out = bins.new_zeros(batch * height * width, channels)
    numbers = torch.arange(len(rois) * grid.bins, device=grad.device).view(-1, grid.bins)
    for part in entries(rois.to(dtype), tuple(shape), grid):
        pixels, order = part.pixels.flatten().sort(stable=True)
        sources = numbers[part.regions].flatten()[
            torch.div(order, part.pixels.shape[1], rounding_mode="floor")
        ]
        ends = torch.arange(out.shape[0] + 1, dtype=pixels.dtype, device=grad.device)
        ends = torch.searchsorted(pixels, ends)
        out += sum_rows(bins, sources, part.weights.flatten()[order], ends)
    return out.view(batch, height, width, channels).permute(0, 3, 1, 2).to(grad.dtype)


def _sum_rows(rows: Tensor, sources: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Weighted sums of rows ``[N, C]``: sum i is over ``sources[ends[i]:ends[i + 1]]``."""
    return embedding_bag(
        sources, rows, ends, per_sample_weights=weights, mode="sum", include_last_offset=True
    )
