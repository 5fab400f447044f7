"""Verbs on the batch dimensions: another form, the same entries. Feature dimensions are left alone."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Size, Tensor

from tetradict._protocol import Container, real_dim

C = TypeVar("C", bound=Container)
Names = list[str | None]


def map_batch(
    td: C, verb: Callable[[Tensor], Tensor], batch_size: Size, rename: Callable[[Names], Names] | None = None
) -> C:
    """Apply ``verb``, which takes the batch dimensions of ``td`` to ``batch_size``, to every entry of the tree.

    ``rename`` does the same to the names of those dimensions; without it they are lost.
    """
    return _map(td, verb, len(td.batch_size), batch_size, rename)


def _map(
    td: C, verb: Callable[[Tensor], Tensor], dims: int, new: Size, rename: Callable[[Names], Names] | None
) -> C:
    old, names = td.batch_size, td._names
    size = new if len(old) == dims else Size((*new, *old[dims:]))
    out: dict[str, Any] = {}
    for key, value in td._entries().items():
        if isinstance(value, Tensor):
            out[key] = verb(value)
        elif isinstance(value, Container):
            out[key] = _map(value, verb, dims, new, rename)
        else:
            out[key] = value._map(verb, size)
    if names is not None:
        names = [*(rename(names[:dims]) if rename else [None] * len(new)), *names[dims:]]
    return td._like(out, size, names)


def sizes_of(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence."""
    if len(sizes) == 1 and not isinstance(sizes[0], int):
        return tuple(sizes[0])
    return sizes


