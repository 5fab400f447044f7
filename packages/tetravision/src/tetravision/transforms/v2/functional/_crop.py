"""Crop pictures, masks and boxes: at a place, in the middle, and with a resize."""

from collections.abc import Sequence
from typing import Any

import PIL.Image
import torch
from torch import Tensor

from tetravision._plain import plain_of
from tetravision.transforms._interpolation import InterpolationMode
from tetravision.transforms.v2.functional._boxes import clamp
from tetravision.transforms.v2.functional._meta import get_size
from tetravision.transforms.v2.functional._pad import pad, shift
from tetravision.transforms.v2.functional._registry import dispatch, functional, kernel, plain_kernel
from tetravision.transforms.v2.functional._resize import (
    resize,
    resize_bounding_boxes,
    resize_image,
    resize_mask,
)
from tetravision.tv_tensors import BoundingBoxes, BoundingBoxFormat, Image, Mask, wrap
from tetravision.tv_tensors._bounding_boxes import ClampingMode


@functional
def crop(inpt: Any, top: int, left: int, height: int, width: int) -> Any:
    """Cut a rectangle out of a picture or mask; boxes move along.

    Args:
        inpt: a tensor ``[..., C, H, W]``, a Pillow picture, an ``Image``, ``Mask`` or ``BoundingBoxes``.
        top: first row. What lies outside the picture is 0.
        left: first column.
        height: rows.
        width: columns.

    Returns:
        The same type; a tensor that lies inside shares memory with the input. Boxes are cut at the new edge, unless their
        ``clamping_mode`` is None; one wholly outside ends with no area.

    Raises:
        TypeError: there is no kernel for the type.

    Example:
        >>> crop(torch.arange(6).view(2, 3), 1, -1, 1, 3)
        tensor([[0, 3, 4]])
    """
    return dispatch(crop, inpt, top=top, left=left, height=height, width=width)


