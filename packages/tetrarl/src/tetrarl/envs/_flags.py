"""Done flags and partial resets: completing the flags, choosing what to reset, merging what was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from tetradict import NestedKey, TensorDict, TensorDictBase
from torch import Tensor

from tetrarl.data import Composite

FLAGS = ("done", "terminated", "truncated")
MASK = "_reset"

Place = tuple[str, ...]


def places(done_keys: Iterable[NestedKey]) -> list[Place]:
    """Where flags stand: ``()`` is the root, ``("agents",)`` a nested collection."""
    return list(dict.fromkeys(() if isinstance(key, str) else key[:-1] for key in done_keys))


def complete_spec(spec: Composite) -> Composite:
    """Add the specs of the flags that are lacking beside those that are there, on every level."""
    present = [spec[name] for name in FLAGS if name in spec.keys()]
    for name in FLAGS:
        if present and name not in spec.keys():
            spec[name] = present[0].clone()
    for leaf in spec.values():
        if isinstance(leaf, Composite):
            complete_spec(leaf)
    return spec


def complete(td: TensorDictBase, done_spec: Composite, where: Sequence[Place], after_reset: bool) -> None:
    """Derive the flags that an environment left out, in place: done is terminated or truncated.

    After a reset, a place without any flag gets all of them unset.

    Raises:
        KeyError: a step gave no flag at all.
    """
    for place in where:
        flags = [td.get((*place, name)) for name in FLAGS]
        if all(flag is not None and flag.ndim > td.ndim for flag in flags):
            continue
        done, terminated, truncated = (
            None if flag is None else _with_own_dim(flag, td.ndim) for flag in flags
        )
        if done is terminated is truncated is None:
            if not after_reset:
                raise KeyError(
                    f"step: _step must give one of {FLAGS} at {place or 'the root'}, got none of them"
                )
            shape = done_spec[(*place, "done")].shape
            done = torch.zeros(*td.batch_size, *shape[done_spec.ndim :], dtype=torch.bool, device=td.device)
        if truncated is None:
            truncated = torch.zeros_like(done if done is not None else terminated)
            if done is not None and terminated is not None:
                truncated = done & ~terminated
        if terminated is None:
            terminated = torch.zeros_like(truncated) if done is None else done & ~truncated
        if done is None:
            done = terminated | truncated
        for name, flag in zip(FLAGS, (done, terminated, truncated), strict=True):
            td.set((*place, name), flag)


def _with_own_dim(flag: Tensor, batch_dims: int) -> Tensor:
    return flag.unsqueeze(-1) if flag.ndim == batch_dims else flag


def any_done(td: TensorDictBase, where: Sequence[Place]) -> bool:
    """Whether any episode in ``td`` is over."""
    return any(bool(td[(*place, "done")].any()) for place in where)


def mark(td: TensorDictBase, where: Sequence[Place]) -> TensorDictBase:
    """Mark the episodes that are over for a reset, in place, under the key ``"_reset"``."""
    for place in where:
        td.set((*place, MASK), td[(*place, "done")].clone())
    return td


def masks_of(td: TensorDictBase | None, where: Sequence[Place]) -> dict[Place, Tensor]:
    """The reset masks in ``td``, by place; none means that all is reset."""
    found = {} if td is None else {place: td.get((*place, MASK)) for place in where}
    return {place: mask for place, mask in found.items() if mask is not None}


def merge(fresh: TensorDictBase, before: TensorDictBase, masks: dict[Place, Tensor]) -> TensorDict:
    """``fresh`` where the masks say so, ``before`` elsewhere; an entry that ``before`` lacks is ``fresh`` throughout."""
    return TensorDict.trusted(_merge(fresh, before, masks, None), fresh.batch_size, fresh.device)


def _merge(
    fresh: TensorDictBase, before: TensorDictBase, masks: dict[Place, Tensor], mask: Tensor | None
) -> dict[str, Any]:
    mask = masks.get((), mask)
    out = {}
    for key in fresh.keys():
        new, old = fresh.get(key), before.get(key)
        if isinstance(new, TensorDictBase) and isinstance(old, TensorDictBase):
            below = {place[1:]: at for place, at in masks.items() if place[:1] == (key,)}
            new = TensorDict.trusted(_merge(new, old, below, mask), new.batch_size, new.device)
        elif isinstance(new, Tensor) and isinstance(old, Tensor) and mask is not None:
            rows = mask.flatten(fresh.ndim).any(-1) if mask.ndim > new.ndim else mask[..., 0]
            new = torch.where(rows.reshape(*rows.shape, *(1,) * (new.ndim - rows.ndim)), new, old)
        out[key] = new
    return out
