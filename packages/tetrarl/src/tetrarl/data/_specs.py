"""What a leaf of an environment may hold: the base class of all specs, and the boxes that bound them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

Shape = int | Sequence[int] | torch.Size
Device = torch.device | str | int


@dataclass(frozen=True, eq=False)
class ContinuousBox:
    """All values from ``low`` to ``high``, both ends included."""

    low: Tensor
    high: Tensor


@dataclass(frozen=True)
class CategoricalBox:
    """The integers ``0 .. n - 1``."""

    n: int


@dataclass(frozen=True)
class BoxList:
    """One box for each column."""

    boxes: tuple[CategoricalBox, ...]


def as_size(shape: Shape) -> torch.Size:
    """A size, from an integer or a sequence of them."""
    return torch.Size((shape,)) if isinstance(shape, int) else torch.Size(shape)


def sizes_of(shape: tuple) -> torch.Size:
    """A size, from the arguments of ``f(2, 3)`` or of ``f((2, 3))``."""
    return as_size(shape[0] if len(shape) == 1 else shape)


def as_device(device: Device | None) -> torch.device:
    """A device; torch's default one where none is named."""
    return torch.get_default_device() if device is None else torch.device(device)


class TensorSpec(ABC):
    """Shape, dtype, device and legal values of a tensor.

    Wherever a spec takes a value it may have more leading dimensions than the spec: a batch of values. ``rand``,
    ``zero`` and ``one`` make such batches from their ``shape``.

    Attributes:
        shape: of one value.
        space: the box of legal values.
        device: where values lie.
        dtype: of the values.
        domain: ``"continuous"``, ``"discrete"`` or ``"composite"``.
    """

    shape: torch.Size
    space: Any
    device: torch.device | None
    dtype: torch.dtype | None
    domain: str = "discrete"
    __hash__ = None

    # ---- what each kind of spec says for itself

    @abstractmethod
    def rand(self, shape: Shape = (), *, generator: torch.Generator | None = None) -> Any:
        """Draw legal values of shape ``[*shape, *self.shape]``.

        Args:
            shape: the batch to draw.
            generator: where the randomness comes from; torch's global state without one.
        """

    @abstractmethod
    def is_in(self, val: Any) -> bool:
        """Whether ``val`` has this dtype, ends in this shape, and is legal throughout."""

    @abstractmethod
    def project(self, val: Any) -> Any:
        """The nearest legal value; ``val`` itself, not copied, where it is legal already."""

    def _map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The spec of ``fn(value)``, for an ``fn`` that does nothing but reshape or pick."""
        raise TypeError(f"{type(self).__name__} is no complete spec: it lacks _map")

    @abstractmethod
    def to(self, dest: torch.dtype | Device) -> Self:
        """The same spec on another device, or of another dtype."""

    @abstractmethod
    def __eq__(self, other: object) -> bool: ...

    # ---- values

    def sample(self, shape: Shape = (), *, generator: torch.Generator | None = None) -> Any:
        """The same as :meth:`rand`."""
        return self.rand(shape, generator=generator)

    def zero(self, shape: Shape = ()) -> Any:
        """Zeros of shape ``[*shape, *self.shape]``, legal or not."""
        return torch.zeros((*as_size(shape), *self.shape), dtype=self.dtype, device=self.device)

    def one(self, shape: Shape = ()) -> Any:
        """Ones of shape ``[*shape, *self.shape]``, legal or not."""
        return torch.ones((*as_size(shape), *self.shape), dtype=self.dtype, device=self.device)

    def zeros(self, shape: Shape = ()) -> Any:
        """The same as :meth:`zero`."""
        return self.zero(shape)

    def ones(self, shape: Shape = ()) -> Any:
        """The same as :meth:`one`."""
        return self.one(shape)

    def contains(self, item: Any) -> bool:
        """The same as :meth:`is_in`."""
        return self.is_in(item)

    def assert_is_in(self, value: Any) -> None:
        """Raise where ``value`` is not legal.

        Raises:
            AssertionError: naming the value, the spec and what is wrong.
        """
        if not self.is_in(value):
            raise AssertionError(
                f"{type(self).__name__}.assert_is_in: {_told(value)} is not in {self!r}; "
                "project(value) gives the nearest one that is"
            )

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """Make a value of this spec out of an array, a list or a number.

        The range is not checked, as simulators do step a rounding error past their own bounds;
        :meth:`assert_is_in` checks it.

        Args:
            val: numpy array, tensor, list or number.
            ignore_device: leave the result on the CPU instead of moving it to ``self.device``.

        Returns:
            A tensor in the dtype of this spec, of shape ``[*, *self.shape]``. It may share memory with ``val``.

        Raises:
            ValueError: the shape of ``val`` doesn't end in the shape of this spec.
        """
        device = None if ignore_device else self.device
        value = torch.as_tensor(np.asarray(val) if isinstance(val, (list, tuple)) else val)
        value = value.to(device=device, dtype=self.dtype)
        self._check_shape("encode", value)
        return value

    def to_numpy(self, val: Tensor, safe: bool = False) -> Any:
        """The array that a numpy simulator takes for ``val``; the inverse of :meth:`encode`.

        Args:
            val: a value of this spec.
            safe: raise where ``val`` isn't legal.
        """
        if safe:
            self.assert_is_in(val)
        return val.detach().cpu().numpy()

    # ---- shapes

    @property
    def ndim(self) -> int:
        """How many dimensions a value has."""
        return len(self.shape)

    def ndimension(self) -> int:
        """How many dimensions a value has."""
        return self.ndim

    def expand(self, *shape: Any) -> Self:
        """The spec of values expanded to ``shape``, the whole shape of the new spec."""
        return self._map(lambda value: value.expand(sizes_of(shape)))

    def reshape(self, *shape: Any) -> Self:
        """The spec of values reshaped to ``shape``."""
        return self._map(lambda value: value.reshape(sizes_of(shape)))

    def view(self, *shape: Any) -> Self:
        """The same as :meth:`reshape`."""
        return self.reshape(*shape)

    def flatten(self, start_dim: int, end_dim: int) -> Self:
        """The spec of values with a range of dimensions made one."""
        return self._map(lambda value: value.flatten(start_dim, end_dim))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """The spec of values with one dimension made several."""
        return self._map(lambda value: value.unflatten(dim, tuple(sizes)))

    def squeeze(self, dim: int | None = None) -> Self:
        """The spec of values without a dimension of size 1; without all of them by default."""
        return self._map(lambda value: value.squeeze() if dim is None else value.squeeze(dim))

    def unsqueeze(self, dim: int) -> Self:
        """The spec of values with a new dimension of size 1."""
        return self._map(lambda value: value.unsqueeze(dim))

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """The specs of the slices along ``dim``."""
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(f"{type(self).__name__}.unbind: no dimension {dim} in shape {list(self.shape)}")
        return tuple(self._map(lambda value, i=i: value.select(dim, i)) for i in range(self.shape[dim]))

    def __getitem__(self, index: Any) -> Self:
        """The spec of ``value[index]``.

        Raises:
            IndexError: the index doesn't fit the shape, or cuts a dimension that holds one value together.
        """
        index = as_index(index)
        try:
            return self._map(lambda value: value[index])
        except ValueError as error:
            raise IndexError(str(error)) from error

    # ---- places

    def cpu(self) -> Self:
        """The same spec on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Device | None = None) -> Self:
        """The same spec on a GPU."""
        if device is None or isinstance(device, int):
            device = torch.device("cuda", device)
        return self.to(device)

    def clone(self) -> Self:
        """A copy that shares no memory."""
        return self._map(torch.clone)

    # ---- helpers of the subclasses

    def _fits(self, value: Any) -> bool:
        """Whether ``value`` is a tensor of this dtype whose shape ends in ours."""
        return isinstance(value, Tensor) and value.dtype == self.dtype and self._ends_right(value)

    def _ends_right(self, value: Tensor) -> bool:
        return value.shape[value.ndim - self.ndim :] == self.shape if value.ndim >= self.ndim else False

    def _check_shape(self, verb: str, value: Tensor) -> None:
        if not self._ends_right(value):
            raise ValueError(
                f"{type(self).__name__}.{verb}: the value's shape must end in {list(self.shape)}, "
                f"got {list(value.shape)}"
            )

    def _shadow(self, fn: Callable[[Tensor], Tensor], keep_last: bool = False) -> torch.Size:
        """The shape that ``fn`` makes of ours; ``keep_last`` demands that the last dimension stays as it is."""
        shape = fn(torch.empty((), dtype=torch.bool).expand(self.shape)).shape
        if keep_last and shape[-1:] != self.shape[-1:]:
            raise ValueError(
                f"{type(self).__name__}: the last dimension of {list(self.shape)} holds one value together and "
                f"can't be cut or moved, which making {list(shape)} of it would do"
            )
        return shape

    def _same_frame(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and other.shape == self.shape
            and other.dtype == self.dtype
            and other.device == self.device
        )

    def _frame(self) -> str:
        return (
            f"shape={list(self.shape)}, dtype={str(self.dtype).removeprefix('torch.')}, device={self.device}"
        )


def as_index(index: Any) -> Any:
    """An index as torch takes it: arrays, lists and ranges as tensors."""
    if isinstance(index, tuple):
        return tuple(map(as_index, index))
    return torch.as_tensor(index) if isinstance(index, (list, range, np.ndarray)) else index


def split_destination(dest: torch.dtype | Device) -> tuple[torch.dtype | None, torch.device | None]:
    """A dtype or a device, told apart."""
    return (dest, None) if isinstance(dest, torch.dtype) else (None, torch.device(dest))


def _told(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    told = f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {list(value.shape)}"
    return told + (
        f" with values {value.tolist()}" if value.numel() <= 16 and value.device.type == "cpu" else ""
    )
