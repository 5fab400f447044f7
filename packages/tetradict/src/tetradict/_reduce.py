"""Reductions over batch dimensions, or over everything."""

from collections.abc import Callable
from typing import TypeVar

from torch import Size, Tensor

from tetradict._protocol import Container, real_dim
from tetradict._shape import map_batch

C = TypeVar("C", bound=Container)


def all_(td: C, dim: int | None = None) -> C | bool:
    """Whether every element is true: one bool, or with ``dim`` a collection reduced along that batch dimension."""
    if dim is None:
        return all(bool(leaf.all()) for leaf in td._leaves())
    return along(td, Tensor.all, dim, "all")


def any_(td: C, dim: int | None = None) -> C | bool:
    """Whether an element is true: one bool, or with ``dim`` a collection reduced along that batch dimension."""
    if dim is None:
        return any(bool(leaf.any()) for leaf in td._leaves())
    return along(td, Tensor.any, dim, "any")


def along(td: C, function: Callable[..., Tensor], dim: int, name: str) -> C:
    """Reduce each tensor along batch dimension ``dim``."""
    old = td.batch_size
    dim = real_dim(dim, len(old), name)
    return map_batch(
        td,
        lambda leaf: function(leaf, dim),
        Size((*old[:dim], *old[dim + 1 :])),
        lambda names: [*names[:dim], *names[dim + 1 :]],
    )
