"""Pad pictures, masks and boxes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import PIL.Image
import torch
from torch import Tensor

from tetravision._plain import plain_of
from tetravision.transforms.v2.functional._boxes import XYXY, clamp
from tetravision.transforms.v2.functional._registry import dispatch, functional, kernel, plain_kernel
from tetravision.tv_tensors import BoundingBoxes, BoundingBoxFormat, Image, Mask, wrap
from tetravision.tv_tensors._bounding_boxes import ClampingMode

Fill = float | Sequence[float] | None
_MODES = ("constant", "edge", "reflect", "symmetric")


@functional
def pad(inpt: Any, padding: int | Sequence[int], fill: Fill = None, padding_mode: str = "constant") -> Any:
    """Put a frame around a picture or mask; boxes move along.

    Args:
        inpt: a tensor ``[..., C, H, W]``, a Pillow picture, an ``Image``, ``Mask`` or ``BoundingBoxes``.
        padding: one number for all sides, two for left/right and top/bottom, or four for left, top, right, bottom. With
            ``constant``, a negative one cuts.
        fill: the value of the frame for ``constant``: one, or one for each channel of a picture; None is 0.
        padding_mode: ``constant``; ``edge`` repeats the last pixel; ``reflect`` mirrors without, ``symmetric`` with the
            last pixel. Boxes take ``constant`` alone.

    Raises:
        TypeError: there is no kernel for the type.
        ValueError: a padding of another length, an unknown mode, or a mirror wider than the picture.

    Example:
        >>> pad(torch.tensor([[1, 2]]), [1, 0], padding_mode="symmetric")
        tensor([[1, 1, 2, 2]])
    """
    return dispatch(pad, inpt, padding=padding, fill=fill, padding_mode=padding_mode)


def parse_padding(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Left, top, right, bottom."""
    sides = [padding] if isinstance(padding, int) else list(padding)
    if len(sides) == 1:
        sides = sides * 4
    elif len(sides) == 2:
        sides = sides * 2
    if len(sides) != 4:
        raise ValueError(
            f"pad: padding must be one, two or four whole numbers (left, top, right, bottom), got {padding!r}"
        )
    return sides[0], sides[1], sides[2], sides[3]


@plain_kernel(pad, Image)
@kernel(pad, torch.Tensor)
def pad_image(
    image: Tensor, padding: int | Sequence[int], fill: Fill = None, padding_mode: str = "constant"
) -> Tensor:
    """Pad ``[..., C, H, W]`` of any dtype; see :func:`pad`."""
    left, top, right, bottom = parse_padding(padding)
    _check_mode(padding_mode)
    if padding_mode == "constant":
        return _pad_constant(image, (left, right, top, bottom), fill)
    if min(left, top, right, bottom) < 0:
        raise ValueError(f"pad: {padding_mode} can't cut, so padding must not be negative; got {padding}")
    return _pad_axis(_pad_axis(image, -1, left, right, padding_mode), -2, top, bottom, padding_mode)


@plain_kernel(pad, Mask)
def pad_mask(
    mask: Tensor, padding: int | Sequence[int], fill: Fill = None, padding_mode: str = "constant"
) -> Tensor:
    """Pad masks ``[..., H, W]``; ``fill`` is one label."""
    if isinstance(fill, Sequence):
        raise ValueError(f"pad: masks have no channels, so fill must be one number, got {fill}")
    return pad_image(mask, padding, fill, padding_mode)


def pad_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: tuple[int, int],
    padding: int | Sequence[int],
    padding_mode: str = "constant",
    clamping_mode: ClampingMode = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    """Move boxes ``[..., 4]`` to where padding puts what they hold; give them and the new ``(height, width)``."""
    if padding_mode != "constant":
        raise ValueError(
            f"pad: boxes can't be mirrored into the frame; padding_mode must be 'constant', got {padding_mode!r}"
        )
    left, top, right, bottom = parse_padding(padding)
    canvas = (canvas_size[0] + top + bottom, canvas_size[1] + left + right)
    return clamp(shift(bounding_boxes, format, left, top), format, canvas, clamping_mode), canvas


@kernel(pad, BoundingBoxes)
def _(boxes: BoundingBoxes, padding: Any, fill: Any, padding_mode: str) -> BoundingBoxes:
    out, canvas = pad_bounding_boxes(
        plain_of(boxes), boxes.format, boxes.canvas_size, padding, padding_mode, boxes.clamping_mode
    )
    return wrap(out, like=boxes, canvas_size=canvas)


@kernel(pad, PIL.Image.Image)
def _(pic: PIL.Image.Image, padding: Any, fill: Fill, padding_mode: str) -> PIL.Image.Image:
    left, top, right, bottom = parse_padding(padding)
    _check_mode(padding_mode)
    if padding_mode == "constant":
        colour = fill or 0
        if isinstance(colour, Sequence):
            colour = tuple(colour) if len(colour) > 1 else colour[0]
        elif len(pic.getbands()) > 1:
            colour = (colour,) * len(pic.getbands())
        out = PIL.Image.new(pic.mode, (pic.width + left + right, pic.height + top + bottom), colour)
        out.paste(pic, (left, top))
    else:
        frame = [(top, bottom), (left, right)] + [(0, 0)] * (len(pic.getbands()) > 1)
        out = PIL.Image.fromarray(np.pad(np.asarray(pic), frame, mode=padding_mode))
    if pic.mode == "P":
        out.putpalette(pic.getpalette())
    return out


def shift(boxes: Tensor, format: BoundingBoxFormat, x: int, y: int) -> Tensor:
    """Move plain boxes by whole pixels."""
    far = (x, y) if format is XYXY else (0, 0)
    return torch.stack([value + by for value, by in zip(boxes.unbind(-1), (x, y, *far), strict=True)], -1)


def _check_mode(mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(f"pad: padding_mode must be one of {', '.join(_MODES)}, got {mode!r}")


def _pad_constant(image: Tensor, frame: tuple[int, int, int, int], fill: Fill) -> Tensor:
    values = list(fill) if isinstance(fill, Sequence) else [fill or 0]
    if len(values) == 1:
        return torch.nn.functional.pad(image, frame, value=values[0])
    if image.ndim < 3 or image.shape[-3] != len(values):
        raise ValueError(
            f"pad: fill has {len(values)} values, so the picture must have as many channels; got {tuple(image.shape)}"
        )
    planes = [
        torch.nn.functional.pad(plane, frame, value=value)
        for plane, value in zip(image.unbind(-3), values, strict=True)
    ]
    return torch.stack(planes, -3)


def _pad_axis(image: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    """Mirror or repeat along one axis by copying slices, which serves every dtype and is far faster than indexing."""
    size = image.shape[axis]
    if mode == "edge":
        first, last = image.narrow(axis, 0, 1), image.narrow(axis, size - 1, 1)
        shape = [1] * image.ndim
        return torch.cat(
            [_repeat(first, shape, axis, before), image, _repeat(last, shape, axis, after)], axis
        )
    skip = 1 if mode == "reflect" else 0
    if max(before, after) > size - skip:
        raise ValueError(
            f"pad: {mode} can't mirror more than {size - skip} of {size} pixels, got {max(before, after)}"
        )
    head = image.narrow(axis, skip, before).flip(axis)
    tail = image.narrow(axis, size - skip - after, after).flip(axis)
    return torch.cat([head, image, tail], axis)


def _repeat(line: Tensor, shape: list[int], axis: int, times: int) -> Tensor:
    return line.repeat(*shape[:axis], times, *shape[len(shape) + axis + 1 :])
