"""gymnasium's spaces as specs, and how their values get into rows of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from tetrarl.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)

Put = Callable[[np.ndarray, int, Any], None]


@dataclass(frozen=True)
class Field:
    """One entry of the observations, and how to write it.

    Attributes:
        key: where it stands in a collection, level by level.
        shape: of one value.
        dtype: of its array.
        put: ``put(array, i, observation)`` writes row i of an array of zeros; ``observation`` is the whole one.
        shape_of: the shape in which the simulator gives the value, for a check.
    """

    key: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    put: Put
    shape_of: Callable[[Any], tuple[tuple[int, ...], tuple[int, ...]]]


def spec_of(space: spaces.Space, categorical: bool, where: str) -> TensorSpec:
    """The spec of a space's values.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of these.
        categorical: write choices as integers, not one-hot.
        where: names the space in an error.

    Raises:
        TypeError: there is no spec for this kind of space.
    """
    if isinstance(space, spaces.Box):
        dtype = torch_dtype(space.dtype)
        if np.isneginf(space.low).all() and np.isposinf(space.high).all():
            return Unbounded(space.shape, "cpu", dtype)
        return Bounded(torch.from_numpy(space.low), torch.from_numpy(space.high), space.shape, "cpu", dtype)
    if isinstance(space, spaces.Discrete):
        n = int(space.n)
        return Categorical(n, (), "cpu") if categorical else OneHot(n, device="cpu", dtype=torch.int64)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        nvec = space.nvec.tolist()
        return (
            MultiCategorical(nvec, device="cpu")
            if categorical
            else MultiOneHot(nvec, None, "cpu", torch.int64)
        )
    if isinstance(space, spaces.MultiBinary):
        return Binary(shape=space.shape, device="cpu")
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return Composite({
            name: spec_of(part, categorical, f"{where}[{name!r}]") for name, part in parts(space)
        })
    raise TypeError(
        f"GymWrapper: {where} is a {space!r}, for which there is no spec; wrap the environment so that it has Box, "
        "Discrete, MultiDiscrete, MultiBinary, Dict or Tuple spaces (gymnasium.wrappers.FlattenObservation, for one)"
    )


def parts(space: spaces.Dict | spaces.Tuple) -> Iterator[tuple[str, spaces.Space]]:
    """The spaces inside, by name; those of a Tuple are called ``"0"``, ``"1"`` and so on."""
    pairs = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    for name, part in pairs:
        yield str(name), part


def torch_dtype(dtype: np.dtype) -> torch.dtype:
    """The torch dtype of the same numbers."""
    return torch.from_numpy(np.empty(0, dtype)).dtype


def fields_of(space: spaces.Space, categorical: bool, key: tuple[str, ...], path: tuple = ()) -> list[Field]:
    """The fields of a space whose spec :func:`spec_of` makes, the value being at ``path`` in an observation."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        pairs = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return [
            field
            for name, part in pairs
            for field in fields_of(part, categorical, (*key, str(name)), (*path, name))
        ]
    pick = picker(path)
    if isinstance(space, spaces.Discrete):
        n, start = int(space.n), int(space.start)
        if categorical:
            return [_field(space, key, (), np.int64, pick, _put_shifted(pick, start))]
        return [_field(space, key, (n,), np.int64, pick, _put_flags(pick, -start))]
    if isinstance(space, spaces.MultiDiscrete):
        nvec = space.nvec
        if categorical:
            return [_field(space, key, nvec.shape, np.int64, pick, _put_shifted(pick, space.start))]
        offsets = np.concatenate([[0], nvec[:-1]]).cumsum() - space.start
        return [_field(space, key, (int(nvec.sum()),), np.int64, pick, _put_flags(pick, offsets))]
    return [_field(space, key, space.shape, space.dtype, pick, _put_value(pick, path))]


def picker(path: Sequence) -> Callable[[Any], Any]:
    """What stands at ``path`` in an observation."""

    def pick(observation: Any) -> Any:
        for name in path:
            observation = observation[name]
        return observation

    return pick


def _field(
    space: spaces.Space, key: tuple[str, ...], shape: tuple, dtype: Any, pick: Callable[[Any], Any], put: Put
) -> Field:
    return Field(
        key, tuple(shape), np.dtype(dtype), put, lambda obs: (np.shape(pick(obs)), tuple(space.shape))
    )


def _put_value(pick: Callable[[Any], Any], path: Sequence) -> Put:
    if not path:
        return np.ndarray.__setitem__

    def put(array: np.ndarray, i: int, observation: Any) -> None:
        array[i] = pick(observation)

    return put


def _put_shifted(pick: Callable[[Any], Any], start: Any) -> Put:
    def put(array: np.ndarray, i: int, observation: Any) -> None:
        array[i] = pick(observation) - start

    return put


def _put_flags(pick: Callable[[Any], Any], offset: Any) -> Put:
    def put(array: np.ndarray, i: int, observation: Any) -> None:
        array[i, pick(observation) + offset] = 1

    return put
