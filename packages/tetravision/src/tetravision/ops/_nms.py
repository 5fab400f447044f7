"""Non-maximum suppression: of boxes that overlap much, keep the one with the best score.

The meaning, the CPU paths and the operator. Boxes are sorted once, by class and score; what is left is one question, answered
by one of three functions of the same signature: which of the sorted boxes survive.
"""

import functools
import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor

from tetravision._plain import plain_of
from tetravision.ops._boxes import box_iou

Survivors = Callable[[Tensor, Tensor, float], Tensor]
_BLOCK = 256


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Keep boxes from the best score down, dropping each that overlaps a kept one by more than a threshold.

    Args:
        boxes: ``[N, 4]``, corners, floating. Overlaps are counted in float32 or wider. A box with NaN or an infinite corner
            overlaps nothing: it is kept and drops no other.
        scores: ``[N]``. Equal scores keep their order; NaN counts as the greatest, as in ``torch.sort``.
        iou_threshold: boxes go when intersection over union is strictly greater.

    Returns:
        Indices of the boxes kept, ``[M]`` int64, by falling score.

    Raises:
        ValueError: shapes that don't go together.
        TypeError: boxes that are not floating.

    Example:
        >>> boxes = torch.tensor([[0., 0., 4., 4.], [0., 0., 4., 5.], [9., 9., 12., 12.]])
        >>> nms(boxes, torch.tensor([0.8, 0.9, 0.3]), 0.5)
        tensor([1, 2])
    """
    boxes, scores = plain_of(boxes), plain_of(scores)
    _check(boxes, scores, "nms")
    return _nms(boxes, scores, iou_threshold)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """:func:`nms` among the boxes of each class alone.

    Args:
        boxes: ``[N, 4]``, as in :func:`nms`.
        scores: ``[N]``, as in :func:`nms`.
        idxs: the class of each box, or of its picture and class, ``[N]``, any whole numbers.
        iou_threshold: as in :func:`nms`.

    Returns:
        Indices of the boxes kept, ``[M]`` int64, by falling score over all classes.

    Raises:
        ValueError: shapes that don't go together.
        TypeError: boxes that are not floating.

    Example:
        >>> boxes = torch.tensor([[0., 0., 4., 4.], [0., 0., 4., 5.]])
        >>> batched_nms(boxes, torch.tensor([0.8, 0.9]), torch.tensor([0, 1]), 0.5)
        tensor([1, 0])
    """
    boxes, scores, idxs = plain_of(boxes), plain_of(scores), plain_of(idxs)
    _check(boxes, scores, "batched_nms")
    if idxs.shape != scores.shape:
        raise ValueError(
            f"batched_nms: idxs must be {list(scores.shape)}, one for each box, got shape {tuple(idxs.shape)}"
        )
    return _batched_nms(boxes, scores, idxs, iou_threshold)


def nms_reference(boxes: Tensor, scores: Tensor, iou_threshold: float, idxs: Tensor | None = None) -> Tensor:
    """What nms and batched_nms mean, one box after another."""
    overlap = box_iou(boxes, boxes).double() > iou_threshold
    if idxs is not None:
        overlap &= idxs[:, None] == idxs[None, :]
    kept: list[int] = []
    for box in scores.argsort(descending=True, stable=True).tolist():
        if not overlap[kept, box].any():
            kept.append(box)
    return torch.tensor(kept, dtype=torch.int64, device=boxes.device)


@torch.library.custom_op("tetravision::nms", mutates_args=())
def _nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    return _select(boxes, scores, None, iou_threshold, _cpu_survivors())


@torch.library.custom_op("tetravision::batched_nms", mutates_args=())
def _batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    return _select(boxes, scores, idxs, iou_threshold, _cpu_survivors())


@_nms.register_kernel("cuda")
def _(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    from tetravision.ops._nms_triton import launch  # noqa: PLC0415  (triton: seconds to import, absent on CPU)

    return _select(boxes, scores, None, iou_threshold, launch)


@_batched_nms.register_kernel("cuda")
def _(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    from tetravision.ops._nms_triton import launch  # noqa: PLC0415  (triton: seconds to import, absent on CPU)

    return _select(boxes, scores, idxs, iou_threshold, launch)


@_nms.register_fake
def _(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


@_batched_nms.register_fake
def _(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def _check(boxes: Tensor, scores: Tensor, where: str) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"{where}: boxes must be [N, 4], got shape {tuple(boxes.shape)}")
    if scores.shape != boxes.shape[:1]:
        raise ValueError(
            f"{where}: scores must be [{boxes.shape[0]}], one for each box, got shape {tuple(scores.shape)}"
        )
    if not boxes.is_floating_point():
        raise TypeError(f"{where}: boxes must be floating, got {boxes.dtype}; pass boxes.float()")


def _select(
    boxes: Tensor, scores: Tensor, idxs: Tensor | None, iou_threshold: float, survivors: Survivors
) -> Tensor:
    """Sort, ask who survives, and give the answer by falling score."""
    by_score = scores.argsort(descending=True, stable=True)
    values = boxes if boxes.dtype in (torch.float32, torch.float64) else boxes.to(torch.float32)
    threshold = floor_to(iou_threshold, values.dtype)
    if idxs is None:
        ends = torch.full_like(by_score, by_score.numel())
        return by_score[survivors(values[by_score], ends, threshold)]
    ranks = idxs[by_score].argsort(stable=True)  # by class, then score
    classes = idxs[by_score[ranks]]
    ends = torch.searchsorted(classes, classes, right=True)
    kept = survivors(values[by_score[ranks]], ends, threshold)
    return by_score[ranks[kept].sort().values]


def floor_to(threshold: float, dtype: torch.dtype) -> float:
    """The largest value of ``dtype`` that is not above: to be greater than either is the same for all values of ``dtype``."""
    rounded = torch.tensor(threshold, dtype=dtype)
    if rounded.item() > threshold:
        rounded = torch.nextafter(rounded, torch.tensor(-torch.inf, dtype=dtype))
    return rounded.item()


@functools.cache
def _cpu_survivors() -> Survivors:
    """The compiled loop when numba is installed, and else torch."""
    if importlib.util.find_spec("numba") is None:
        return survivors_torch
    from tetravision.ops._nms_numba import survivors_numba  # noqa: PLC0415  (numba: optional, a second to import)

    return survivors_numba


def survivors_torch(boxes: Tensor, ends: Tensor, threshold: float) -> Tensor:
    """Which boxes survive, in blocks: settle a block by itself, then let what it keeps drop later boxes.

    Args:
        boxes: ``[N, 4]``, sorted by class and falling score.
        ends: ``[N]`` int64, where the class of each box ends.
        threshold: of ``boxes``' dtype.

    Returns:
        ``[N]`` bool.
    """
    corners = boxes.t().contiguous()
    alive = torch.ones(boxes.shape[0], dtype=torch.bool, device=boxes.device)
    for first in range(0, boxes.shape[0], _BLOCK):
        last = min(first + _BLOCK, boxes.shape[0])
        rows = torch.arange(first, last, device=boxes.device)[alive[first:last]]  # the dead drop no one
        hits = _hits(corners[:, rows], corners[:, rows], threshold).triu_(1)
        hits &= rows < ends[rows, None]
        keep = torch.ones_like(rows, dtype=torch.bool)
        while True:  # after round n the first n boxes are settled; few rounds do in practice
            settled = ~(hits & keep[:, None]).any(0)
            if torch.equal(settled, keep):
                break
            keep = settled
        alive[first:last] = False
        rows = rows[keep]
        alive[rows] = True
        stop = int(ends[last - 1])
        if stop > last and rows.numel():
            later = torch.arange(last, stop, device=boxes.device)[alive[last:stop]]
            hits = _hits(corners[:, rows], corners[:, later], threshold)
            if int(ends[first]) < stop:  # more than one class
                hits &= later < ends[rows, None]
            alive[later] = ~hits.any(0)
    return alive


def _hits(rows: Tensor, columns: Tensor, threshold: float) -> Tensor:
    """Which boxes ``[4, M]`` overlap which boxes ``[4, N]`` by more than the threshold, ``[N, M]``; box_iou, with fewer passes."""
    left, top, right, bottom = rows[..., None]
    width = torch.minimum(right, columns[2]).sub_(torch.maximum(left, columns[0])).clamp_(min=0)
    height = torch.minimum(bottom, columns[3]).sub_(torch.maximum(top, columns[1])).clamp_(min=0)
    overlap = width.mul_(height)
    area = (columns[2] - columns[0]) * (columns[3] - columns[1])
    union = torch.add((right - left) * (bottom - top), area, out=height).sub_(overlap)
    return overlap.div_(union) > threshold
