"""Indices act on batch dimensions alone, and the same index serves every entry."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Size, Tensor

from tetradict._entries import entries_of, put
from tetradict._nontensor import NonTensorLeaf
from tetradict._protocol import Container
from tetradict._shape import map_batch

C = TypeVar("C", bound=Container)


def index(td: C, idx: Any) -> C:
    """The collection at ``idx``: views where torch gives views, copies where it gives copies.

    Args:
        td: batch size of one dimension or more.
        idx: whatever indexes a tensor of the batch size: int, slice, ``None``, ``...``, mask, integer tensor, list,
            range, array, or a tuple of those.

    Raises:
        IndexError: out of range, or more indices than batch dimensions.
    """
    size = td.batch_size
    kind = type(idx)
    if kind is int and size and -size[0] <= idx < size[0]:
        return map_batch(td, itemgetter(idx), size[1:], _drop_first)
    if kind is slice and size:
        return map_batch(td, itemgetter(idx), Size((sliced_length(idx, size[0]), *size[1:])), _keep)
    if kind is Tensor and idx.ndim == 1 and size:
        if idx.dtype is torch.bool:
            (idx,) = _positions(idx, size)
            return map_batch(td, lambda v: v.index_select(0, idx), Size((idx.shape[0], *size[1:])), _keep)
        if idx.dtype is torch.int64:
            return map_batch(td, itemgetter(idx), Size((idx.shape[0], *size[1:])), _keep)
    parts = _without_masks(normal(idx, size), size)
    new_size = indexed_size(td, parts)
    return map_batch(td, itemgetter(parts), new_size, lambda names: _indexed_names(names, parts))


def _positions(mask: Tensor, size: Sequence[int]) -> tuple[Tensor, ...]:
    """Where a mask over the first dimensions of ``size`` holds: found once, for the whole tree."""
    if mask.shape != size[: mask.ndim]:
        raise IndexError(
            f"index: a mask over the batch dimensions {tuple(size[: mask.ndim])} must have their shape, "
            f"got {tuple(mask.shape)}"
        )
    return mask.nonzero(as_tuple=True)


def _without_masks(parts: tuple[Any, ...], size: Size) -> tuple[Any, ...]:
    out: list[Any] = []
    at = 0
    for part in parts:
        if isinstance(part, Tensor) and part.ndim and part.dtype in {torch.bool, torch.uint8}:
            out += _positions(part.bool(), size[at:])
        else:
            out.append(part)
        at += _consumed(part)
    return tuple(out)


def sliced_length(idx: slice, size: int) -> int:
    """How many of ``size`` items a slice takes; ``size`` may be a symbol, which ``slice.indices`` would fix."""
    start, stop, step = idx.start, idx.stop, idx.step
    if step is not None and step <= 0:
        raise ValueError(f"index: the step of a slice must be 1 or more, got {step}")
    start = 0 if start is None else max(start + size, 0) if start < 0 else min(start, size)
    stop = size if stop is None else max(stop + size, 0) if stop < 0 else min(stop, size)
    return max(stop - start, 0) if step is None else -(-max(stop - start, 0) // step)


def _drop_first(names: list[str | None]) -> list[str | None]:
    return names[1:]


def _keep(names: list[str | None]) -> list[str | None]:
    return names


def normal(idx: Any, size: Size) -> tuple[Any, ...]:
    """``idx`` as a tuple of ints, slices, ``None`` and tensors that says something of each batch dimension it
    reaches, so that no ellipsis can run into the feature dimensions."""
    parts = [_part(part) for part in (idx if isinstance(idx, tuple) else (idx,))]
    used = sum(_consumed(part) for part in parts)
    if used > len(size):
        raise IndexError(f"index: {used} indices for the {len(size)} batch dimensions {tuple(size)}")
    where = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(where) > 1:
        raise IndexError("index: an index can have a single ellipsis ('...')")
    if where:
        parts[where[0] : where[0] + 1] = [slice(None)] * (len(size) - used)
    return tuple(parts)


def _part(part: Any) -> Any:
    """One component in a form that torch takes and that has a known number of dimensions."""
    if isinstance(part, Tensor) or part is None or part is Ellipsis or isinstance(part, bool | int | slice):
        return part
    if isinstance(part, np.integer):
        return int(part)
    if isinstance(part, range):
        return (
            torch.arange(part.start, part.stop, part.step) if len(part) else torch.zeros(0, dtype=torch.int64)
        )
    if isinstance(part, list | np.ndarray | np.bool_):
        try:
            tensor = torch.as_tensor(part)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"an index that is a list or array must hold ints or bools, got {part!r}"
            ) from error
        return tensor.long() if tensor.numel() == 0 and tensor.dtype is not torch.bool else tensor
    raise TypeError(
        "an index is made of ints, slices, None, ..., masks and integer tensors, arrays, lists or ranges, "
        f"got {type(part).__name__}"
    )


def _consumed(part: Any) -> int:
    """How many dimensions a component of an index uses up."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    if isinstance(part, Tensor) and part.dtype in {torch.bool, torch.uint8}:
        return part.ndim
    return 1


