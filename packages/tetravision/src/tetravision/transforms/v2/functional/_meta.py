"""Questions about an input: its size, its channels."""

from typing import Any

import PIL.Image
import torch
from torch import Tensor

from tetravision.transforms.v2.functional._registry import dispatch, functional, kernel
from tetravision.tv_tensors import BoundingBoxes, Image, Mask


@functional
def get_size(inpt: Any) -> list[int]:
    """Height and width of a picture or mask, or of the canvas of boxes.

    Example:
        >>> get_size(torch.zeros(3, 4, 5))
        [4, 5]
    """
    return dispatch(get_size, inpt)


@functional
def get_dimensions(inpt: Any) -> list[int]:
    """Channels, height and width of a picture; a tensor of two dimensions has one channel.

    Example:
        >>> get_dimensions(torch.zeros(2, 3, 4, 5))
        [3, 4, 5]
    """
    return dispatch(get_dimensions, inpt)


@functional
def get_num_channels(inpt: Any) -> int:
    """Channels of a picture; a tensor of two dimensions has one.

    Example:
        >>> get_num_channels(torch.zeros(4, 5))
        1
    """
    return dispatch(get_num_channels, inpt)


@kernel(get_size, torch.Tensor, Image)
def get_size_image(image: Tensor) -> list[int]:
    """Height and width of ``[..., H, W]``."""
    return list(image.shape[-2:])


@kernel(get_size, Mask)
def get_size_mask(mask: Tensor) -> list[int]:
    """Height and width of ``[..., H, W]``."""
    return get_size_image(mask)


@kernel(get_size, BoundingBoxes)
def get_size_bounding_boxes(bounding_box: BoundingBoxes) -> list[int]:
    """Height and width of the canvas."""
    return list(bounding_box.canvas_size)


@kernel(get_dimensions, torch.Tensor, Image)
def get_dimensions_image(image: Tensor) -> list[int]:
    """Channels, height and width of ``[..., C, H, W]`` or ``[H, W]``."""
    return [get_num_channels_image(image), *image.shape[-2:]]


@kernel(get_num_channels, torch.Tensor, Image)
def get_num_channels_image(image: Tensor) -> int:
    """Channels of ``[..., C, H, W]`` or ``[H, W]``."""
    if image.ndim < 2:
        raise TypeError(
            f"get_num_channels: image must be [..., C, H, W] or [H, W], got shape {tuple(image.shape)}"
        )
    return image.shape[-3] if image.ndim > 2 else 1


@kernel(get_size, PIL.Image.Image)
def _(inpt: PIL.Image.Image) -> list[int]:
    return [inpt.height, inpt.width]


@kernel(get_dimensions, PIL.Image.Image)
def _(inpt: PIL.Image.Image) -> list[int]:
    return [len(inpt.getbands()), inpt.height, inpt.width]


@kernel(get_num_channels, PIL.Image.Image)
def _(inpt: PIL.Image.Image) -> int:
    return len(inpt.getbands())
