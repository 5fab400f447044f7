"""Boxes: from one format to another, cut at the canvas, and sifted."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tetravision._plain import plain_of
from tetravision.tv_tensors import BoundingBoxes, BoundingBoxFormat, wrap
from tetravision.tv_tensors._bounding_boxes import ClampingMode, check_clamping_mode, parse_format

XYXY, XYWH, CXCYWH = BoundingBoxFormat.XYXY, BoundingBoxFormat.XYWH, BoundingBoxFormat.CXCYWH


def convert_bounding_box_format(
    inpt: Tensor,
    old_format: BoundingBoxFormat | str | None = None,
    new_format: BoundingBoxFormat | str | None = None,
    inplace: bool = False,
) -> Tensor:
    """Write boxes in another format.

    Args:
        inpt: ``[..., 4]``, :class:`BoundingBoxes` or a plain tensor, any dtype. Whole numbers stay whole: the middle of an odd side
            is rounded down, and the way back gives the box one came from.
        old_format: the format of a plain tensor; boxes know theirs, and then it must not be given.
        new_format: the format wanted.
        inplace: write the answer into ``inpt``.

    Returns:
        Boxes of the same type, dtype and shape; the tensor itself when the format is the same.

    Raises:
        TypeError: ``new_format`` is missing, or ``inpt`` is no tensor.
        ValueError: ``old_format`` is missing for a plain tensor, or given for boxes.

    Example:
        >>> convert_bounding_box_format(torch.tensor([[1., 2., 5., 8.]]), "XYXY", "CXCYWH")
        tensor([[3., 5., 4., 6.]])
    """
    if new_format is None:
        raise TypeError("convert_bounding_box_format: new_format is missing")
    _check_tensor(inpt, "convert_bounding_box_format")
    new = parse_format(new_format)
    boxes = plain_of(inpt)
    typed = isinstance(inpt, BoundingBoxes)
    if typed == (old_format is not None):
        raise ValueError(
            "convert_bounding_box_format: "
            + (
                "BoundingBoxes know their format; leave old_format out"
                if typed
                else "a plain tensor needs old_format="
            )
        )
    old = inpt.format if typed else parse_format(old_format)
    out = boxes if old is new else from_xyxy(to_xyxy(boxes, old), new)
    if inplace and out is not boxes:
        out = boxes.copy_(out)
    return wrap(out, like=inpt, format=new) if typed else out


def to_xyxy(boxes: Tensor, format: BoundingBoxFormat) -> Tensor:
    """Corners of ``[..., 4]`` boxes; the tensor itself when it holds corners already."""
    if format is XYXY:
        return boxes
    first, size = boxes[..., :2], boxes[..., 2:]
    if format is CXCYWH:
        first = first - _half(size)
    return torch.cat([first, first + size], -1)


def from_xyxy(corners: Tensor, format: BoundingBoxFormat) -> Tensor:
    """The inverse of :func:`to_xyxy`."""
    if format is XYXY:
        return corners
    first = corners[..., :2]
    size = corners[..., 2:] - first
    if format is CXCYWH:
        first = first + _half(size)
    return torch.cat([first, size], -1)


def clamp_bounding_boxes(
    inpt: Tensor,
    format: BoundingBoxFormat | str | None = None,
    canvas_size: Sequence[int] | None = None,
    clamping_mode: ClampingMode | str = "auto",
) -> Tensor:
    """Cut boxes at the edge of the picture.

    Args:
        inpt: ``[..., 4]``, :class:`BoundingBoxes` or a plain tensor, any dtype. NaN stays NaN.
        format: the format of a plain tensor; must not be given for boxes.
        canvas_size: ``(height, width)`` for a plain tensor; must not be given for boxes.
        clamping_mode: ``"auto"`` does as the boxes say; ``"soft"`` and ``"hard"`` cut; ``None`` leaves the boxes as they are.

    Returns:
        Boxes of the same type. A box wholly outside ends with no area, on the edge next to it.

    Raises:
        TypeError: not a tensor.
        ValueError: an argument is missing for a plain tensor, or given for boxes.

    Example:
        >>> clamp_bounding_boxes(torch.tensor([[-3., 2., 50., 6.]]), "XYXY", (10, 20), clamping_mode="hard")
        tensor([[ 0.,  2., 20.,  6.]])
    """
    _check_tensor(inpt, "clamp_bounding_boxes")
    typed = isinstance(inpt, BoundingBoxes)
    if typed and not (format is None and canvas_size is None):
        raise ValueError("clamp_bounding_boxes: BoundingBoxes know format and canvas_size; leave them out")
    if not typed and (format is None or canvas_size is None):
        raise ValueError("clamp_bounding_boxes: a plain tensor needs format= and canvas_size=")
    if not typed and clamping_mode == "auto":
        raise ValueError(
            "clamp_bounding_boxes: a plain tensor has no mode of its own, so it needs clamping_mode="
        )
    mode = inpt.clamping_mode if clamping_mode == "auto" else clamping_mode
    if typed:
        format, canvas_size = inpt.format, inpt.canvas_size
    out = clamp(plain_of(inpt), parse_format(format), canvas_size, check_clamping_mode(mode))
    return wrap(out, like=inpt) if typed else out


def clamp(boxes: Tensor, format: BoundingBoxFormat, canvas_size: Sequence[int], mode: ClampingMode) -> Tensor:
    """Cut plain boxes at the canvas; a new tensor."""
    if mode is None:
        return boxes.clone()
    height, width = canvas_size
    corners = to_xyxy(boxes, format)
    x, y = corners[..., 0::2].clamp(0, width), corners[..., 1::2].clamp(0, height)
    return from_xyxy(torch.stack([x, y], -1).flatten(-2), format)


def sanitize_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str | None = None,
    canvas_size: Sequence[int] | None = None,
    min_size: float = 1.0,
    min_area: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Drop boxes that are too small, or not inside the picture.

    Args:
        bounding_boxes: ``[N, 4]``, :class:`BoundingBoxes` or a plain tensor.
        format: the format of a plain tensor; must not be given for boxes.
        canvas_size: ``(height, width)`` for a plain tensor; must not be given for boxes.
        min_size: least width and least height, in pixels.
        min_area: least area, in pixels.

    Returns:
        The boxes that stay, ``[M, 4]``, and which they are, ``[N]`` bool. A box with a NaN goes.

    Raises:
        TypeError: not a tensor.
        ValueError: an argument is missing for a plain tensor, or given for boxes.

    Example:
        >>> boxes = torch.tensor([[0., 0., 4., 4.], [2., 2., 2., 5.]])
        >>> sanitize_bounding_boxes(boxes, format="XYXY", canvas_size=(9, 9))[1]
        tensor([ True, False])
    """
    _check_tensor(bounding_boxes, "sanitize_bounding_boxes")
    typed = isinstance(bounding_boxes, BoundingBoxes)
    if typed and not (format is None and canvas_size is None):
        raise ValueError("sanitize_bounding_boxes: BoundingBoxes know format and canvas_size; leave them out")
    if not typed and (format is None or canvas_size is None):
        raise ValueError("sanitize_bounding_boxes: a plain tensor needs format= and canvas_size=")
    if typed:
        format, canvas_size = bounding_boxes.format, bounding_boxes.canvas_size
    boxes = plain_of(bounding_boxes)
    valid = valid_boxes(boxes, parse_format(format), canvas_size, min_size=min_size, min_area=min_area)
    kept: Any = boxes[valid]
    return (wrap(kept, like=bounding_boxes) if typed else kept), valid


def valid_boxes(
    boxes: Tensor, format: BoundingBoxFormat, canvas_size: Sequence[int], *, min_size: float, min_area: float
) -> Tensor:
    """Which boxes are large enough and inside the canvas, ``[N]`` bool."""
    height, width = canvas_size
    left, top, right, bottom = to_xyxy(boxes, format).unbind(-1)
    w, h = right - left, bottom - top
    large = (w >= min_size) & (h >= min_size) & (w * h >= min_area)
    return large & (left >= 0) & (top >= 0) & (right <= width) & (bottom <= height)


def _check_tensor(boxes: Tensor, where: str) -> None:
    if not isinstance(boxes, Tensor):
        raise TypeError(f"{where}: boxes must be BoundingBoxes or a plain tensor, got {type(boxes)}")


def _half(size: Tensor) -> Tensor:
    return size / 2 if size.is_floating_point() else torch.div(size, 2, rounding_mode="floor")
