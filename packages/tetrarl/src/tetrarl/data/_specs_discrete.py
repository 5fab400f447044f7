"""Specs of one choice among n: as an integer, or one-hot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from tetrarl.data import _specs_choice as choice
from tetrarl.data._specs import (
    CategoricalBox,
    Device,
    Shape,
    TensorSpec,
    as_device,
    as_size,
    split_destination,
)


class Categorical(TensorSpec):
    """One choice among ``n``, written as an integer ``0 .. n - 1``.

    Args:
        n: how many choices.
        shape: of one value; a number by default.
        device: where values lie; torch's default device.
        dtype: of the values.
        mask: which choices are open, bool, broadcasts to ``[*shape, n]``; all by default.

    Raises:
        ValueError: ``n`` is not positive, or ``mask`` doesn't fit or leaves no choice.

    Example:
        >>> Categorical(4).to_one_hot(torch.tensor(2))
        tensor([False, False,  True, False])
    """

    def __init__(
        self,
        n: int,
        shape: Shape | None = None,
        device: Device | None = None,
        dtype: torch.dtype = torch.int64,
        mask: Tensor | None = None,
    ) -> None:
        self.space = CategoricalBox(choice.positive("Categorical", n))
        self.shape = as_size(() if shape is None else shape)
        self.device = as_device(device)
        self.dtype = dtype
        self.mask = None
        self.update_mask(mask)

    @property
    def n(self) -> int:
        """How many choices."""
        return self.space.n

    def update_mask(self, mask: Tensor | None) -> None:
        """Open the choices that ``mask`` marks, and close the others; ``None`` opens all."""
        self.mask = choice.checked_mask(self, mask, (*self.shape, self.n))

    def rand(self, shape: Shape = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw uniformly among the open choices."""
        return choice.draw(self.n, self.mask, (*as_size(shape), *self.shape), self.device, generator).to(
            self.dtype
        )

    def is_in(self, val: Tensor) -> bool:
        if not self._fits(val):
            return False
        val = val.long()
        return bool(((val >= 0) & (val < self.n)).all()) and choice.all_open(self.mask, val)

    def project(self, val: Tensor) -> Tensor:
        """The nearest open choice; the lower one of two that are equally near. A NaN counts as 0."""
        if self.is_in(val):
            return val
        self._check_shape("project", val)
        val = val.nan_to_num(0.0).round() if val.is_floating_point() else val.long()
        return choice.nearest_open(self.mask, val.clamp(0, self.n - 1).long()).to(self.dtype)

    def to(self, dest: torch.dtype | Device) -> Self:
        dtype, device = split_destination(dest)
        return type(self)(self.n, self.shape, device or self.device, dtype or self.dtype, self.mask)

    def to_one_hot(self, val: Tensor, safe: bool = False) -> Tensor:
        """The one-hot form of ``val``, bool, ``[*, n]``.

        Args:
            val: values of this spec.
            safe: raise where ``val`` isn't legal.
        """
        if safe:
            self.assert_is_in(val)
        return choice.one_hot(val.long(), self.n, torch.bool)

    def to_categorical(self, val: Tensor, safe: bool = False) -> Tensor:
        """``val`` itself, which is an index already."""
        if safe:
            self.assert_is_in(val)
        return val

    def to_one_hot_spec(self) -> OneHot:
        """The spec of the one-hot form."""
        return OneHot(self.n, (*self.shape, self.n), self.device, mask=self.mask)

    def to_categorical_spec(self) -> Categorical:
        """A copy of this spec."""
        return self.clone()

    def _map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        mask = None if self.mask is None else torch.stack([fn(choice) for choice in self.mask.unbind(-1)], -1)
        return type(self)(self.n, self._shadow(fn), self.device, self.dtype, mask)

    def __eq__(self, other: object) -> bool:
        return (
            self._same_frame(other) and self.space == other.space and choice.same_mask(self.mask, other.mask)
        )

    def __repr__(self) -> str:
        return f"Categorical(n={self.n}, {self._frame()}{choice.mask_told(self.mask)})"


