"""Where a region of interest samples a map: for each bin, which rows and columns, with which weights.

Sampling is bilinear, and a bin is the mean over a grid of samples, so that the weight of a pixel in a bin is a product of one weight
for its row and one for its column. Both are worked out here for all bins of many regions at once; operators only sum.
"""

import dataclasses
import math
from collections.abc import Iterator

import torch
from torch import Tensor

_MOST_ENTRIES = 1 << 21  # at once; one region may have more


@dataclasses.dataclass(frozen=True)
class Grid:
    """How regions are cut into bins: everything about a pooling that is not a tensor."""

    spatial_scale: float
    pooled_height: int
    pooled_width: int
    sampling_ratio: int
    aligned: bool

    @property
    def bins(self) -> int:
        """Bins of one region."""
        return self.pooled_height * self.pooled_width


@dataclasses.dataclass(frozen=True)
class Entries:
    """Weights of map pixels in bins of some regions.

    Attributes:
        regions: which regions, as an index: ``[K]`` int64, or a slice when they follow one another.
        pixels: the place of each entry in the flattened map ``[B*H*W]``, ``[K * bins, T]`` int32, or int64 if it must be.
        weights: likewise, floating.
    """

    regions: Tensor | slice
    pixels: Tensor
    weights: Tensor


@dataclasses.dataclass(frozen=True)
class _Axis:
    """One axis of all regions: where the first bin starts and how large a bin is, ``[K]``."""

    start: Tensor
    size: Tensor


def entries(
    rois: Tensor, shape: tuple[int, int, int, int], grid: Grid, *, most_regions: int | None = None
) -> Iterator[Entries]:
    """Work out the entries of all regions that have any, in parts that fit in memory.

    Args:
        rois: ``[K, 5]``, picture and corners, in the dtype to count in.
        shape: of the map, ``(B, C, H, W)``.
        grid: the pooling.
        most_regions: in one part.

    Regions that are not finite have no entries, and neither have those without samples.
    """
    batch, _, height, width = shape
    integer = torch.int32 if batch * height * width < 1 << 31 else torch.int64
    y, x = _axes(rois, grid)
    usable = finite(rois, grid) & (rois[:, 0] >= 0) & (rois[:, 0] < batch)
    for regions, rows, columns in _by_samples(usable, y, x, grid):
        ys, wy = _weights(y.start[regions], y.size[regions], grid.pooled_height, rows, height)
        xs, wx = _weights(x.start[regions], x.size[regions], grid.pooled_width, columns, width)
        ys = (ys + rois[regions, 0].to(torch.int64)[:, None, None] * height) * width
        tall, wide = ys.shape[-1], xs.shape[-1]
        # all pairs of a row and a column, in the order of the bag, while there are still few
        ys, wy = (each.repeat_interleave(wide, -1)[:, :, None] for each in (ys.to(integer), wy))
        xs, wx = (each.repeat(1, 1, tall)[:, None] for each in (xs.to(integer), wx))
        step = max(1, min(_MOST_ENTRIES // (grid.bins * tall * wide), most_regions or len(regions)))
        for first in range(0, len(regions), step):
            part = slice(first, first + step)
            pixels, weights = ys[part] + xs[part], wy[part] * wx[part]
            all_in_order = len(regions) == len(rois)
            yield Entries(
                part if all_in_order else regions[part], pixels.flatten(0, 2), weights.flatten(0, 2)
            )


def finite(rois: Tensor, grid: Grid) -> Tensor:
    """Which regions have corners that can be counted with, ``[K]`` bool."""
    y, x = _axes(rois, grid)
    return torch.isfinite(rois[:, 0] + y.start + y.size + x.start + x.size)


def _axes(rois: Tensor, grid: Grid) -> tuple[_Axis, _Axis]:
    corners = rois[:, 1:] * grid.spatial_scale
    size = corners[:, 2:] - corners[:, :2]
    if not grid.aligned:
        size = size.clamp(min=1.0)
    start = corners[:, :2] - (0.5 if grid.aligned else 0.0)
    y = _Axis(start[:, 1], size[:, 1] / grid.pooled_height)
    return y, _Axis(start[:, 0], size[:, 0] / grid.pooled_width)


def _by_samples(usable: Tensor, y: _Axis, x: _Axis, grid: Grid) -> Iterator[tuple[Tensor, float, float]]:
    """Group regions by the number of samples a bin has along each axis."""
    if grid.sampling_ratio > 0:
        regions = usable.nonzero().squeeze(-1)
        if regions.numel():  # ascending, as entries() counts on
            yield regions, grid.sampling_ratio, grid.sampling_ratio
        return
    counts = torch.stack([y.size, x.size], 1).ceil()
    regions = (usable & (counts > 0).all(1)).nonzero().squeeze(-1)
    pairs, group = torch.unique(counts[regions], dim=0, return_inverse=True)
    for number, (rows, columns) in enumerate(pairs.tolist()):
        yield regions[group == number], rows, columns  # ascending too


def _weights(start: Tensor, size: Tensor, bins: int, samples: float, length: int) -> tuple[Tensor, Tensor]:
    """Which places along an axis of ``length`` each bin reads, and with which weights.

    Args:
        start: ``[K]``.
        size: of a bin, ``[K]``.
        bins: how many.
        samples: in a bin; a whole number.
        length: of the axis.

    Returns:
        Places ``[K, bins, T]`` int64 and weights. T is the least that holds them: all places that a bin spans where samples
        lie close, else two for each sample.
    """
    step = (size / samples)[:, None]
    number = torch.arange(bins, dtype=start.dtype, device=start.device)
    first = start[:, None] + number * size[:, None] + step / 2
    widest = step.abs().max().item()
    count, skipped = int(min(samples, 1 << 30)), torch.zeros_like(first)
    if (
        step.min().item() > 0 and samples * step.min().item() > length + 2
    ):  # more than cover the axis: look at those on it
        count = int(min(samples, (length + 1) // step.min().item() + 2))
        skipped = ((-1 - first) / step).floor().clamp(0, samples - count)
    index = skipped[..., None] + torch.arange(count, dtype=start.dtype, device=start.device)
    where = first[..., None] + index * step[..., None]
    inside = ((where >= -1) & (where <= length)).to(start.dtype) / samples
    where = where.clamp(0, length - 1)
    span = min(math.ceil((count - 1) * widest) + 2, length)
    if span < 2 * count:
        places = where.amin(-1).floor().clamp(max=length - span)[..., None]
        places = places + torch.arange(span, dtype=start.dtype, device=start.device)
        near = 1 - (where[..., None, :] - places[..., :, None]).abs()
        return places.to(torch.int64), (near.clamp(min=0) * inside[..., None, :]).sum(-1)
    low = where.floor()
    part = where - low
    places = torch.cat([low, (low + 1).clamp(max=length - 1)], -1)
    return places.to(torch.int64), torch.cat([(1 - part) * inside, part * inside], -1)
