"""The GPU kernels of the detection operators, timed by device events against measured copy bandwidth.

Run by the workspace's GPU script, with the sources on the path and nothing installed. Bytes are counted as the operator
must move them: the map, regions and answer once each; for nms the boxes and the table of hits.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor

from tetravision.ops._nms_triton import launch as nms_launch
from tetravision.ops._roi_align import backward
from tetravision.ops._roi_align_triton import launch, sum_rows
from tetravision.ops._roi_samples import Grid

Case = tuple[Callable[[], Any], int]
_COPIES = 4  # sets of inputs in turn, so that none waits in cache


def roi_inputs(
    device: torch.device, dtype: torch.dtype, *, regions: int, channels: int, height: int, width: int
) -> tuple[Tensor, Tensor]:
    """A batch of two maps, channels last, and regions of up to a third of one."""
    generator = torch.Generator().manual_seed(0)
    feature = torch.randn(2, channels, height, width, generator=generator).to(device=device, dtype=dtype)
    corner = torch.rand(regions, 2, generator=generator) * torch.tensor([width * 0.7, height * 0.7])
    size = 1 + torch.rand(regions, 2, generator=generator) * torch.tensor([width * 0.3, height * 0.3])
    picture = torch.randint(0, 2, (regions, 1), generator=generator)
    rois = torch.cat([picture, corner, corner + size], 1).to(device)
    return feature.contiguous(memory_format=torch.channels_last), rois


def nms_inputs(device: torch.device, number: int) -> tuple[Tensor, Tensor]:
    """Sorted boxes of one class: clusters of near-copies, as a detector gives them."""
    generator = torch.Generator().manual_seed(0)
    corner = (torch.rand(max(1, number // 20), 2, generator=generator) * 1000).repeat(20, 1)[:number]
    corner = corner + torch.randn(corner.shape, generator=generator) * 2
    boxes = torch.cat([corner, corner + 60], 1).to(device)
    return boxes, torch.full((len(boxes),), len(boxes), device=device)


def roi_case(inputs: tuple[Tensor, Tensor], grid: Grid) -> Case:
    """Pool once; and the bytes that takes."""
    feature, rois = inputs
    out = len(rois) * grid.bins * feature.shape[1]
    return lambda: launch(feature, rois, grid), (feature.numel() + out) * feature.element_size()


def backward_case(inputs: tuple[Tensor, Tensor], grid: Grid) -> Case:
    """The gradient once, sorting included; and the bytes that takes."""
    feature, rois = inputs
    shape = (len(rois), feature.shape[1], grid.pooled_height, grid.pooled_width)
    grad = torch.ones(shape, dtype=feature.dtype, device=feature.device)
    size_bytes = (feature.numel() + grad.numel()) * feature.element_size()
    return lambda: backward(grad, rois, feature.shape, grid, sum_rows), size_bytes


def nms_case(inputs: tuple[Tensor, Tensor]) -> Case:
    """Suppress once; and the bytes that takes."""
    boxes, ends = inputs
    size_bytes = boxes.numel() * 4 + 2 * len(boxes) * len(boxes) // 8
    return lambda: nms_launch(boxes, ends, 0.5), size_bytes


def milliseconds(calls: list[Callable[[], Any]], rounds: int = 20) -> float:
    """Median time of a call by device events, after a warm-up."""
    for call in calls:
        call()
    times = []
    for number in range(rounds):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        calls[number % len(calls)]()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return median(times)


def run(device: torch.device, copy_gb_per_s: float) -> list[dict[str, Any]]:
    """Time every case; a row has kernel, size, dtype, ms, gb_per_s and the share of copy bandwidth."""
    rows = []

    def add(kernel: str, size: str, dtype: str, made: list[Case]) -> None:
        ms = milliseconds([call for call, _ in made])
        rate = made[0][1] / ms / 1e6
        row = {"kernel": kernel, "size": size, "dtype": dtype, "ms": ms}
        rows.append(row | {"gb_per_s": rate, "copy_share": rate / copy_gb_per_s})

    grid = Grid(1.0, 7, 7, 2, True)
    for dtype in (torch.float32, torch.float16):
        name = str(dtype).removeprefix("torch.")
        for regions in (512, 4096):
            sizes = {"regions": regions, "channels": 256, "height": 100, "width": 152}
            inputs = [roi_inputs(device, dtype, **sizes) for _ in range(_COPIES)]
            size = f"{regions} regions, 2x256x100x152"
            add("roi_align", size, name, [roi_case(each, grid) for each in inputs])
            add("roi_align_backward", size, name, [backward_case(each, grid) for each in inputs])
    for number in (1000, 10000):
        add(
            "nms",
            f"{number} boxes",
            "float32",
            [nms_case(nms_inputs(device, number)) for _ in range(_COPIES)],
        )
    return rows
