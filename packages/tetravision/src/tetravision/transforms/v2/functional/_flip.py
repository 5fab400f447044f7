"""Mirror pictures, masks and boxes."""

from typing import Any

import PIL.Image
import torch
from torch import Tensor

from tetravision._plain import plain_of
from tetravision.transforms.v2.functional._boxes import CXCYWH, XYXY
from tetravision.transforms.v2.functional._registry import dispatch, functional, kernel, plain_kernel
from tetravision.tv_tensors import BoundingBoxes, BoundingBoxFormat, Image, Mask, wrap


@functional
def horizontal_flip(inpt: Any) -> Any:
    """Swap left and right.

    Args:
        inpt: a tensor ``[..., C, H, W]``, a Pillow picture, an ``Image``, ``Mask`` or ``BoundingBoxes``.

    Raises:
        TypeError: there is no kernel for the type.

    Example:
        >>> horizontal_flip(torch.tensor([[1, 2, 3]]))
        tensor([[3, 2, 1]])
    """
    return dispatch(horizontal_flip, inpt)


hflip = horizontal_flip


@plain_kernel(horizontal_flip, Image)
@kernel(horizontal_flip, torch.Tensor)
def horizontal_flip_image(image: Tensor) -> Tensor:
    """Swap left and right of ``[..., H, W]``."""
    return image.flip(-1)


@plain_kernel(horizontal_flip, Mask)
def horizontal_flip_mask(mask: Tensor) -> Tensor:
    """Swap left and right of ``[..., H, W]``."""
    return mask.flip(-1)


def horizontal_flip_bounding_boxes(
    bounding_boxes: Tensor, format: BoundingBoxFormat, canvas_size: tuple[int, int]
) -> Tensor:
    """Mirror boxes ``[..., 4]`` on a canvas of ``(height, width)``."""
    width = canvas_size[1]
    first, y, third, last = bounding_boxes.unbind(-1)
    if format is XYXY:
        return torch.stack([width - third, y, width - first, last], -1)
    if format is CXCYWH and not bounding_boxes.is_floating_point():
        left = first - torch.div(
            third, 2, rounding_mode="floor"
        )  # the middle of an odd side was rounded down
        return torch.stack(
            [width - left - third + torch.div(third, 2, rounding_mode="floor"), y, third, last], -1
        )
    return torch.stack([width - first if format is CXCYWH else width - first - third, y, third, last], -1)


@kernel(horizontal_flip, BoundingBoxes)
def _(boxes: BoundingBoxes) -> BoundingBoxes:
    return wrap(horizontal_flip_bounding_boxes(plain_of(boxes), boxes.format, boxes.canvas_size), like=boxes)


@kernel(horizontal_flip, PIL.Image.Image)
def _(pic: PIL.Image.Image) -> PIL.Image.Image:
    return pic.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
