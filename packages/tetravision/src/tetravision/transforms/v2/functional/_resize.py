"""Resize pictures, masks and boxes."""

from collections.abc import Sequence
from typing import Any

import PIL.Image
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from tetravision._plain import plain_of
from tetravision.transforms._interpolation import InterpolationMode, parse_interpolation, pil_filter
from tetravision.transforms.v2.functional._registry import dispatch, functional, kernel, plain_kernel
from tetravision.tv_tensors import BoundingBoxes, BoundingBoxFormat, Image, Mask, wrap

_NEAREST = (InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT)
_SMOOTH = (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC, InterpolationMode.LANCZOS)


@functional
def resize(
    inpt: Any,
    size: Sequence[int] | int | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """Resize a picture, mask or boxes.

    Args:
        inpt: a tensor ``[..., C, H, W]``, a Pillow picture, an ``Image``, ``Mask`` or ``BoundingBoxes``.
        size: ``[height, width]``; or one number (or a list of one) for the shorter side, keeping the aspect; or None for
            the largest size of that aspect with no side over ``max_size``.
        interpolation: for pictures. Masks use nearest neighbour, boxes scale.
        max_size: with one number, the longer side is capped at this, the shorter follows.
        antialias: average over what falls into one new pixel when shrinking, for bilinear and bicubic. Lanczos and Pillow
            always do, and lanczos refuses False.

    Returns:
        The same type at the new size; dtype stays, whole numbers are rounded. A tensor of that size already is returned as it is.

    Raises:
        TypeError: there is no kernel for the type.
        ValueError: ``size`` and ``max_size`` don't go together, or the mode is one that tensors don't have.

    Example:
        >>> resize(torch.zeros(3, 40, 60), 20).shape
        torch.Size([3, 20, 30])
    """
    return dispatch(
        resize, inpt, size=size, interpolation=interpolation, max_size=max_size, antialias=antialias
    )


def output_size(
    canvas_size: Sequence[int], size: Sequence[int] | int | None, max_size: int | None
) -> tuple[int, int]:
    """The size that :func:`resize` gives. Asks nothing of the canvas when both sides are given, so that one graph serves all."""
    sides = [size] if isinstance(size, int) else size
    if sides is not None and len(sides) == 2 and max_size is None:
        return sides[0], sides[1]
    if sides is None and max_size is None:
        raise ValueError("resize: size is None, so max_size must be given")
    if sides is not None and (len(sides) != 1 or (max_size is not None and max_size <= sides[0])):
        raise ValueError(
            f"resize: size must be [height, width], or one number below max_size; got size={size}, max_size={max_size}"
        )
    height, width = canvas_size
    short, long = (width, height) if width <= height else (height, width)
    if sides is None:
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short, new_long = sides[0], int(sides[0] * long / short)
        if max_size is not None and new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_long, new_short) if width <= height else (new_short, new_long)


