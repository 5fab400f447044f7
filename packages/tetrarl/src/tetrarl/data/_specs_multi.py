"""Specs of several choices side by side: bits, integers, or one-hot groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from tetrarl.data import _specs_choice as choice
from tetrarl.data._specs import (
    BoxList,
    CategoricalBox,
    Device,
    Shape,
    TensorSpec,
    as_device,
    as_size,
    split_destination,
)
from tetrarl.data._specs_discrete import Categorical


class Binary(Categorical):
    """Flags, each 0 or 1, any number of them set.

    Args:
        n: how many flags, the last size of ``shape``.
        shape: of one value; ``[n]`` by default.
        device: where values lie; torch's default device.
        dtype: of the flags.

    Raises:
        ValueError: neither ``n`` nor ``shape`` is given, or they disagree.

    Example:
        >>> Binary(3).project(torch.tensor([5, 0, -1], dtype=torch.int8))
        tensor([1, 0, 0], dtype=torch.int8)
    """

    def __init__(
        self,
        n: int | None = None,
        shape: Shape | None = None,
        device: Device | None = None,
        dtype: torch.dtype = torch.int8,
    ) -> None:
        if n is None and shape is None:
            raise ValueError("Binary: pass n, the number of flags, or shape")
        super().__init__(
            2, as_size(shape) if n is None else choice.ending_in("Binary", shape, n), device, dtype
        )

    def to(self, dest: torch.dtype | Device) -> Binary:
        dtype, device = split_destination(dest)
        return Binary(None, self.shape, device or self.device, dtype or self.dtype)

    def _map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(None, self._shadow(fn), self.device, self.dtype)

    def __repr__(self) -> str:
        return f"Binary({self._frame()})"


class MultiCategorical(TensorSpec):
    """Several choices side by side, each written as an integer.

    Args:
        nvec: how many choices each column has.
        shape: of one value; its last size is ``len(nvec)``. ``[len(nvec)]`` by default.
        device: where values lie; torch's default device.
        dtype: of the values.

    Raises:
        ValueError: ``nvec`` is not a list of positive integers, or ``shape`` doesn't end in its length.

    Example:
        >>> MultiCategorical([2, 3]).project(torch.tensor([5, 1]))
        tensor([1, 1])
    """

    def __init__(
        self,
        nvec: Sequence[int] | Tensor,
        shape: Shape | None = None,
        device: Device | None = None,
        dtype: torch.dtype = torch.int64,
    ) -> None:
        self.nvec = choice.columns("MultiCategorical", nvec)
        self.space = BoxList(tuple(map(CategoricalBox, self.nvec)))
        self.shape = choice.ending_in("MultiCategorical", shape, len(self.nvec))
        self.device = as_device(device)
        self.dtype = dtype

    def rand(self, shape: Shape = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw each column uniformly."""
        size = (*as_size(shape), *self.shape)
        draw = torch.randint(0, 2**62, size, device=self.device, generator=generator)
        return (draw % choice.tops(self.nvec, self.device)).to(self.dtype)

    def is_in(self, val: Tensor) -> bool:
        return self._fits(val) and bool(((val >= 0) & (val < choice.tops(self.nvec, val.device))).all())

    def project(self, val: Tensor) -> Tensor:
        """The nearest choice of each column. A NaN counts as 0."""
        if self.is_in(val):
            return val
        self._check_shape("project", val)
        val = val.nan_to_num(0.0).round() if val.is_floating_point() else val.long()
        tops = choice.tops(self.nvec, val.device)
        return val.clamp(torch.zeros_like(tops), tops - 1).to(self.dtype)

    def to(self, dest: torch.dtype | Device) -> MultiCategorical:
        dtype, device = split_destination(dest)
        return MultiCategorical(self.nvec, self.shape, device or self.device, dtype or self.dtype)

    def to_one_hot(self, val: Tensor, safe: bool = False) -> Tensor:
        """The one-hot forms of the columns, end to end, bool, ``[*, sum(nvec)]``.

        Args:
            val: values of this spec.
            safe: raise where ``val`` isn't legal.
        """
        if safe:
            self.assert_is_in(val)
        return choice.one_hots(val.long(), self.nvec, torch.bool)

    def to_one_hot_spec(self) -> MultiOneHot:
        """The spec of the one-hot form."""
        return MultiOneHot(self.nvec, (*self.shape[:-1], sum(self.nvec)), self.device)

    def _map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(self.nvec, self._shadow(fn, keep_last=True), self.device, self.dtype)

    def __eq__(self, other: object) -> bool:
        return self._same_frame(other) and self.nvec == other.nvec

    def __repr__(self) -> str:
        return f"MultiCategorical(nvec={list(self.nvec)}, {self._frame()})"