def indexed_size(td: Container, parts: tuple[Any, ...]) -> Size:
    """The batch size that an index leaves, read off one entry."""
    dims = len(td.batch_size)
    leaf = next(iter(td._leaves()), None)
    if leaf is None or leaf.numel() == 0:  # an empty leaf lets indices through that others refuse
        leaf = torch.zeros((), dtype=torch.bool).expand(td.batch_size)
    out = leaf[parts]
    return out.shape[: out.ndim - (leaf.ndim - dims)]


def _indexed_names(names: list[str | None], parts: tuple[Any, ...]) -> list[str | None]:
    """Names after an index. One tensor or mask of one dimension keeps the name it picks along; what several gather
    has none, and stands where they stood, or first when slices come between them."""
    out: list[str | None] = []
    gathered: list[str | None] | None = None
    at = place = 0
    for part in parts:
        if part is None:
            out.append(None)
        elif isinstance(part, slice):
            out.append(names[at])
        elif isinstance(part, bool) or (isinstance(part, Tensor) and (part.ndim or part.dtype is torch.bool)):
            dims = 1 if isinstance(part, bool) or part.dtype is torch.bool else part.ndim
            if gathered is None:
                place = len(out)
                gathered = [names[at]] if dims == 1 and _consumed(part) == 1 else [None] * dims
            else:
                place = place if place == len(out) else 0
                gathered = [None] * max(len(gathered), dims)
        at += _consumed(part)
    out[place:place] = gathered or []
    return out + names[at:]


def set_index(td: Container, idx: Any, value: Any) -> None:
    """Write ``value`` into the items at ``idx`` of every entry, in place.

    Args:
        td: what is written into; it may be locked, unless ``value`` brings new entries or non-tensor values.
        idx: see :func:`index`.
        value: a collection or mapping with entries of the indexed size (an entry that ``td`` lacks is made, zero
            elsewhere), or a number or tensor that is written into every entry.
    """
    size = td.batch_size
    if not (type(idx) in {int, slice} and size):
        idx = normal(idx, size)
    if isinstance(value, Container | dict):
        _write_entries(td, idx, value)
        return
    for present in td._leaves():
        present[idx] = value


def _write_entries(td: Container, idx: Any, source: Any) -> None:
    present = td._entries()
    for key, value in entries_of(source).items():
        old = present.get(key)
        if isinstance(old, Tensor):
            old[idx] = value if isinstance(value, Tensor) else torch.as_tensor(value)
        elif isinstance(old, Container):
            if isinstance(value, Container | dict):
                _write_entries(old, idx, value)
            else:
                set_index(old, idx, value)
        elif isinstance(old, NonTensorLeaf):
            new = old._with(idx, value)
            if new is not old:
                put(td, key, new, "td[index] = ...")
        else:
            _make(td, key, idx, value)


def _make(td: Container, key: str, idx: Any, value: Any) -> None:
    """A new entry, zero but for the items at ``idx``."""
    dims = len(indexed_size(td, normal(idx, td.batch_size)))
    if isinstance(value, Tensor):
        put(td, key, value.new_zeros(*td.batch_size, *value.shape[dims:]))
        td._get1(key)[idx] = value
    elif isinstance(value, Container | dict):
        put(td, key, {})
        _write_entries(td._get1(key), idx, value)
    else:
        raise KeyError(
            f"td[index] = ...: there is no entry {key!r} to write the {type(value).__name__} into; set it as a whole first"
        )
