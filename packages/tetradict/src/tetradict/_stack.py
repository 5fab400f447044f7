"""Joining collections of the same entries: along a new dimension, or along one they have."""

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Size, Tensor

from tetradict._nontensor import NonTensorLeaf, join
from tetradict._protocol import Container, real_dim

C = TypeVar("C", bound=Container)


def stack(input: Sequence[C], dim: int = 0, *, out: C | None = None) -> C:
    """Join collections along a new batch dimension.

    Args:
        input: one or more with the same keys, shapes and batch size.
        dim: where the new dimension goes, from 0 to the number of batch dimensions, or negative from behind.
        out: a collection of the stacked shape to write into; it is returned.

    Raises:
        RuntimeError: keys, shapes or batch sizes differ; the message names the entry.
    """
    first = _first(input, "stack")
    size = first.batch_size
    for other in input:
        if other.batch_size != size:
            raise RuntimeError(
                f"stack: expected one batch size, got {tuple(size)} and {tuple(other.batch_size)}"
            )
    dim = real_dim(dim, len(size) + 1, "stack")
    if out is not None:
        return _stack_into(input, dim, out)
    return _stack(input, dim, len(input))


def _stack(items: Sequence[C], dim: int, count: int) -> C:
    first = items[0]
    size, names = first.batch_size, first._names
    entries = _columns(items, torch.stack, dim, lambda column: _stack(column, dim, count), "stack")
    names = None if names is None else [*names[:dim], None, *names[dim:]]
    return first._like(entries, Size((*size[:dim], count, *size[dim:])), names)


def cat(input: Sequence[C], dim: int = 0, *, out: C | None = None) -> C:
    """Join collections along a batch dimension they have.

    Args:
        input: one or more with the same keys, and shapes that differ along ``dim`` at most.
        dim: the dimension to join along.
        out: a collection of the joined shape to write into; it is returned.

    Raises:
        RuntimeError: keys, shapes or batch sizes do not go together; the message names the entry.
    """
    first = _first(input, "cat")
    dim = real_dim(dim, len(first.batch_size), "cat")
    for other in input:
        size = other.batch_size
        if len(size) != len(first.batch_size) or (
            size[:dim] + size[dim + 1 :] != first.batch_size[:dim] + first.batch_size[dim + 1 :]
        ):
            raise RuntimeError(
                f"cat: batch sizes may differ along dim {dim} alone, got {tuple(first.batch_size)} and {tuple(size)}"
            )
    joined = _cat(input, dim)
    if out is None:
        return joined
    _copy_into(joined, out, "cat")
    return out


def _cat(items: Sequence[C], dim: int) -> C:
    first = items[0]
    size = first.batch_size
    entries = _columns(items, torch.cat, dim, lambda column: _cat(column, dim), "cat")
    total = sum(item.batch_size[dim] for item in items)
    return first._like(entries, Size((*size[:dim], total, *size[dim + 1 :])), first._names)


def _first(items: Sequence[Any], verb: str) -> Any:
    if not items:
        raise RuntimeError(f"{verb}: expected at least one collection, got none")
    for item in items:
        if not isinstance(item, Container):
            raise TypeError(f"{verb}: expected collections only, got a {type(item).__name__} among them")
    return items[0]


def _columns(items: Sequence[Any], verb: Any, dim: int, below: Any, name: str) -> dict[str, Any]:
    """Join each entry over all items: tensors by ``verb``, containers by ``below``."""
    rows = [item._entries() for item in items]
    head = rows[0]
    keys = head.keys()
    for row in rows:
        if row.keys() != keys:
            raise RuntimeError(
                f"{name}: all collections must have the same entries; only some have {sorted(row.keys() ^ keys)}"
            )
    out: dict[str, Any] = {}
    for key, value in head.items():
        column = [row[key] for row in rows]
        try:
            if isinstance(value, Tensor):
                out[key] = verb(column, dim)
            elif isinstance(value, Container):
                out[key] = below(column)
            else:
                out[key] = join(column, verb, dim, _joined_size(column, dim, name))
        except (AttributeError, RuntimeError, TypeError) as error:
            raise RuntimeError(f"{name}: entry {key!r}: {error}") from error
    return out


def _joined_size(column: Sequence[NonTensorLeaf], dim: int, name: str) -> Size:
    size = column[0].batch_size
    if name == "stack":
        return Size((*size[:dim], len(column), *size[dim:]))
    return Size((*size[:dim], sum(leaf.batch_size[dim] for leaf in column), *size[dim + 1 :]))


def _stack_into(items: Sequence[C], dim: int, out: C) -> C:
    rows = [item._entries() for item in items]
    for key, value in out._entries().items():
        column = [row[key] for row in rows]
        if isinstance(value, Tensor):
            torch.stack(column, dim, out=value)
        elif isinstance(value, Container):
            _stack_into(column, dim, value)
    return out


def _copy_into(source: Container, out: Container, verb: str) -> None:
    for key, value in out._entries().items():
        if isinstance(value, Tensor):
            value.copy_(source._get1(key))
        elif isinstance(value, Container):
            _copy_into(source._get1(key), value, verb)
