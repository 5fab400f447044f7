"""What becomes of batch size and names when a collection is taken apart and put together by torch's pytree.

``torch.vmap`` takes a dimension away from the leaves as it goes into a function, and adds one to those that come out;
other callers may change shapes as they like. A collection is told neither, so it looks at its leaves.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Size, Tensor

from tetradict._protocol import Container
from tetradict._torch_compat import batched_dim, is_batched, unwrapped


def fixed(size: Size, values: Sequence[Any]) -> Size | int:
    """A batch size as it can be kept apart from the leaves: when traced, only their number, as sizes may be symbols."""
    return len(size) if torch.compiler.is_compiling() and _first(values) is not None else size


def depth_of(values: Sequence[Any]) -> int:
    """How many vmaps the first tensor is inside of (when compiled, at most one: Dynamo can't look further)."""
    leaf, depth = _first(values), 0
    if torch.compiler.is_compiling():
        return int(leaf is not None and is_batched(leaf))
    while leaf is not None and is_batched(leaf):
        leaf, depth = unwrapped(leaf), depth + 1
    return depth


def _first(values: Sequence[Any]) -> Tensor | None:
    for value in values:
        if isinstance(value, Tensor):
            return value
        if isinstance(value, Container):
            leaf = _first(list(value._entries().values()))
            if leaf is not None:
                return leaf
    return None


def resized(
    values: Sequence[Any], size: Size | int, names: list[str | None] | None, depth: int
) -> tuple[Size, list[str | None] | None]:
    """The batch size and names of a collection of new values.

    Args:
        values: the new values of one level.
        size: the old batch size, see fixed.
        names: the old names.
        depth: see depth_of, for the old values.
    """
    leaf = _first(values)
    if leaf is None:
        return Size((0,) * size) if isinstance(size, int) else size, names
    ndim = size if isinstance(size, int) else len(size)
    entered = depth_of([leaf]) - depth
    shape = leaf.shape
    if entered == 0 and shape[:ndim] == size:
        return size, names
    if entered == 0 and shape[1 : ndim + 1] == size:  # vmap repeats what does not depend on its input
        entered = -1
    ndim -= entered
    new = _common(shape[: max(ndim, 0)], values)
    if names is not None:
        if entered > 0:
            gone = 0 if torch.compiler.is_compiling() else batched_dim(leaf)
            names = [*names[:gone], *names[gone + 1 :]]
        elif entered < 0:
            names = [*[None] * -entered, *names]
        names = names[: len(new)]
        if not any(names):
            names = None
    return new, names


def _common(size: Size, values: Sequence[Any]) -> Size:
    """As much of ``size`` as all values begin with."""
    for value in values:
        if isinstance(value, (Tensor, Container)):
            shape = value.shape if isinstance(value, Tensor) else value.batch_size
            while shape[: len(size)] != size:
                size = size[:-1]
    return size
