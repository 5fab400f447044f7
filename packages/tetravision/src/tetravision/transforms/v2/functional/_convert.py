"""From Pillow pictures and arrays to tensors."""

from typing import Any

import numpy as np
import PIL.Image
import torch

from tetravision._pil import pil_to_tensor
from tetravision.tv_tensors import Image

__all__ = ["pil_to_tensor", "to_image"]


def to_image(inpt: Any) -> Image:
    """Make an :class:`Image` of a Pillow picture, an array or a tensor, values as they are.

    Args:
        inpt: a Pillow picture; an array ``[H, W]`` or ``[H, W, C]``, which is copied; or a tensor ``[..., C, H, W]``, which shares
            memory with the result.

    Raises:
        TypeError: something else.

    Example:
        >>> to_image(np.zeros((4, 5, 3), dtype=np.uint8)).shape
        torch.Size([3, 4, 5])
    """
    if isinstance(inpt, np.ndarray):
        return Image(torch.from_numpy(np.atleast_3d(inpt)).permute(2, 0, 1).contiguous().clone())
    if isinstance(inpt, (torch.Tensor, PIL.Image.Image)):
        return Image(inpt)
    raise TypeError(
        f"to_image: inpt must be a Pillow picture, an array or a tensor, got {type(inpt).__name__}"
    )
