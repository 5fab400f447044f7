"""Specs of real and whole numbers, with bounds or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from tetrarl.data._specs import (
    ContinuousBox,
    Device,
    Shape,
    TensorSpec,
    as_device,
    as_size,
    split_destination,
)

Bound = float | Tensor | np.ndarray


class Bounded(TensorSpec):
    """Numbers between two bounds, both included.

    ``Bounded(...)`` makes a :class:`BoundedContinuous` where the dtype is floating, a :class:`BoundedDiscrete`
    elsewhere. An infinite bound is no bound.

    Args:
        low: the least legal value: a number, or an array that broadcasts to ``shape``.
        high: the greatest.
        shape: of one value. By default that of the bounds, one of which must then be an array.
        device: where values lie; torch's default device.
        dtype: of the values. By default that of a bound that is a floating tensor or array, else torch's default.

    Raises:
        ValueError: no shape is given or implied, the bounds don't broadcast to it, or low exceeds high.

    Example:
        >>> spec = Bounded(-1, 1, shape=(2,))
        >>> spec.project(torch.tensor([3.0, 0.5]))
        tensor([1.0000, 0.5000])
        >>> spec.is_in(torch.tensor([3.0, 0.5]))
        False
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Choose the class that goes with the dtype."""
        if cls is not Bounded:
            return super().__new__(cls)
        named = dict(zip(("low", "high", "shape", "device", "dtype"), args, strict=False)) | kwargs
        floating = _dtype_of(named.get("low"), named.get("high"), named.get("dtype")).is_floating_point
        return super().__new__(BoundedContinuous if floating else BoundedDiscrete)

    def __init__(
        self,
        low: Bound,
        high: Bound,
        shape: Shape | None = None,
        device: Device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.dtype = _dtype_of(low, high, dtype)
        _check_domain(self)
        self.device = as_device(device)
        low, high = (torch.as_tensor(bound).to(self.device, self.dtype) for bound in (low, high))
        if shape is None:
            if low.ndim == high.ndim == 0:
                raise ValueError(
                    "Bounded: no shape is given and both bounds are numbers; pass shape=(), or an array as a bound"
                )
            shape = torch.broadcast_shapes(low.shape, high.shape)
        self.shape = as_size(shape)
        try:
            self.space = ContinuousBox(low.expand(self.shape), high.expand(self.shape))
        except RuntimeError as error:
            raise ValueError(
                f"Bounded: bounds of shapes {list(low.shape)} and {list(high.shape)} don't broadcast to "
                f"shape={list(self.shape)}"
            ) from error
        if not (self.device.type == "meta" or bool((low <= high).all())):
            raise ValueError(
                f"Bounded: low must not exceed high, got low={low.tolist()} and high={high.tolist()}"
            )

    @property
    def low(self) -> Tensor:
        """The least legal values, of the shape of this spec."""
        return self.space.low

    @property
    def high(self) -> Tensor:
        """The greatest legal values, of the shape of this spec."""
        return self.space.high

    def is_in(self, val: Tensor) -> bool:
        return self._fits(val) and bool(((val >= self.low) & (val <= self.high)).all())

    def project(self, val: Tensor) -> Tensor:
        """The nearest legal value; ``val`` itself where it is legal already. A NaN counts as 0."""
        if self.is_in(val):
            return val
        self._check_shape("project", val)
        if val.is_floating_point():
            val = val.nan_to_num(0.0, posinf=torch.inf, neginf=-torch.inf)
            val = val if self.dtype.is_floating_point else val.round()
        low, high = self.low, self.high
        if self.dtype == torch.bool:  # clamp has no bool
            low, high = low.byte(), high.byte()
        return val.clamp(low, high).to(self.dtype)

    def to(self, dest: torch.dtype | Device) -> Bounded:
        dtype, device = split_destination(dest)
        return Bounded(self.low, self.high, self.shape, device or self.device, dtype or self.dtype)

    def _map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        low, high = fn(self.low), fn(self.high)
        return type(self)(low, high, low.shape, self.device, self.dtype)

    def __eq__(self, other: object) -> bool:
        return (
            self._same_frame(other)
            and torch.equal(self.low, other.low)
            and torch.equal(self.high, other.high)
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(low={_short(self.low)}, high={_short(self.high)}, {self._frame()})"


class BoundedContinuous(Bounded):
    """A :class:`Bounded` of a floating dtype."""

    domain = "continuous"

    def rand(self, shape: Shape = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw uniformly between the bounds.

        A side without bound falls off exponentially from the other one; with neither, values are standard normal.

        Source: the same rule as ``gymnasium.spaces.Box.sample``.
        """
        size = (*as_size(shape), *self.shape)
        low, high, finite_low, finite_high = self.low, self.high, self.low.isfinite(), self.high.isfinite()
        unit = torch.rand(size, dtype=self.dtype, device=self.device, generator=generator)
        if bool((finite_low & finite_high).all()):
            return torch.minimum(torch.maximum(low * (1 - unit) + high * unit, low), high)
        tail = -torch.log1p(-unit)
        out = torch.randn(size, dtype=self.dtype, device=self.device, generator=generator)
        out = torch.where(finite_low, low + tail, torch.where(finite_high, high - tail, out))
        inner = torch.minimum(torch.maximum(low * (1 - unit) + high * unit, low), high)
        return torch.where(finite_low & finite_high, inner, out)