class MultiOneHot(TensorSpec):
    """Several choices side by side, each one-hot, end to end.

    Args:
        nvec: how many choices each group of flags has.
        shape: of one value; its last size is ``sum(nvec)``. ``[sum(nvec)]`` by default.
        device: where values lie; torch's default device.
        dtype: of the flags.

    Raises:
        ValueError: ``nvec`` is not a list of positive integers, or ``shape`` doesn't end in its sum.

    Example:
        >>> MultiOneHot([2, 3]).encode([1, 0]).int()
        tensor([0, 1, 1, 0, 0], dtype=torch.int32)
    """

    def __init__(
        self,
        nvec: Sequence[int] | Tensor,
        shape: Shape | None = None,
        device: Device | None = None,
        dtype: torch.dtype = torch.bool,
    ) -> None:
        self.nvec = choice.columns("MultiOneHot", nvec)
        self.space = BoxList(tuple(map(CategoricalBox, self.nvec)))
        self.shape = choice.ending_in("MultiOneHot", shape, sum(self.nvec))
        self.device = as_device(device)
        self.dtype = dtype

    def rand(self, shape: Shape = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw each group uniformly."""
        return choice.one_hots(
            self.to_categorical_spec().rand(shape, generator=generator), self.nvec, self.dtype
        )

    def is_in(self, val: Tensor) -> bool:
        return self._fits(val) and all(choice.is_one_hot(group) for group in val.split(self.nvec, -1))

    def project(self, val: Tensor) -> Tensor:
        """Keep the greatest entry of each group, the first of equals."""
        if self.is_in(val):
            return val
        self._check_shape("project", val)
        return choice.one_hots(self.to_categorical(val), self.nvec, self.dtype)

    def encode(self, val: Any, *, ignore_device: bool = False) -> Tensor:
        """Make flags out of indices, ``[*, len(nvec)]`` of an integer dtype, or out of bool flags ``[*, *shape]``.

        Raises:
            ValueError: the shape doesn't fit, or an index is not among the choices.
        """
        device = None if ignore_device else self.device
        value = torch.as_tensor(np.asarray(val) if isinstance(val, (list, tuple)) else val).to(device)
        if value.dtype == torch.bool:
            self._check_shape("encode", value)
            return value.to(self.dtype)
        indices = self.to_categorical_spec()
        choice.check_indices("MultiOneHot.encode", value, indices.shape, choice.tops(self.nvec, value.device))
        return choice.one_hots(value.long(), self.nvec, self.dtype)

    def to_numpy(self, val: Tensor, safe: bool = False) -> np.ndarray:
        """The indices of the choices, int64, ``[*, len(nvec)]``."""
        if safe:
            self.assert_is_in(val)
        return self.to_categorical(val.detach()).cpu().numpy()

    def to(self, dest: torch.dtype | Device) -> MultiOneHot:
        dtype, device = split_destination(dest)
        return MultiOneHot(self.nvec, self.shape, device or self.device, dtype or self.dtype)

    def to_categorical(self, val: Tensor, safe: bool = False) -> Tensor:
        """The indices of the choices, int64, ``[*, len(nvec)]``.

        Args:
            val: values of this spec.
            safe: raise where ``val`` isn't legal.
        """
        if safe:
            self.assert_is_in(val)
        return torch.stack([choice.argmax(group) for group in val.split(self.nvec, -1)], -1)

    def to_categorical_spec(self) -> MultiCategorical:
        """The spec of the indices."""
        return MultiCategorical(self.nvec, (*self.shape[:-1], len(self.nvec)), self.device)

    def _map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(self.nvec, self._shadow(fn, keep_last=True), self.device, self.dtype)

    def __eq__(self, other: object) -> bool:
        return self._same_frame(other) and self.nvec == other.nvec

    def __repr__(self) -> str:
        return f"MultiOneHot(nvec={list(self.nvec)}, {self._frame()})"
