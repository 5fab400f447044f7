"""Shift and scale channels."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tetravision.transforms.v2.functional._registry import dispatch, functional, kernel, plain_kernel
from tetravision.tv_tensors import Image


@functional
def normalize(inpt: Any, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Any:
    """Subtract a mean from each channel and divide by a deviation.

    Args:
        inpt: a floating tensor ``[..., C, H, W]`` or ``Image``.
        mean: one value for each channel, or a single one.
        std: likewise.
        inplace: change ``inpt`` itself.

    Raises:
        TypeError: there is no kernel for the type, or the values are not floating.
        ValueError: a deviation of 0, fewer than three dimensions, or another number of channels.

    Example:
        >>> normalize(torch.ones(2, 1, 1), mean=[0.5, 0.0], std=[0.5, 2.0]).flatten()
        tensor([1.0000, 0.5000])
    """
    return dispatch(normalize, inpt, mean=mean, std=std, inplace=inplace)


@plain_kernel(normalize, Image)
@kernel(normalize, torch.Tensor)
def normalize_image(
    image: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False
) -> Tensor:
    """Normalise ``[..., C, H, W]``; see :func:`normalize`."""
    if not image.is_floating_point():
        raise TypeError(
            f"normalize: image must be floating, got {image.dtype}; use to_dtype(image, torch.float32, scale=True)"
        )
    if image.ndim < 3:
        raise ValueError(f"normalize: image must be [..., C, H, W], got shape {tuple(image.shape)}")
    if any(value == 0 for value in std):
        raise ValueError(f"normalize: std must not hold 0, got {list(std)}")
    channels = image.shape[-3]
    for name, values in (("mean", mean), ("std", std)):
        if len(values) != 1 and len(values) != channels:
            raise ValueError(
                f"normalize: {name} has {len(values)} values, but the picture has {channels} channels"
            )
    shift = torch.tensor(mean, dtype=image.dtype, device=image.device)
    scale = torch.tensor(std, dtype=image.dtype, device=image.device)
    if (
        not inplace
        and not torch.compiler.is_compiling()
        and image.is_cpu
        and channels > 1
        and image.stride(-3) == 1
    ):
        return _normalize_channels_last(image, shift, scale)
    out = image.sub_(shift.view(-1, 1, 1)) if inplace else image.sub(shift.view(-1, 1, 1))
    return out.div_(scale.view(-1, 1, 1))


def _normalize_channels_last(image: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """The same, a row of pixels at a time: broadcasting over an innermost channel takes ten times as long on a CPU."""
    channels, width = image.shape[-3], image.shape[-1]
    rows = image.movedim(-3, -1).flatten(-2)
    out = rows.sub(shift.expand(channels).repeat(width)).div_(scale.expand(channels).repeat(width))
    return out.unflatten(-1, (width, channels)).movedim(-1, -3)
