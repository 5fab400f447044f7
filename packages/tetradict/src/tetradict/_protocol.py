"""What a container is: one short protocol, and the words every module shares.

A verb is written once against this protocol, in the module of its subject. A new kind of storage implements the
protocol and never the verbs.
"""

from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from typing import Any, Self, TypeAlias

import torch
from torch import Size, Tensor

NestedKey: TypeAlias = str | tuple[str, ...]
"""A key of one level, or the path to an entry of a nested collection."""


class Container:
    """One node of a tree of entries: tensors, other containers, and non-tensor leaves.

    A container offers the primitives below, and two attributes: ``_lock`` (``None`` while it may change, else
    the tokens that hold it locked, see ``_lock.py``) and ``_names`` (one name or ``None`` for each batch
    dimension, or ``None`` when no dimension is named). None of the primitives checks anything.
    """

    __slots__ = ()
    _lock: tuple[Any, ...] | None
    _names: list[str | None] | None

    @property
    def batch_size(self) -> Size:
        """The leading dimensions that all entries share."""
        raise TypeError(f"{type(self).__name__} is no complete container: it lacks batch_size")

    @property
    def device(self) -> torch.device | None:
        """Where every entry lies, or ``None`` for "mixed, not checked"."""
        raise TypeError(f"{type(self).__name__} is no complete container: it lacks device")

    def _keys(self) -> KeysView[str]:
        raise TypeError(f"{type(self).__name__} is no complete container: it lacks _keys")

    def _get1(self, key: str) -> Any:
        """The entry ``key`` of this level; ``KeyError`` when there is none."""
        raise TypeError(f"{type(self).__name__} is no complete container: it lacks _get1")

    def _set1(self, key: str, value: Any) -> None:
        """Put ``value``, already checked, at ``key``."""
        raise TypeError(f"{type(self).__name__} is no complete container: it lacks _set1")

    def _del1(self, key: str) -> None:
        """Remove the entry ``key``, which is there."""
        raise TypeError(f"{type(self).__name__} is no complete container: it lacks _del1")

    def _like(self, entries: dict[str, Any], batch_size: Size, names: list[str | None] | None = None) -> Self:
        """A container of the same kind and device around ``entries``, which it owns from now on."""
        raise TypeError(f"{type(self).__name__} is no complete container: it lacks _like")

    def _put_meta(
        self, batch_size: Size, device: torch.device | None, names: list[str | None] | None
    ) -> None:
        """Replace the batch size, device and names of this node alone."""
        raise TypeError(f"{type(self).__name__} is no complete container: it lacks _put_meta")

    def _entries(self) -> Mapping[str, Any]:
        """The entries of this level, to read and never to write."""
        return {key: self._get1(key) for key in self._keys()}

    def _nested(self) -> "Container":
        """An empty container for entries below this one."""
        return self._like({}, self.batch_size, self._names)

    def _like_rows(
        self,
        keys: Sequence[str],
        rows: Iterable[tuple[Any, ...]],
        sizes: Sequence[Size],
        names: list[str | None] | None,
    ) -> list[Self]:
        """One container for each of ``rows``, which have a value for each key; see ``_like``."""
        return [
            self._like(dict(zip(keys, row, strict=True)), size, names)
            for row, size in zip(rows, sizes, strict=True)
        ]

    def _leaves(self) -> list[Tensor]:
        """All tensors of the tree, depth first."""
        out: list[Tensor] = []
        for value in self._entries().values():
            if isinstance(value, Tensor):
                out.append(value)
            elif isinstance(value, Container):
                out += value._leaves()
        return out

    def _rebuild(self, leaves: Iterator[Tensor]) -> Self:
        """The same tree around other tensors, which come in the order of ``_leaves``."""
        entries = {
            key: next(leaves)
            if isinstance(value, Tensor)
            else value._rebuild(leaves)
            if isinstance(value, Container)
            else value
            for key, value in self._entries().items()
        }
        return self._like(entries, self.batch_size, self._names)


def real_device(device: torch.device | str | int | None) -> torch.device | None:
    """``device`` with its index, as tensors report it (``cuda`` becomes ``cuda:0``)."""
    if device is None:
        return None
    device = torch.device(device)
    if device.type in {"cpu", "meta"} or device.index is not None:
        return device
    return torch.empty(0, device=device).device


def real_dim(dim: int, ndim: int, verb: str) -> int:
    """``dim`` counted from the front, checked against ``ndim`` dimensions."""
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"{verb}: dim must be in [{-ndim}, {ndim - 1}] for {ndim} batch dimensions, got {dim}"
        )
    return dim % ndim
