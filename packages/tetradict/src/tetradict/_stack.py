"""Joining collections of the same entries: along a new dimension, or along one they have."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import torch
from torch import Size, Tensor

from tetradict._entries import put
from tetradict._nontensor import join
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
    size = _first(input, "stack").batch_size
    for other in input:
        if other.batch_size != size:
            raise RuntimeError(
                f"stack: expected one batch size, got {tuple(size)} and {tuple(other.batch_size)}"
            )
    dim = real_dim(dim, len(size) + 1, "stack")
    if out is None:
        return _stack(input, dim)
    return _into(out, input, torch.stack, dim, Size((*size[:dim], len(input), *size[dim:])), "stack")


def _stack(items: Sequence[C], dim: int) -> C:
    first = items[0]
    size, names = first.batch_size, first._names
    new = Size((*size[:dim], len(items), *size[dim:]))
    entries = _columns(items, torch.stack, dim, _stack, new)
    return first._like(entries, new, None if names is None else [*names[:dim], None, *names[dim:]])


def cat(input: Sequence[C], dim: int = 0, *, out: C | None = None) -> C:
    """Join collections along a batch dimension they have.

    Args:
        input: one or more with the same keys, and shapes that differ along ``dim`` at most.
        dim: the dimension to join along.
        out: a collection of the joined shape to write into; it is returned.

    Raises:
        RuntimeError: keys, shapes or batch sizes do not go together; the message names the entry.
    """
    size = _first(input, "cat").batch_size
    dim = real_dim(dim, len(size), "cat")
    total = 0
    for other in input:
        theirs = other.batch_size
        if theirs != size and (theirs[:dim] != size[:dim] or theirs[dim + 1 :] != size[dim + 1 :]):
            raise RuntimeError(
                f"cat: batch sizes may differ along dim {dim} alone, got {tuple(size)} and {tuple(theirs)}"
            )
        total += theirs[dim]
    if out is None:
        return _cat(input, dim)
    return _into(out, input, torch.cat, dim, Size((*size[:dim], total, *size[dim + 1 :])), "cat")


def _cat(items: Sequence[C], dim: int) -> C:
    first = items[0]
    size = first.batch_size
    new = Size((*size[:dim], sum([item.batch_size[dim] for item in items]), *size[dim + 1 :]))
    return first._like(_columns(items, torch.cat, dim, _cat, new), new, first._names)


def _first(items: Sequence[Any], verb: str) -> Any:
    if not items:
        raise RuntimeError(f"{verb}: expected at least one collection, got none")
    for item in items:
        if not isinstance(item, Container):
            raise TypeError(f"{verb}: expected collections only, got a {type(item).__name__} among them")
    return items[0]


def _columns(
    items: Sequence[Any], verb: Callable[..., Tensor], dim: int, below: Callable[..., Any], size: Size
) -> dict[str, Any]:
    """Join each entry over all items: tensors by ``verb``, containers by ``below``."""
    rows = [item._entries() for item in items]
    head = rows[0]
    count = len(head)
    out: dict[str, Any] = {}
    key = ""
    try:
        for key, value in head.items():
            column = [row[key] for row in rows]
            if isinstance(value, Tensor):
                out[key] = verb(column, dim)
            elif isinstance(value, Container):
                out[key] = below(column, dim)
            else:
                out[key] = join(column, verb, dim, size)
    except KeyError:
        _refuse_keys(rows, verb)
    except (AttributeError, RuntimeError, TypeError) as error:
        raise RuntimeError(f"{verb.__name__}: entry {key!r}: {error}") from error
    for row in rows:
        if len(row) != count:
            _refuse_keys(rows, verb)
    return out


def _refuse_keys(rows: Sequence[Mapping[str, Any]], verb: Callable[..., Tensor]) -> NoReturn:
    every = set(rows[0]).intersection(*rows)
    odd = sorted(set().union(*rows) - every)
    raise RuntimeError(f"{verb.__name__}: all collections must have the same entries; only some have {odd}")


def _into(
    out: C, items: Sequence[Container], verb: Callable[..., Tensor], dim: int, size: Size, name: str
) -> C:
    """Join straight into the tensors of ``out``."""
    if out.batch_size != size:
        raise RuntimeError(f"{name}: out must have the batch size {tuple(size)}, got {tuple(out.batch_size)}")
    _write_columns(out, [item._entries() for item in items], verb, dim)
    return out


def _write_columns(
    out: Container, rows: Sequence[Mapping[str, Any]], verb: Callable[..., Tensor], dim: int
) -> None:
    present = out._entries()
    if any(row.keys() != present.keys() for row in rows):
        _refuse_keys([present, *rows], verb)
    for key, value in present.items():
        column = [row[key] for row in rows]
        if isinstance(value, Container):
            _write_columns(value, [item._entries() for item in column], verb, dim)
        elif not isinstance(value, Tensor):
            put(out, key, join(column, verb, dim, value.batch_size), verb.__name__)
        else:
            try:
                _write_column(value, column, verb, dim)
            except RuntimeError as error:
                raise RuntimeError(f"{verb.__name__}: entry {key!r}: {error}") from error


def _write_column(into: Tensor, column: Sequence[Tensor], verb: Callable[..., Tensor], dim: int) -> None:
    """Write each part into its place of ``into``, whose shape must be that of the whole already."""
    places = (
        into.unbind(dim) if verb is torch.stack else into.split([part.shape[dim] for part in column], dim)
    )
    for place, part in zip(places, column, strict=True):
        if place.shape != part.shape:
            raise RuntimeError(
                f"out must be made of parts of shape {tuple(part.shape)}, got {tuple(place.shape)}"
            )
        place.copy_(part)
