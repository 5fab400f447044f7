"""Boxes as plain tensors: areas, overlaps, formats."""

from collections.abc import Sequence

import torch
from torch import Tensor

_FORMATS = ("xyxy", "xywh", "cxcywh")


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Write boxes in another format.

    Args:
        boxes: ``[..., 4]``. Whole numbers become floating where the middle of a box is asked for.
        in_fmt: ``xyxy`` (left, top, right, bottom), ``xywh`` (left, top, width, height) or ``cxcywh`` (middle, width, height).
        out_fmt: likewise.

    Returns:
        A new tensor of that shape.

    Raises:
        ValueError: an unknown format, or another last dimension.

    Example:
        >>> box_convert(torch.tensor([[1., 2., 5., 8.]]), "xyxy", "cxcywh")
        tensor([[3., 5., 4., 6.]])
    """
    _check(boxes, "box_convert", in_fmt, out_fmt)
    if in_fmt == out_fmt:
        return boxes.clone()
    a, b, c, d = _corners(boxes, in_fmt).unbind(-1)
    if out_fmt == "xyxy":
        return torch.stack([a, b, c, d], -1)
    w, h = c - a, d - b
    if out_fmt == "xywh":
        return torch.stack([a, b, w, h], -1)
    middle = ((a + c) / 2, (b + d) / 2)
    return torch.stack([*middle, w.to(middle[0].dtype), h.to(middle[0].dtype)], -1)


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """Areas of boxes.

    Args:
        boxes: ``[..., 4]``. Half precision is counted in float32, small whole numbers in int64, so that nothing overflows.
        fmt: ``xyxy``, ``xywh`` or ``cxcywh``.

    Returns:
        ``[...]``. A box whose corners are in the wrong order may have a negative area.

    Example:
        >>> box_area(torch.tensor([[0., 0., 2., 3.]]))
        tensor([6.])
    """
    _check(boxes, "box_area", fmt)
    wide = _widen(boxes)
    size = wide[..., 2:] - wide[..., :2] if fmt == "xyxy" else wide[..., 2:]
    return size[..., 0] * size[..., 1]


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Area of the intersection over that of the union, for all pairs.

    Args:
        boxes1: ``[..., N, 4]``.
        boxes2: ``[..., M, 4]``.
        fmt: ``xyxy``, ``xywh`` or ``cxcywh``, of both.

    Returns:
        ``[..., N, M]``, at least float32, from 0 to 1. Two boxes without area give NaN.

    Example:
        >>> box_iou(torch.tensor([[0., 0., 2., 2.]]), torch.tensor([[1., 0., 3., 2.], [5., 5., 6., 6.]]))
        tensor([[0.3333, 0.0000]])

    Source: Jaccard 1912, on areas.
    """
    _check(boxes1, "box_iou", fmt)
    _check(boxes2, "box_iou", fmt)
    one, two = _widen(_corners(boxes1, fmt)), _widen(_corners(boxes2, fmt))
    left1, top1, right1, bottom1 = one[..., :, None, :].unbind(-1)
    left2, top2, right2, bottom2 = two[..., None, :, :].unbind(-1)
    width = (torch.minimum(right1, right2) - torch.maximum(left1, left2)).clamp(min=0)
    height = (torch.minimum(bottom1, bottom2) - torch.maximum(top1, top2)).clamp(min=0)
    overlap = width * height
    return overlap / (box_area(one)[..., :, None] + box_area(two)[..., None, :] - overlap)


def clip_boxes_to_image(boxes: Tensor, size: Sequence[int]) -> Tensor:
    """Cut boxes at the edge of a picture.

    Args:
        boxes: ``[..., 4]``, corners.
        size: ``(height, width)``.

    Returns:
        A new tensor of that shape.

    Example:
        >>> clip_boxes_to_image(torch.tensor([[-1., 2., 30., 9.]]), (8, 20))
        tensor([[ 0.,  2., 20.,  8.]])
    """
    _check(boxes, "clip_boxes_to_image")
    height, width = size
    x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return torch.stack([x, y], -1).flatten(-2)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """Which boxes have both sides of at least a size.

    Args:
        boxes: ``[N, 4]``, corners.
        min_size: in pixels.

    Returns:
        Their indices, ``[M]`` int64, ascending.

    Example:
        >>> remove_small_boxes(torch.tensor([[0., 0., 9., 9.], [0., 0., 1., 9.]]), 2.0)
        tensor([0])
    """
    _check(boxes, "remove_small_boxes")
    return ((boxes[:, 2:] - boxes[:, :2]) >= min_size).all(-1).nonzero().squeeze(-1)


def _check(boxes: Tensor, where: str, *formats: str) -> None:
    if boxes.shape[-1] != 4:
        raise ValueError(f"{where}: boxes must be [..., 4], got shape {tuple(boxes.shape)}")
    for each in formats:
        if each not in _FORMATS:
            raise ValueError(f"{where}: a format must be one of {', '.join(_FORMATS)}, got {each!r}")


def _corners(boxes: Tensor, fmt: str) -> Tensor:
    if fmt == "xyxy":
        return boxes
    first, size = boxes[..., :2], boxes[..., 2:]
    if fmt == "cxcywh":
        first = first - size / 2
    return torch.cat([first, first + size], -1)


def _widen(boxes: Tensor) -> Tensor:
    """To a type in which areas don't overflow."""
    if boxes.is_floating_point():
        return boxes if boxes.dtype in (torch.float32, torch.float64) else boxes.to(torch.float32)
    return boxes if boxes.dtype in (torch.int32, torch.int64) else boxes.to(torch.int64)
