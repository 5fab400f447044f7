"""Change the type of values, with or without their range."""

from typing import Any

import torch
from torch import Tensor

from tetravision.transforms.v2.functional._registry import dispatch, functional, kernel, plain_kernel
from tetravision.tv_tensors import BoundingBoxes, Image, Mask

_BITS = {
    torch.bool: 1,
    torch.uint8: 8,
    torch.int8: 7,
    torch.uint16: 16,
    torch.int16: 15,
    torch.int32: 31,
    torch.int64: 63,
}


@functional
def to_dtype(inpt: Any, dtype: torch.dtype = torch.float32, scale: bool = False) -> Any:
    """Convert the values of a picture, mask or boxes to another type.

    Args:
        inpt: a tensor, an ``Image``, ``Mask`` or ``BoundingBoxes``.
        dtype: the type wanted.
        scale: for pictures, map the range along: floating values lie in [0, 1], whole numbers in [0, their largest].
            Masks and boxes have no range; their values stay what they are.

    Raises:
        TypeError: there is no kernel for the type.
        RuntimeError: with ``scale``, from a floating type to a whole one too wide for it to count in.

    Example:
        >>> to_dtype(torch.tensor([0, 51, 255], dtype=torch.uint8), torch.float32, scale=True)
        tensor([0.0000, 0.2000, 1.0000])
    """
    return dispatch(to_dtype, inpt, dtype=dtype, scale=scale)


@plain_kernel(to_dtype, Image)
@kernel(to_dtype, torch.Tensor)
def to_dtype_image(image: Tensor, dtype: torch.dtype = torch.float32, scale: bool = False) -> Tensor:
    """Convert pictures of any shape; see :func:`to_dtype`."""
    if image.dtype == dtype:
        return image
    if not scale or (image.is_floating_point() and dtype.is_floating_point):
        return image.to(dtype)
    if image.is_floating_point():
        return _quantise(image, dtype)
    if dtype.is_floating_point:
        return image.to(dtype).mul_(1.0 / (2 ** _BITS[image.dtype] - 1))
    return _requantise(image, dtype)


@plain_kernel(to_dtype, Mask, BoundingBoxes)
def _(values: Tensor, dtype: torch.dtype, scale: bool) -> Tensor:
    return values.to(dtype)


def _quantise(image: Tensor, dtype: torch.dtype) -> Tensor:
    """[0, 1] to whole numbers, in equal steps; what lies outside the range is undefined, as in any such cast."""
    bits = _BITS[dtype]
    if bits >= {torch.float64: 53}.get(image.dtype, 24):
        raise RuntimeError(
            f"to_dtype: {image.dtype} can't count the steps of {dtype}, so scale=True would lose values; "
            "convert to a narrower type, or without scale"
        )
    values = image if image.dtype in (torch.float32, torch.float64) else image.to(torch.float32)
    steps = values.to(torch.float64) if bits >= 15 and values.dtype == torch.float32 else values
    return steps.mul(2**bits - 1e-3).to(torch.int32).to(dtype)


def _requantise(image: Tensor, dtype: torch.dtype) -> Tensor:
    """Between whole numbers by shifting: the leading bits stay."""
    more = _BITS[dtype] - _BITS[image.dtype]
    if more > 0:
        return image.to(torch.int64).bitwise_left_shift_(more).to(dtype)
    return image.to(torch.int64).bitwise_right_shift_(-more).to(dtype)