class OneHot(TensorSpec):
    """One choice among ``n``, written as ``n`` flags of which one is set.

    Args:
        n: how many choices.
        shape: of one value; its last size is ``n``. ``[n]`` by default.
        device: where values lie; torch's default device.
        dtype: of the flags.
        mask: which choices are open, bool, broadcasts to ``shape``; all by default.

    Raises:
        ValueError: ``n`` is not positive, ``shape`` doesn't end in it, or ``mask`` doesn't fit or leaves no choice.

    Example:
        >>> spec = OneHot(3)
        >>> spec.encode(1)
        tensor([False,  True, False])
        >>> spec.to_numpy(spec.encode(1)).item()
        1
    """

    def __init__(
        self,
        n: int,
        shape: Shape | None = None,
        device: Device | None = None,
        dtype: torch.dtype = torch.bool,
        mask: Tensor | None = None,
    ) -> None:
        self.space = CategoricalBox(choice.positive("OneHot", n))
        self.shape = choice.ending_in("OneHot", shape, n)
        self.device = as_device(device)
        self.dtype = dtype
        self.mask = None
        self.update_mask(mask)

    @property
    def n(self) -> int:
        """How many choices."""
        return self.space.n

    def update_mask(self, mask: Tensor | None) -> None:
        """Open the choices that ``mask`` marks, and close the others; ``None`` opens all."""
        self.mask = choice.checked_mask(self, mask, self.shape)

    def rand(self, shape: Shape = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw uniformly among the open choices."""
        size = (*as_size(shape), *self.shape[:-1])
        index = choice.draw(self.n, self.mask, size, self.device, generator)
        return choice.one_hot(index, self.n, self.dtype)

    def is_in(self, val: Tensor) -> bool:
        if not (self._fits(val) and choice.is_one_hot(val)):
            return False
        return self.mask is None or bool((val.bool() & self.mask).any(-1).all())

    def project(self, val: Tensor) -> Tensor:
        """Keep the greatest entry, the first of equals; where its choice is closed, the nearest open one."""
        if self.is_in(val):
            return val
        self._check_shape("project", val)
        return choice.one_hot(choice.nearest_open(self.mask, choice.argmax(val)), self.n, self.dtype)

    def encode(self, val: Any, *, ignore_device: bool = False) -> Tensor:
        """Make flags out of indices, ``[*, *shape[:-1]]`` of an integer dtype, or out of bool flags ``[*, *shape]``.

        Raises:
            ValueError: the shape doesn't fit, or an index is not among the choices.
        """
        device = None if ignore_device else self.device
        value = torch.as_tensor(np.asarray(val) if isinstance(val, (list, tuple)) else val).to(device)
        if value.dtype == torch.bool:
            self._check_shape("encode", value)
            return value.to(self.dtype)
        choice.check_indices("OneHot.encode", value, self.shape[:-1], self.n)
        return choice.one_hot(value.long(), self.n, self.dtype)

    def to_numpy(self, val: Tensor, safe: bool = False) -> np.ndarray:
        """The index of the choice, int64, ``[*, *shape[:-1]]``."""
        if safe:
            self.assert_is_in(val)
        return choice.argmax(val.detach()).cpu().numpy()

    def to(self, dest: torch.dtype | Device) -> OneHot:
        dtype, device = split_destination(dest)
        return OneHot(self.n, self.shape, device or self.device, dtype or self.dtype, self.mask)

    def to_categorical(self, val: Tensor, safe: bool = False) -> Tensor:
        """The index of the choice, int64, ``[*, *shape[:-1]]``.

        Args:
            val: values of this spec.
            safe: raise where ``val`` isn't legal.
        """
        if safe:
            self.assert_is_in(val)
        return choice.argmax(val)

    def to_one_hot(self, val: Tensor, safe: bool = False) -> Tensor:
        """``val`` itself, which is one-hot already."""
        if safe:
            self.assert_is_in(val)
        return val

    def to_categorical_spec(self) -> Categorical:
        """The spec of the index."""
        return Categorical(self.n, self.shape[:-1], self.device, mask=self.mask)

    def to_one_hot_spec(self) -> OneHot:
        """A copy of this spec."""
        return self.clone()

    def _map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        shape = self._shadow(fn, keep_last=True)
        mask = None if self.mask is None else fn(self.mask)
        return type(self)(self.n, shape, self.device, self.dtype, mask)

    def __eq__(self, other: object) -> bool:
        return (
            self._same_frame(other) and self.space == other.space and choice.same_mask(self.mask, other.mask)
        )

    def __repr__(self) -> str:
        return f"OneHot(n={self.n}, {self._frame()}{choice.mask_told(self.mask)})"