def solve(sizes: tuple[int, ...], numel: int, verb: str) -> Size:
    """``sizes`` with its one -1, if any, worked out, checked to hold ``numel`` items."""
    known = math.prod([size for size in sizes if size != -1])
    unknown = sizes.count(-1)
    if unknown == 1 and known and numel % known == 0:
        return Size([numel // known if size == -1 else size for size in sizes])
    if unknown or known != numel:
        raise RuntimeError(f"{verb}: the batch size {sizes} is invalid for {numel} items")
    return Size(sizes)


def view(td: C, *shape: int | Sequence[int]) -> C:
    """The same memory with another batch size; one size may be -1.

    Raises:
        RuntimeError: an entry's memory doesn't allow it; use :func:`reshape`.
    """
    return _reform(td, sizes_of(shape), Tensor.view, "view")


def reshape(td: C, *shape: int | Sequence[int]) -> C:
    """Another batch size, as a view where memory allows and as a copy elsewhere; one size may be -1."""
    return _reform(td, sizes_of(shape), Tensor.reshape, "reshape")


def _reform(td: C, sizes: tuple[int, ...], verb: Callable[..., Tensor], name: str) -> C:
    old = td.batch_size
    dims = len(old)
    new = solve(sizes, old.numel(), name)
    rename = list if new == old else None
    return map_batch(td, lambda v: verb(v, new + v.shape[dims:]), new, rename)


def flatten(td: C, start_dim: int = 0, end_dim: int = -1) -> C:
    """Join the batch dimensions from ``start_dim`` to ``end_dim`` into one."""
    old = td.batch_size
    if not old:
        return reshape(td, 1)
    start = real_dim(start_dim, len(old), "flatten")
    end = real_dim(end_dim, len(old), "flatten")
    if end < start:
        raise ValueError(f"flatten: start_dim must not come after end_dim, got {start_dim} and {end_dim}")
    size = Size((*old[:start], old[start : end + 1].numel(), *old[end + 1 :]))
    return map_batch(
        td,
        lambda v: v.flatten(start, end),
        size,
        lambda names: names if start == end else [*names[:start], None, *names[end + 1 :]],
    )


def unflatten(td: C, dim: int, unflattened_size: Sequence[int]) -> C:
    """Split batch dimension ``dim`` into several; one size may be -1."""
    old = td.batch_size
    dim = real_dim(dim, len(old), "unflatten")
    sizes = solve(tuple(unflattened_size), old[dim], "unflatten")
    return map_batch(
        td,
        lambda v: v.unflatten(dim, sizes),
        Size((*old[:dim], *sizes, *old[dim + 1 :])),
        lambda names: [*names[:dim], *[None] * len(sizes), *names[dim + 1 :]],
    )


def permute(td: C, *dims: int | Sequence[int]) -> C:
    """The batch dimensions in another order."""
    old = td.batch_size
    count = len(old)
    order = tuple(real_dim(dim, count, "permute") for dim in sizes_of(dims))
    if sorted(order) != list(range(count)):
        raise ValueError(f"permute: expected each of the {count} batch dimensions once, got {sizes_of(dims)}")
    return map_batch(
        td,
        lambda v: v.permute(order + tuple(range(count, v.ndim))),
        Size([old[dim] for dim in order]),
        lambda names: [names[dim] for dim in order],
    )


def transpose(td: C, dim0: int, dim1: int) -> C:
    """Swap two batch dimensions."""
    order = list(range(len(td.batch_size)))
    dim0, dim1 = real_dim(dim0, len(order), "transpose"), real_dim(dim1, len(order), "transpose")
    order[dim0], order[dim1] = dim1, dim0
    return permute(td, order)


def squeeze(td: C, dim: int | None = None) -> C:
    """Drop batch dimension ``dim`` if its size is 1; without ``dim``, every one of size 1."""
    old = td.batch_size
    dims = range(len(old)) if dim is None else [real_dim(dim, len(old), "squeeze")]
    gone = tuple(i for i in dims if old[i] == 1)
    kept = [i for i in range(len(old)) if i not in gone]
    return map_batch(
        td, lambda v: v.squeeze(gone), Size([old[i] for i in kept]), lambda names: [names[i] for i in kept]
    )


def unsqueeze(td: C, dim: int) -> C:
    """A new batch dimension of size 1 at ``dim``; a negative ``dim`` counts from behind the last."""
    old = td.batch_size
    dim = real_dim(dim, len(old) + 1, "unsqueeze")
    return map_batch(
        td,
        lambda v: v.unsqueeze(dim),
        Size((*old[:dim], 1, *old[dim:])),
        lambda names: [*names[:dim], None, *names[dim:]],
    )


def expand(td: C, *shape: int | Sequence[int]) -> C:
    """Repeat dimensions of size 1, and add leading ones, without copying; -1 keeps a size."""
    old = td.batch_size
    sizes = sizes_of(shape)
    lead = len(sizes) - len(old)
    if lead < 0:
        raise RuntimeError(f"expand: {sizes} has fewer dimensions than the batch size {tuple(old)}")
    full = [old[i - lead] if size == -1 and i >= lead else size for i, size in enumerate(sizes)]
    for have, want in zip((*[1] * lead, *old), full, strict=True):
        if have not in {1, want} or want < 0:
            raise RuntimeError(f"expand: cannot expand the batch size {tuple(old)} to {sizes}")
    new = Size(full)
    dims = len(old)
    return map_batch(
        td, lambda v: v.expand(new + v.shape[dims:]), new, lambda names: [*[None] * lead, *names]
    )


def contiguous(td: C) -> C:
    """The same with each entry contiguous in memory; those that are stay the same objects."""
    return map_batch(td, Tensor.contiguous, td.batch_size, list)


def is_contiguous(td: Container) -> bool:
    """Whether each entry is contiguous in memory."""
    return all(leaf.is_contiguous() for leaf in td._leaves())


# --- cutting


def unbind(td: C, dim: int = 0) -> tuple[C, ...]:
    """The collections along batch dimension ``dim``, as views."""
    old = td.batch_size
    dim = real_dim(dim, len(old), "unbind")
    size = Size((*old[:dim], *old[dim + 1 :]))
    return tuple(
        cut(td, lambda v: v.unbind(dim), [size] * old[dim], lambda names: [*names[:dim], *names[dim + 1 :]])
    )


def split(td: C, split_size: int | Sequence[int], dim: int = 0) -> tuple[C, ...]:
    """Views of ``split_size`` items each along ``dim`` (the last may be shorter), or of the sizes in a list.

    Raises:
        ValueError: a size is not positive, or the sizes of a list do not add up.
    """
    old = td.batch_size
    dim = real_dim(dim, len(old), "split")
    total = old[dim]
    if isinstance(split_size, int):
        if split_size <= 0:
            raise ValueError(f"split: split_size must be positive, got {split_size}")
        count, rest = divmod(total, split_size)
        batch_sizes = [_resized(old, dim, split_size)] * count
        if rest or not count:
            batch_sizes.append(_resized(old, dim, rest))
    else:
        if sum(split_size) != total or min(split_size, default=0) < 0:
            raise ValueError(f"split: sizes must be 0 or more and add up to {total}, got {list(split_size)}")
        batch_sizes = [_resized(old, dim, size) for size in split_size]
    return tuple(cut(td, lambda v: v.split(split_size, dim), batch_sizes, list))


def _resized(size: Size, dim: int, items: int) -> Size:
    """``size`` with ``items`` along ``dim``."""
    return Size((*size[:dim], items, *size[dim + 1 :]))


def chunk(td: C, chunks: int, dim: int = 0) -> tuple[C, ...]:
    """At most ``chunks`` views of equal size along ``dim`` (the last may be shorter)."""
    if chunks <= 0:
        raise ValueError(f"chunk: chunks must be positive, got {chunks}")
    total = td.batch_size[real_dim(dim, len(td.batch_size), "chunk")]
    return split(td, -(-total // chunks) if total else [0] * chunks, dim)


def cut(
    td: C,
    verb: Callable[[Tensor], Sequence[Tensor]],
    batch_sizes: Sequence[Size],
    rename: Callable[[Names], Names],
) -> list[C]:
    """Apply ``verb``, which takes a tensor to several of these batch sizes, and turn the columns into rows."""
    return _cut(td, verb, len(td.batch_size), batch_sizes, rename)


def _cut(
    td: C,
    verb: Callable[[Tensor], Sequence[Tensor]],
    dims: int,
    new: Sequence[Size],
    rename: Callable[[Names], Names],
) -> list[C]:
    old, names = td.batch_size, td._names
    sizes = new if len(old) == dims else [Size((*size, *old[dims:])) for size in new]
    keys: list[str] = []
    columns: list[Sequence[Any]] = []
    for key, value in td._entries().items():
        keys.append(key)
        if isinstance(value, Tensor):
            columns.append(verb(value))
        elif isinstance(value, Container):
            columns.append(_cut(value, verb, dims, new, rename))
        else:
            columns.append(value._cut(verb, sizes))
    names = None if names is None else [*rename(names[:dims]), *names[dims:]]
    rows = zip(*columns, strict=True) if keys else [()] * len(sizes)
    return td._like_rows(keys, rows, sizes, names)


def gather(td: C, dim: int, index: Tensor) -> C:
    """Pick items along batch dimension ``dim``, one for each element of ``index``.

    Args:
        td: batch size ``[..., N, ...]``.
        dim: the dimension to pick along.
        index: int64 with one dimension for each batch dimension, as :func:`torch.gather` takes it.

    Returns:
        A collection whose batch size is the shape of ``index``.
    """
    dims = len(td.batch_size)
    dim = real_dim(dim, dims, "gather")
    if index.ndim != dims:
        raise RuntimeError(
            f"gather: index must have the {dims} batch dimensions, got shape {tuple(index.shape)}"
        )

    def pick(value: Tensor) -> Tensor:
        extra = value.shape[dims:]
        wide = index.reshape(index.shape + (1,) * len(extra)).expand(index.shape + extra)
        return value.gather(dim, wide)

    return map_batch(td, pick, index.shape, list)


def numel(td: Container) -> int:
    """How many items the batch has (1 for an empty batch size)."""
    return max(1, td.batch_size.numel())
