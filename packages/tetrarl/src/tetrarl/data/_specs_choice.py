"""Checks and arithmetic that the specs of choices share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tetrarl.data._specs import Shape, TensorSpec, as_size


def positive(owner: str, n: int) -> int:
    """``n``, at least 1."""
    n = int(n)
    if n < 1:
        raise ValueError(f"{owner}: n must be 1 or more, got {n}")
    return n


def columns(owner: str, nvec: Sequence[int] | Tensor) -> tuple[int, ...]:
    """``nvec`` as a tuple of positive integers."""
    flat = torch.as_tensor(nvec)
    if flat.ndim != 1 or flat.numel() == 0 or flat.is_floating_point() or bool((flat < 1).any()):
        raise ValueError(f"{owner}: nvec must be a list of positive integers, got {nvec!r}")
    return tuple(flat.tolist())


def ending_in(owner: str, shape: Shape | None, last: int) -> torch.Size:
    """``shape``, or ``[last]`` by default, which must end in ``last``."""
    size = as_size(last if shape is None else shape)
    if size[-1:] != (last,):
        raise ValueError(f"{owner}: the last size of shape must be {last}, got shape={list(size)}")
    return size


def checked_mask(spec: TensorSpec, mask: Tensor | None, shape: Sequence[int]) -> Tensor | None:
    """``mask`` expanded to ``shape`` on the spec's device."""
    if mask is None:
        return None
    owner = type(spec).__name__
    if mask.dtype != torch.bool:
        raise ValueError(f"{owner}: mask must be bool, got {mask.dtype}")
    try:
        mask = mask.to(spec.device).expand(*shape)
    except RuntimeError as error:
        raise ValueError(
            f"{owner}: mask of shape {list(mask.shape)} doesn't broadcast to {list(shape)}"
        ) from error
    if mask.device.type != "meta" and not bool(mask.any(-1).all()):
        raise ValueError(f"{owner}: mask must leave at least one choice open in every row")
    return mask


def check_indices(owner: str, value: Tensor, shape: torch.Size, limits: int | Tensor) -> None:
    """Refuse indices of the wrong kind, shape or range."""
    if value.is_floating_point():
        raise ValueError(f"{owner}: indices must be integers, got {value.dtype}")
    if value.shape[max(value.ndim - len(shape), 0) :] != shape:
        raise ValueError(f"{owner}: the indices' shape must end in {list(shape)}, got {list(value.shape)}")
    if not bool(((value >= 0) & (value < limits)).all()):
        raise ValueError(f"{owner}: indices must lie in 0 .. n - 1 with n = {limits}, got {value.tolist()}")


def same_mask(a: Tensor | None, b: Tensor | None) -> bool:
    """Whether both masks open the same choices, or neither is there."""
    return a is b or (a is not None and b is not None and torch.equal(a, b))


def mask_told(mask: Tensor | None) -> str:
    """What a repr says of a mask."""
    return "" if mask is None else ", masked"


def tops(nvec: tuple[int, ...], device: torch.device) -> Tensor:
    """How many choices each column has, int64, ``[len(nvec)]``."""
    return torch.tensor(nvec, device=device)


def one_hot(index: Tensor, n: int, dtype: torch.dtype) -> Tensor:
    """Flags ``[*index.shape, n]``; none is set where the index is not among the choices."""
    return (index.unsqueeze(-1) == torch.arange(n, device=index.device)).to(dtype)


def one_hots(indices: Tensor, nvec: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """One-hot groups of the columns of ``indices``, end to end, ``[*, sum(nvec)]``."""
    pairs = zip(indices.unbind(-1), nvec, strict=True)
    return torch.cat([one_hot(index, n, dtype) for index, n in pairs], -1)


def argmax(flags: Tensor) -> Tensor:
    """The position of the greatest entry, the first of equals; argmax itself doesn't take bool."""
    return (flags.byte() if flags.dtype == torch.bool else flags).argmax(-1)


def is_one_hot(flags: Tensor) -> bool:
    """Whether all rows hold zeros and a single one."""
    return bool((((flags == 0) | (flags == 1)).all(-1) & (flags.sum(-1) == 1)).all())


def draw(
    n: int, mask: Tensor | None, size: Sequence[int], device: torch.device, generator: torch.Generator | None
) -> Tensor:
    """Uniform indices of open choices, int64, ``[*size]``."""
    if mask is None:
        return torch.randint(0, n, size, device=device, generator=generator)
    weights = mask.expand(*size, n).reshape(-1, n).float()
    return torch.multinomial(weights, 1, generator=generator).reshape(size)


def all_open(mask: Tensor | None, index: Tensor) -> bool:
    """Whether the choices at ``index`` are open."""
    if mask is None:
        return True
    return bool(mask.expand(*index.shape, mask.shape[-1]).gather(-1, index.unsqueeze(-1)).all())


def nearest_open(mask: Tensor | None, index: Tensor) -> Tensor:
    """The open choices nearest to ``index``, the lower one of two that are equally near."""
    if mask is None:
        return index
    n = mask.shape[-1]
    distance = (torch.arange(n, device=index.device) - index.unsqueeze(-1)).abs()
    return distance.masked_fill(~mask, n).argmin(-1)
