"""Pictures."""

from typing import Any, Self

import PIL.Image
import torch

from tetravision._pil import pil_to_tensor
from tetravision.tv_tensors._tv_tensor import TVTensor, as_plain_tensor


class Image(TVTensor):
    """A picture, or a batch of them, ``[..., C, H, W]``.

    Args:
        data: a tensor (its memory is shared), anything ``torch.as_tensor`` takes, or a Pillow picture. Two dimensions gain a channel.
        dtype: type of the values; by default that of ``data``.
        device: where they lie; by default where ``data`` does.
        requires_grad: make a leaf that collects a gradient; by default the history of ``data`` goes on.

    Raises:
        ValueError: fewer than two dimensions.

    Example:
        >>> Image(torch.zeros(2, 3)).shape
        torch.Size([1, 2, 3])
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
            raise ValueError(f"Image: data must be [..., C, H, W] or [H, W], got shape {tuple(tensor.shape)}")
        image = cls.wrap(tensor if tensor.ndim > 2 else tensor.unsqueeze(0))
        return image.requires_grad_() if leaf else image


torch.serialization.add_safe_globals([Image])  # torch.load(weights_only=True) may make them
