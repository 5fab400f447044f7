"""Masks: detection and segmentation."""

from typing import Any, Self

import PIL.Image
import torch

from tetravision._pil import pil_to_tensor
from tetravision.tv_tensors._tv_tensor import TVTensor, as_plain_tensor


class Mask(TVTensor):
    """Masks over a picture, ``[..., H, W]``: one for each object (``[N, H, W]``), or a map of class numbers (``[H, W]``).

    Geometric transforms move masks by nearest neighbour, whatever they do to the picture: labels can't be blended.
    Transforms of colour and value leave them alone.

    Args:
        data: a tensor (its memory is shared), anything ``torch.as_tensor`` takes, or a Pillow picture (``[1, H, W]``).
        dtype: type of the values; by default that of ``data``.
        device: where they lie; by default where ``data`` does.
        requires_grad: make a leaf that collects a gradient; by default the history of ``data`` goes on.

    Raises:
        ValueError: fewer than two dimensions.

    Example:
        >>> Mask(torch.zeros(5, 2, 3, dtype=torch.bool)).shape
        torch.Size([5, 2, 3])
    """

    def __new__(
        cls,
        data: Any,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | int | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        if isinstance(data, PIL.Image.Image):
            data = pil_to_tensor(data)
        tensor, leaf = as_plain_tensor(data, dtype, device, requires_grad)
        if tensor.ndim < 2:
            raise ValueError(f"Mask: data must be [..., H, W], got shape {tuple(tensor.shape)}")
        mask = cls.wrap(tensor)
        return mask.requires_grad_() if leaf else mask


torch.serialization.add_safe_globals([Mask])  # torch.load(weights_only=True) may make them