class BoundedDiscrete(Bounded):
    """A :class:`Bounded` of whole numbers or booleans."""

    def rand(self, shape: Shape = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw uniformly among the whole numbers between the bounds."""
        size = (*as_size(shape), *self.shape)
        return _whole_numbers(self.low.long(), self.high.long(), size, generator).to(self.dtype)


class Unbounded(TensorSpec):
    """Any number that the dtype can hold.

    ``Unbounded(...)`` makes an :class:`UnboundedContinuous` where the dtype is floating, an
    :class:`UnboundedDiscrete` elsewhere.

    Args:
        shape: of one value.
        device: where values lie; torch's default device.
        dtype: of the values; torch's default dtype, int64 for an :class:`UnboundedDiscrete` asked for by name.

    Example:
        >>> Unbounded((2, 3)).rand((5,)).shape
        torch.Size([5, 2, 3])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Choose the class that goes with the dtype."""
        if cls is not Unbounded:
            return super().__new__(cls)
        dtype = (args[2] if len(args) > 2 else kwargs.get("dtype")) or torch.get_default_dtype()
        floating = dtype.is_floating_point
        return super().__new__(UnboundedContinuous if floating else UnboundedDiscrete)

    def __init__(
        self, shape: Shape = 1, device: Device | None = None, dtype: torch.dtype | None = None
    ) -> None:
        self.shape = as_size(shape)
        self.device = as_device(device)
        self.dtype = dtype or (torch.get_default_dtype() if self.domain == "continuous" else torch.int64)
        _check_domain(self)
        bounds = torch.tensor(_limits(self.dtype), device=self.device, dtype=self.dtype)
        self.space = ContinuousBox(bounds[0].expand(self.shape), bounds[1].expand(self.shape))

    def is_in(self, val: Tensor) -> bool:
        """Whether ``val`` has this dtype and ends in this shape. NaN and infinities are in."""
        return self._fits(val)

    def project(self, val: Tensor) -> Tensor:
        self._check_shape("project", val)
        return val.to(self.dtype)

    def to(self, dest: torch.dtype | Device) -> Unbounded:
        dtype, device = split_destination(dest)
        return Unbounded(self.shape, device or self.device, dtype or self.dtype)

    def _map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(self._shadow(fn), self.device, self.dtype)

    def __eq__(self, other: object) -> bool:
        return self._same_frame(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._frame()})"


class UnboundedContinuous(Unbounded):
    """An :class:`Unbounded` of a floating dtype."""

    domain = "continuous"

    def rand(self, shape: Shape = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw from the standard normal distribution."""
        size = (*as_size(shape), *self.shape)
        return torch.randn(size, dtype=self.dtype, device=self.device, generator=generator)


class UnboundedDiscrete(Unbounded):
    """An :class:`Unbounded` of whole numbers or booleans."""

    def rand(self, shape: Shape = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw uniformly among all that the dtype can hold."""
        size = (*as_size(shape), *self.shape)
        return _whole_numbers(self.space.low.long(), self.space.high.long(), size, generator).to(self.dtype)


def _dtype_of(low: Bound, high: Bound, dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None:
        return dtype
    for bound in (low, high):
        if isinstance(bound, (Tensor, np.ndarray)):
            found = torch.as_tensor(bound).dtype
            if found.is_floating_point:
                return found
    return torch.get_default_dtype()


def _check_domain(spec: TensorSpec) -> None:
    if spec.dtype.is_floating_point != (spec.domain == "continuous"):
        family = "Bounded" if isinstance(spec, Bounded) else "Unbounded"
        raise ValueError(
            f"{type(spec).__name__}: dtype {spec.dtype} is not {spec.domain}; {family} takes any dtype"
        )


def _limits(dtype: torch.dtype) -> tuple[float, float]:
    if dtype == torch.bool:
        return False, True
    if dtype.is_floating_point:
        return -torch.inf, torch.inf
    limits = torch.iinfo(dtype)
    return limits.min, limits.max


def _whole_numbers(low: Tensor, high: Tensor, size: tuple, generator: torch.Generator | None) -> Tensor:
    """Uniform int64 from low to high, both included; ``[*size]``."""
    draw = torch.randint(0, 2**63 - 1, size, device=low.device, generator=generator)
    span = high - low + 1
    inner = low + draw % span.clamp_min(1)
    if bool((span > 0).all()):
        return inner
    # From here on some span passes 2**63 and wraps: draw the sign first, then a number of that sign.
    negatives, others = -low.double(), high.double() + 1
    unit = torch.rand(size, dtype=torch.float64, device=low.device, generator=generator)
    below = -1 - draw % (-(low + 1)).clamp(0, 2**63 - 2).add(1)
    above = draw % high.clamp(0, 2**63 - 2).add(1)
    wide = torch.where(unit * (negatives + others) < negatives, below, above)
    return torch.where(span > 0, inner, wide)


def _short(bound: Tensor) -> str:
    if bound.device.type == "meta":
        return "..."
    flat = bound.reshape(-1)
    if flat.numel() and bool((flat == flat[0]).all()):
        return f"{flat[0].item():g}"
    return (
        str([float(f"{x:.6g}") for x in flat.tolist()]) if flat.numel() <= 8 else f"[{flat[0].item():g}, ...]"
    )
