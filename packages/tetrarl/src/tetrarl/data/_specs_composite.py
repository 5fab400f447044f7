"""A tree of specs: what a tensor collection may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Self

import torch
from tetradict import TensorDict, TensorDictBase
from torch import Tensor

from tetrarl.data._specs import (
    Device,
    Shape,
    TensorSpec,
    as_index,
    as_size,
    sizes_of,
    split_destination,
)

Key = str | tuple[str, ...]
_MISSING = object()


class Composite(TensorSpec):
    """Specs under names, which may be nested; its values are tensor collections.

    A nested name is a tuple. The leading dimensions of every spec inside are the ``shape`` of the composite, the
    batch size of its values. The device is ``None`` where the specs may lie on several; given one, it moves
    every spec there.

    Args:
        specs: names and specs; a dict in place of a spec makes a nested composite.
        shape: batch size of a value.
        device: of all values; not enforced by default.
        **kwargs: more names and specs.

    Raises:
        TypeError: a value is neither a spec nor a dict.
        ValueError: the shape of a spec doesn't begin with ``shape``.

    Example:
        >>> spec = Composite(observation=Unbounded(3), agent=Composite(action=OneHot(4)))
        >>> spec["agent", "action"].n
        4
        >>> spec.zero()["agent", "action"]
        tensor([False, False, False, False])
    """

    domain = "composite"
    dtype = None

    def __init__(
        self,
        specs: Mapping[str, Any] | None = None,
        /,
        *,
        shape: Shape = (),
        device: Device | None = None,
        **kwargs: Any,
    ) -> None:
        self._specs: dict[str, TensorSpec] = {}
        self._locked = False
        self._size = as_size(shape)
        self._device = None if device is None else torch.device(device)
        for name, spec in {**(specs or {}), **kwargs}.items():
            self.set(name, spec)

    # ---- the tree

    @property
    def shape(self) -> torch.Size:
        """Batch size of a value; it may be changed to another that all specs inside begin with."""
        return self._size

    @shape.setter
    def shape(self, shape: Shape) -> None:
        self._check_open()
        size = as_size(shape)
        for name, spec in self._specs.items():
            _check_leading(name, spec, size)
        self._size = size

    batch_size = shape

    @property
    def device(self) -> torch.device | None:
        """Of all values, or ``None``."""
        return self._device

    @property
    def space(self) -> dict[str, Any]:
        """The boxes of the specs, by name."""
        return {name: spec.space for name, spec in self._specs.items()}

    def set(self, name: Key, spec: TensorSpec | Mapping[str, Any]) -> Self:
        """Put a spec under a name, making the composites on the way; returns ``self``."""
        self._check_open()
        name, *rest = _path(name)
        if rest:
            below = self._specs.get(name)
            below = below if isinstance(below, Composite) else Composite(shape=self.shape, device=self.device)
            spec = below.set(tuple(rest), spec)
        if isinstance(spec, Mapping):
            spec = Composite(spec, shape=self.shape)
        if isinstance(spec, Composite) and spec.ndim < self.ndim:
            spec = _widened(spec, self.shape)
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                f"Composite: {name!r} must be a spec or a dict of them, got a {type(spec).__name__}"
            )
        _check_leading(name, spec, self.shape)
        self._specs[name] = spec if self.device in (None, spec.device) else spec.to(self.device)
        return self

    def get(self, item: Key, default: Any = _MISSING) -> Any:
        """The spec under a name, or ``default``.

        Raises:
            KeyError: there is none, and no default.
        """
        name, *rest = _path(item)
        spec = self._specs.get(name, _MISSING)
        if rest:
            spec = spec.get(tuple(rest), None) if isinstance(spec, Composite) else None
            spec = _MISSING if spec is None else spec
        if spec is not _MISSING:
            return spec
        if default is _MISSING:
            raise KeyError(f"Composite: no spec {item!r}{_nearest(item, self)}")
        return default

    def pop(self, key: Key, default: Any = _MISSING) -> Any:
        """Remove the spec under a name and return it, or ``default``."""
        self._check_open()
        spec = self.get(key, default)
        if self.get(key, None) is not None:
            del self[key]
        return spec

    def update(self, dict_or_spec: Mapping[str, Any] | Composite) -> Self:
        """Take over specs from a dict or another composite, merging nested ones; returns ``self``."""
        for name, spec in dict_or_spec.items():
            mine = self._specs.get(name)
            if isinstance(mine, Composite) and isinstance(spec, (Composite, Mapping)):
                mine.update(spec)
            else:
                self.set(name, spec.clone() if isinstance(spec, TensorSpec) else spec)
        return self

    def keys(self, include_nested: bool = False, leaves_only: bool = False) -> list[Key]:
        """The names.

        Args:
            include_nested: also those inside nested composites, as tuples.
            leaves_only: leave out the composites themselves.
        """
        return [key for key, _ in self.items(include_nested, leaves_only)]

    def values(self, include_nested: bool = False, leaves_only: bool = False) -> list[TensorSpec]:
        """The specs, in the order of :meth:`keys`."""
        return [spec for _, spec in self.items(include_nested, leaves_only)]

    def items(self, include_nested: bool = False, leaves_only: bool = False) -> list[tuple[Key, TensorSpec]]:
        """Names and specs, in the order of :meth:`keys`."""
        return list(self._walk(include_nested, leaves_only))

    def _walk(self, nested: bool, leaves_only: bool) -> Iterator[tuple[Key, TensorSpec]]:
        for name, spec in self._specs.items():
            inner = isinstance(spec, Composite)
            if not (inner and leaves_only):
                yield name, spec
            if inner and nested:
                for key, leaf in spec.items(True, leaves_only):
                    yield (name, *_path(key)), leaf

    def empty(self) -> Composite:
        """A composite of the same shape and device without specs."""
        return Composite(shape=self.shape, device=self.device)

    def is_empty(self, recurse: bool = False) -> bool:
        """Whether no spec is inside; with ``recurse``, whether no leaf is."""
        return not (self.keys(True, True) if recurse else self._specs)

    def __setitem__(self, key: Key, spec: TensorSpec | Mapping[str, Any]) -> None:
        self.set(key, spec)

    def __delitem__(self, key: Key) -> None:
        self._check_open()
        self.get(key)
        name, *rest = _path(key)
        if rest:
            del self._specs[name][tuple(rest)]
        else:
            del self._specs[name]

    def __getitem__(self, index: Any) -> Any:
        """The spec under a name or a path of names; for any other index, the composite of indexed values."""
        if isinstance(index, str) or (isinstance(index, tuple) and index and _is_path(index)):
            return self.get(index)
        index = _over_batch(index, self.ndim)
        return self._each(self._shadow(lambda value: value[index]), lambda spec: spec[index])

    def __contains__(self, key: Key) -> bool:
        return self.get(key, None) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    # ---- the lock

    @property
    def is_locked(self) -> bool:
        """Whether specs can't be set or removed."""
        return self._locked

    locked = is_locked

    def lock_(self, recurse: bool = True) -> Self:
        """Refuse to set and remove specs from now on, also inside nested composites; returns ``self``."""
        self._locked = True
        return self._pass_on(Composite.lock_, recurse)

    def unlock_(self, recurse: bool = True) -> Self:
        """Allow setting and removing specs again; returns ``self``."""
        self._locked = False
        return self._pass_on(Composite.unlock_, recurse)

    def _pass_on(self, verb: Callable[[Composite], Any], recurse: bool) -> Self:
        for spec in self._specs.values():
            if recurse and isinstance(spec, Composite):
                verb(spec)
        return self

    def _check_open(self) -> None:
        if self._locked:
            raise RuntimeError(
                "Composite: this composite is locked; unlock_() it to change it, or clone() it"
            )

    # ---- values

    def rand(self, shape: Shape = (), *, generator: torch.Generator | None = None) -> TensorDict:
        """Draw legal values, a collection of batch size ``[*shape, *self.shape]``."""
        return self._make(as_size(shape), lambda spec: spec.rand(shape, generator=generator))

    def zero(self, shape: Shape = ()) -> TensorDict:
        """Zeros, a collection of batch size ``[*shape, *self.shape]``."""
        return self._make(as_size(shape), lambda spec: spec.zero(shape))

    def one(self, shape: Shape = ()) -> TensorDict:
        """Ones, a collection of batch size ``[*shape, *self.shape]``."""
        return self._make(as_size(shape), lambda spec: spec.one(shape))

    def is_in(self, val: TensorDictBase | Mapping[str, Any]) -> bool:
        """Whether every spec has its legal value in ``val``; what else ``val`` holds doesn't matter."""
        if not isinstance(val, (TensorDictBase, Mapping)):
            return False
        return all(name in val.keys() and spec.is_in(val[name]) for name, spec in self._specs.items())

    def project(self, val: TensorDictBase) -> TensorDictBase:
        """Put the nearest legal value of every spec into ``val``, in place of one that is not, and give it back.

        Raises:
            KeyError: ``val`` lacks a value.
        """
        for name, spec in self._specs.items():
            if name not in val.keys():
                there = sorted(val.keys())
                raise KeyError(f"Composite.project: the collection lacks {name!r}; it has {there}")
            before = val[name]
            after = spec.project(before)
            if after is not before:
                val[name] = after
        return val

    def encode(self, val: Mapping[str, Any] | TensorDictBase, *, ignore_device: bool = False) -> TensorDict:
        """Make a collection of tensors out of a dict of arrays, tensors, lists or numbers, nested as the specs are.

        Raises:
            KeyError: ``val`` holds a name without a spec, or lacks one.
        """
        names = set(val.keys())
        if names != set(self._specs):
            raise KeyError(
                f"Composite.encode: the names must be {sorted(self._specs)}; "
                f"lacking {sorted(set(self._specs) - names)}, unknown {sorted(names - set(self._specs))}"
            )
        parts = {
            name: spec.encode(val[name], ignore_device=ignore_device) for name, spec in self._specs.items()
        }
        return TensorDict(parts, self.shape, device=None if ignore_device else self.device)

    def to_numpy(self, val: TensorDictBase, safe: bool = False) -> dict[str, Any]:
        """The dict of arrays that a numpy simulator takes for ``val``, nested as the specs are."""
        return {name: spec.to_numpy(val[name], safe) for name, spec in self._specs.items()}

    def _make(self, batch: torch.Size, draw: Callable[[TensorSpec], Any]) -> TensorDict:
        values = {name: draw(spec) for name, spec in self._specs.items()}
        return TensorDict.trusted(values, torch.Size((*batch, *self.shape)), self.device)

    # ---- shapes: of the batch dimensions

    def expand(self, *shape: Any) -> Composite:
        """The composite whose batch size is ``shape``."""
        size = self._shadow(lambda value: value.expand(sizes_of(shape)))
        return self._each(size, lambda spec: spec.expand(*size, *spec.shape[self.ndim :]))

    def reshape(self, *shape: Any) -> Composite:
        """The composite whose batch dimensions are reshaped to ``shape``."""
        size = self._shadow(lambda value: value.reshape(sizes_of(shape)))
        return self._each(size, lambda spec: spec.reshape(*size, *spec.shape[self.ndim :]))

    def flatten(self, start_dim: int, end_dim: int) -> Composite:
        """The composite with a range of batch dimensions made one."""
        return self.reshape(self._shadow(lambda value: value.flatten(start_dim, end_dim)))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Composite:
        """The composite with one batch dimension made several."""
        return self.reshape(self._shadow(lambda value: value.unflatten(dim, tuple(sizes))))

    def squeeze(self, dim: int | None = None) -> Composite:
        """The composite without a batch dimension of size 1; without all of them by default."""
        return self.reshape(
            self._shadow(lambda value: value.squeeze() if dim is None else value.squeeze(dim))
        )

    def unsqueeze(self, dim: int) -> Composite:
        """The composite with a new batch dimension of size 1."""
        return self.reshape(self._shadow(lambda value: value.unsqueeze(dim)))

    def unbind(self, dim: int = 0) -> tuple[Composite, ...]:
        """The composites of the slices along a batch dimension."""
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(f"Composite.unbind: no dimension {dim} in shape {list(self.shape)}")
        return tuple(self[(slice(None),) * (dim % self.ndim) + (i,)] for i in range(self.shape[dim]))

    def to(self, dest: torch.dtype | Device) -> Composite:
        """The same composite on another device, or with every leaf of another dtype."""
        _, device = split_destination(dest)
        out = Composite(shape=self.shape, device=device or self.device)
        out._specs = {name: spec.to(dest) for name, spec in self._specs.items()}
        return out

    def clone(self) -> Composite:
        """A copy that shares no memory and is not locked."""
        return self._each(self.shape, lambda spec: spec.clone())

    def _each(self, size: torch.Size, change: Callable[[TensorSpec], TensorSpec]) -> Composite:
        out = Composite(shape=size, device=self.device)
        out._specs = {name: change(spec) for name, spec in self._specs.items()}
        return out

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Composite)
            and self.shape == other.shape
            and self.device == other.device
            and self._specs == other._specs
        )

    def __repr__(self) -> str:
        lines = [f"{name}: {spec!r}".replace("\n", "\n    ") for name, spec in self._specs.items()]
        tail = f"shape={list(self.shape)}, device={self.device}"
        return (
            "Composite("
            + "".join(f"\n    {line}," for line in lines)
            + ("\n    " if lines else "")
            + tail
            + ")"
        )