@plain_kernel(resize, Image)
@kernel(resize, torch.Tensor)
def resize_image(
    image: Tensor,
    size: Sequence[int] | int | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Tensor:
    """Resize ``[..., C, H, W]`` of any dtype; see :func:`resize`."""
    mode = parse_interpolation(interpolation)
    if mode not in _NEAREST and mode not in _SMOOTH:
        raise ValueError(
            f"resize: tensors have no {mode.value} filter; use bilinear, bicubic or lanczos, or a Pillow picture"
        )
    height, width = image.shape[-2:]
    new_height, new_width = output_size((height, width), size, max_size)
    if not torch.compiler.is_compiling() and (height, width) == (new_height, new_width):
        return image
    if mode in _NEAREST:
        return _resize_nearest(image, new_height, new_width, mode)
    if mode is InterpolationMode.LANCZOS and not antialias:
        raise ValueError("resize: lanczos always averages, so antialias must be True")
    return _resize_smooth(image, new_height, new_width, mode, bool(antialias))


def _resize_smooth(
    image: Tensor, height: int, width: int, mode: InterpolationMode, antialias: bool
) -> Tensor:
    """Interpolate in a dtype that torch has a kernel for, and come back to that of the picture."""
    batch = _compact(image)
    if batch.numel() == 0:
        return image.new_zeros(*image.shape[:-2], height, width)
    native = image.dtype in (torch.float32, torch.float64) or (
        image.dtype == torch.uint8 and image.device.type == "cpu"
    )
    values = batch if native else batch.to(torch.float32)
    out = interpolate(values, size=(height, width), mode=mode.value, antialias=antialias)
    if not native:
        if not image.is_floating_point():
            low, high = (
                (0, 1)
                if image.dtype == torch.bool
                else (torch.iinfo(image.dtype).min, torch.iinfo(image.dtype).max)
            )
            out = out.round_().clamp_(low, high)
        out = out.to(image.dtype)
    return out.reshape(*image.shape[:-2], height, width)


def _compact(image: Tensor) -> Tensor:
    """View or copy to a dense ``[B, C, H, W]``, keeping channels last where they are: torch's kernels are twice as fast on dense input."""
    if image.ndim == 2:
        return image[None, None]
    if torch.compiler.is_compiling():
        return image.reshape(-1, *image.shape[-3:])
    if image.shape[-3] > 1 and image.stride(-3) == 1:
        last = image.movedim(-3, -1).contiguous()
        return last.reshape(-1, *last.shape[-3:]).permute(0, 3, 1, 2)
    return image.contiguous().reshape(-1, *image.shape[-3:])


def _resize_nearest(values: Tensor, height: int, width: int, mode: InterpolationMode) -> Tensor:
    """Take the nearest value, for any dtype. Picking columns costs most, so it is done on the fewer rows."""
    if values.numel() == 0:
        return values.new_zeros(*values.shape[:-2], height, width)
    rows = _nearest_indices(values.shape[-2], height, mode, values.device)
    columns = _nearest_indices(values.shape[-1], width, mode, values.device)
    if torch.compiler.is_compiling():
        return values.index_select(-2, rows).index_select(-1, columns)
    if values.ndim > 2 and values.shape[-3] > 1 and values.stride(-3) == 1:  # keep channels last
        return values.movedim(-3, -1).index_select(-3, rows).index_select(-2, columns).movedim(-1, -3)
    if height > values.shape[-2]:
        return values.index_select(-1, columns).index_select(-2, rows)
    return values.index_select(-2, rows).index_select(-1, columns)


def _nearest_indices(old: int, new: int, mode: InterpolationMode, device: torch.device) -> Tensor:
    """Which old position each new one takes: torch's own rule, asked of a ramp."""
    ramp = torch.arange(old, dtype=torch.float32, device=device)
    return interpolate(ramp[None, None], size=new, mode=mode.value)[0, 0].to(torch.int64)


def resize_mask(
    mask: Tensor,
    size: Sequence[int] | int | None,
    interpolation: InterpolationMode | str | int = InterpolationMode.NEAREST,
    max_size: int | None = None,
) -> Tensor:
    """Resize masks ``[..., H, W]`` of any dtype by nearest neighbour.

    ``interpolation`` chooses between ``NEAREST`` and ``NEAREST_EXACT``; the smooth modes, which a picture beside
    the mask may have been given, mean ``NEAREST``: labels can't be blended.
    """
    mode = parse_interpolation(interpolation)
    old = (mask.shape[-2], mask.shape[-1])
    height, width = output_size(old, size, max_size)
    if not torch.compiler.is_compiling() and old == (height, width):
        return mask
    return _resize_nearest(mask, height, width, mode if mode in _NEAREST else InterpolationMode.NEAREST)


@plain_kernel(resize, Mask)
def _(
    mask: Tensor, size: Any, interpolation: Any, max_size: Any, antialias: Any
) -> Tensor:  # the last is for pictures
    return resize_mask(mask, size, interpolation, max_size)


def resize_bounding_boxes(
    bounding_boxes: Tensor,
    canvas_size: tuple[int, int],
    size: Sequence[int] | int | None,
    max_size: int | None = None,
    format: BoundingBoxFormat = BoundingBoxFormat.XYXY,
) -> tuple[Tensor, tuple[int, int]]:
    """Scale boxes ``[..., 4]`` with their canvas.

    Args:
        bounding_boxes: plain tensor of any dtype; whole numbers are cut towards zero.
        canvas_size: ``(height, width)`` before.
        size: as in :func:`resize`.
        max_size: as in :func:`resize`.
        format: how the boxes are written; all of today's formats scale alike.

    Returns:
        The boxes, and ``(height, width)`` after.
    """
    height, width = canvas_size
    new_height, new_width = output_size(canvas_size, size, max_size)
    if not torch.compiler.is_compiling() and (height, width) == (new_height, new_width):
        return bounding_boxes, (height, width)
    real = bounding_boxes if bounding_boxes.is_floating_point() else bounding_boxes.to(torch.float64)
    x, y = real[..., 0::2] * (new_width / width), real[..., 1::2] * (new_height / height)
    return torch.stack([x, y], -1).flatten(-2).to(bounding_boxes.dtype), (new_height, new_width)


@kernel(resize, BoundingBoxes)
def _(boxes: BoundingBoxes, size: Any, interpolation: Any, max_size: Any, antialias: Any) -> BoundingBoxes:
    out, canvas = resize_bounding_boxes(plain_of(boxes), boxes.canvas_size, size, max_size, boxes.format)
    return wrap(out, like=boxes, canvas_size=canvas)


@kernel(resize, PIL.Image.Image)
def _(pic: PIL.Image.Image, size: Any, interpolation: Any, max_size: Any, antialias: Any) -> PIL.Image.Image:
    height, width = output_size((pic.height, pic.width), size, max_size)
    return pic.resize((width, height), pil_filter(parse_interpolation(interpolation)))
