"""Pillow pictures to tensors."""

import numpy as np
import PIL.Image
import torch
from torch import Tensor


def pil_to_tensor(pic: PIL.Image.Image) -> Tensor:
    """Copy a Pillow picture to a tensor, values as they are.

    Args:
        pic: a picture of any mode that numpy can read. A palette (mode ``P``) gives its indices; convert to RGB first for colours.

    Returns:
        ``[C, H, W]`` in the dtype of the mode (uint8; bool for ``1``, int32 for ``I``, float32 for ``F``, uint16 for ``I;16``). Rows of
        pixels keep their place in memory, channels last, which is the order in which resizing is fastest.

    Raises:
        TypeError: not a Pillow picture.

    Example:
        >>> pil_to_tensor(PIL.Image.new("RGB", (4, 2))).shape
        torch.Size([3, 2, 4])
    """
    if not isinstance(pic, PIL.Image.Image):
        raise TypeError(
            f"pil_to_tensor: pic must be a Pillow picture, got {type(pic).__name__}; for an array use to_image"
        )
    values = torch.from_numpy(np.array(pic, copy=True))
    if values.ndim == 2:
        values = values.unsqueeze(-1)
    return values.permute(2, 0, 1)