@plain_kernel(crop, Image)
@kernel(crop, torch.Tensor)
def crop_image(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """Crop ``[..., H, W]`` of any dtype; see :func:`crop`."""
    old_height, old_width = image.shape[-2:]
    if top >= 0 and left >= 0 and top + height <= old_height and left + width <= old_width:
        return image[..., top : top + height, left : left + width]
    y, x = _overlap(top, height, old_height), _overlap(left, width, old_width)
    inner = image[..., y[0] : y[0] + y[1], x[0] : x[0] + x[1]]
    frame = (x[2], width - x[1] - x[2], y[2], height - y[1] - y[2])
    return torch.nn.functional.pad(inner, frame)


def _overlap(first: int, size: int, old: int) -> tuple[int, int, int]:
    """Where a stretch meets ``[0, old)``: the first place, how many, and how many are missing before."""
    start, stop = min(max(first, 0), old), min(max(first + size, 0), old)
    inner = stop - start
    return start, inner, min(max(-first, 0), size - inner)


@plain_kernel(crop, Mask)
def crop_mask(mask: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """Crop masks ``[..., H, W]``; outside is 0."""
    return crop_image(mask, top, left, height, width)


def crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    top: int,
    left: int,
    height: int,
    width: int,
    clamping_mode: ClampingMode = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    """Move boxes ``[..., 4]`` to where cropping puts what they hold; give them and the new ``(height, width)``."""
    canvas = (height, width)
    return clamp(shift(bounding_boxes, format, -left, -top), format, canvas, clamping_mode), canvas


@kernel(crop, BoundingBoxes)
def _(boxes: BoundingBoxes, top: int, left: int, height: int, width: int) -> BoundingBoxes:
    out, canvas = crop_bounding_boxes(
        plain_of(boxes), boxes.format, top, left, height, width, boxes.clamping_mode
    )
    return wrap(out, like=boxes, canvas_size=canvas)


@kernel(crop, PIL.Image.Image)
def _(pic: PIL.Image.Image, top: int, left: int, height: int, width: int) -> PIL.Image.Image:
    return pic.crop((left, top, left + width, top + height))


@functional
def center_crop(inpt: Any, output_size: int | Sequence[int]) -> Any:
    """Cut the middle out of a picture or mask; boxes move along.

    Args:
        inpt: a tensor ``[..., C, H, W]``, a Pillow picture, an ``Image``, ``Mask`` or ``BoundingBoxes``.
        output_size: ``[height, width]``, or one number for a square. A picture that is smaller is padded with 0 first.

    Raises:
        TypeError: there is no kernel for the type.
        ValueError: more than two numbers.

    Example:
        >>> center_crop(torch.arange(5).view(1, 5), [1, 3])
        tensor([[1, 2, 3]])
    """
    return dispatch(center_crop, inpt, output_size=output_size)


def _middle(canvas_size: Sequence[int], output_size: int | Sequence[int]) -> tuple[list[int], list[int]]:
    """How to crop the middle: the padding that is needed first, and top, left, height and width after it."""
    sides = [output_size] if isinstance(output_size, int) else list(output_size)
    if len(sides) == 1:
        sides = sides * 2
    if len(sides) != 2:
        raise ValueError(
            f"center_crop: output_size must be one number or [height, width], got {output_size!r}"
        )
    missing = [max(wanted - old, 0) for wanted, old in zip(sides, canvas_size, strict=True)]
    padding = [missing[1] // 2, missing[0] // 2, (missing[1] + 1) // 2, (missing[0] + 1) // 2]
    rest = [max(old - wanted, 0) for wanted, old in zip(sides, canvas_size, strict=True)]
    # half of an odd rest goes to the even neighbour, as Python rounds
    first = [spare // 2 + (spare % 2) * (spare // 2 % 2) for spare in rest]
    return padding, [*first, *sides]


def _center(inpt: Any, canvas_size: Sequence[int], output_size: int | Sequence[int]) -> Any:
    padding, place = _middle(canvas_size, output_size)
    if padding != [0, 0, 0, 0]:
        inpt = pad(inpt, padding)
    return crop(inpt, *place)


@plain_kernel(center_crop, Image)
@kernel(center_crop, torch.Tensor)
def center_crop_image(image: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """Crop the middle of ``[..., H, W]``; see :func:`center_crop`."""
    return _center(image, image.shape[-2:], output_size)


@plain_kernel(center_crop, Mask)
def center_crop_mask(mask: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """Crop the middle of masks ``[..., H, W]``."""
    return center_crop_image(mask, output_size)


def center_crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: tuple[int, int],
    output_size: int | Sequence[int],
    clamping_mode: ClampingMode = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    """Move boxes ``[..., 4]`` to where cropping the middle puts what they hold; give them and the new ``(height, width)``."""
    padding, (top, left, height, width) = _middle(canvas_size, output_size)
    return crop_bounding_boxes(
        bounding_boxes, format, top - padding[1], left - padding[0], height, width, clamping_mode
    )


@kernel(center_crop, BoundingBoxes)
def _(boxes: BoundingBoxes, output_size: int | Sequence[int]) -> BoundingBoxes:
    out, canvas = center_crop_bounding_boxes(
        plain_of(boxes), boxes.format, boxes.canvas_size, output_size, boxes.clamping_mode
    )
    return wrap(out, like=boxes, canvas_size=canvas)


@kernel(center_crop, PIL.Image.Image)
def _(pic: PIL.Image.Image, output_size: int | Sequence[int]) -> PIL.Image.Image:
    return _center(pic, get_size(pic), output_size)


@functional
def resized_crop(
    inpt: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int],
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """Cut a rectangle out and resize it: :func:`crop`, then :func:`resize`.

    Example:
        >>> resized_crop(torch.zeros(3, 40, 60), 2, 3, 20, 30, [8, 9]).shape
        torch.Size([3, 8, 9])
    """
    return dispatch(
        resized_crop,
        inpt,
        top=top,
        left=left,
        height=height,
        width=width,
        size=size,
        interpolation=interpolation,
        antialias=antialias,
    )


@plain_kernel(resized_crop, Image)
@kernel(resized_crop, torch.Tensor)
def resized_crop_image(
    image: Tensor,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int],
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Tensor:
    """Crop and resize ``[..., C, H, W]``; see :func:`resized_crop`."""
    return resize_image(crop_image(image, top, left, height, width), size, interpolation, antialias=antialias)


def resized_crop_mask(
    mask: Tensor, top: int, left: int, height: int, width: int, size: Sequence[int]
) -> Tensor:
    """Crop masks ``[..., H, W]`` and resize them by nearest neighbour."""
    return resize_mask(crop_mask(mask, top, left, height, width), size)


@plain_kernel(resized_crop, Mask)
def _(
    mask: Tensor, top: int, left: int, height: int, width: int, size: Any, interpolation: Any, antialias: Any
) -> Tensor:
    return resize_mask(crop_mask(mask, top, left, height, width), size, interpolation)


def resized_crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int],
    clamping_mode: ClampingMode = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    """Move boxes ``[..., 4]`` with a crop, then scale them; give them and the new ``(height, width)``."""
    boxes, canvas = crop_bounding_boxes(bounding_boxes, format, top, left, height, width, clamping_mode)
    return resize_bounding_boxes(boxes, canvas, size, format=format)


@kernel(resized_crop, BoundingBoxes)
def _(
    boxes: BoundingBoxes,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any,
    antialias: Any,
) -> BoundingBoxes:
    out, canvas = resized_crop_bounding_boxes(
        plain_of(boxes), boxes.format, top, left, height, width, size, boxes.clamping_mode
    )
    return wrap(out, like=boxes, canvas_size=canvas)


@kernel(resized_crop, PIL.Image.Image)
def _(
    pic: PIL.Image.Image,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any,
    antialias: Any,
) -> PIL.Image.Image:
    return resize(crop(pic, top, left, height, width), size, interpolation)