def _path(key: Key) -> tuple[str, ...]:
    if isinstance(key, str):
        return (key,)
    if isinstance(key, tuple) and key and _is_path(key):
        return tuple(part for piece in key for part in _path(piece))
    raise TypeError(f"Composite: a name is a string or a tuple of strings, got {key!r}")


def _is_path(key: tuple) -> bool:
    return all(isinstance(part, str) or (isinstance(part, tuple) and part and _is_path(part)) for part in key)


def _nearest(item: Key, composite: Composite) -> str:
    names = {".".join(_path(key)): key for key in composite.keys(True)}
    close = get_close_matches(".".join(_path(item)), names, n=3)
    return (
        f"; the nearest are {[names[name] for name in close]}"
        if close
        else f"; there are {list(names.values())}"
    )


def _check_leading(name: str, spec: TensorSpec, size: torch.Size) -> None:
    if spec.shape[: len(size)] != size:
        raise ValueError(
            f"Composite: the shape of every spec must begin with {list(size)}, the composite's, "
            f"but {name!r} has {list(spec.shape)}; expand() it, or change the composite's shape"
        )


def _widened(spec: Composite, size: torch.Size) -> Composite:
    """A copy of a nested composite with the longer batch size of what it goes into, where all inside allow it."""
    out = spec.empty()
    out.shape = size
    for name, inner in spec.items():
        out.set(name, inner)
    return out


def _over_batch(index: Any, ndim: int) -> tuple:
    """``index`` as a tuple without Ellipsis, which would reach past the batch dimensions of a leaf."""
    index = as_index(index if isinstance(index, tuple) else (index,))
    at = next((i for i, part in enumerate(index) if part is Ellipsis), None)
    if at is None:
        return index
    taken = sum(
        part.ndim if isinstance(part, Tensor) and part.dtype == torch.bool else part is not None
        for part in index
        if part is not Ellipsis
    )
    return (*index[:at], *(slice(None),) * (ndim - taken), *index[at + 1 :])
