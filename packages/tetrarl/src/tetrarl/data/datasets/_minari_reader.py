"""Looks transitions up in a Minari file, to compare what was converted with what is there.

It shares no row arithmetic with the converter: each entry is found in the file by its own plain rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tetrarl.data.datasets._hdf5_rows import dataset_rows, import_h5py
from tetrarl.data.datasets._minari_hdf5 import entry_name, subspace
from tetrarl.data.datasets._raw import Key
from tetrarl.data.datasets._source import EpisodeReader


@contextmanager
def minari_reader(path: Path, metadata: Mapping[str, Any]) -> Iterator[EpisodeReader]:
    """An open file as a function of episode number and steps; see :class:`EpisodeReader`."""
    with import_h5py().File(path, "r") as file:
        groups = {int(name.rpartition("_")[2]): name for name in file}
        yield lambda number, steps: _transitions(file[groups[number]], steps, metadata)


def _transitions(group: Any, steps: np.ndarray, metadata: Mapping[str, Any]) -> dict[Key, np.ndarray]:
    moves = len(group["rewards"])
    terminated, truncated = group["terminations"][()] != 0, group["truncations"][()] != 0
    ends_open = not (terminated[moves - 1] or truncated[moves - 1])
    cut = (steps == moves - 1) & ends_open
    found: dict[Key, np.ndarray] = {
        ("next", "reward"): group["rewards"][()].reshape(moves, -1)[steps],
        ("next", "terminated"): terminated[steps].reshape(-1, 1),
        ("next", "truncated"): (truncated[steps] | cut).reshape(-1, 1),
        ("next", "done"): (terminated[steps] | truncated[steps] | cut).reshape(-1, 1),
    }
    for flag in ("done", "terminated", "truncated"):
        found[flag,] = np.zeros((len(steps), 1), bool)
    for key, rows in _decoded(group["actions"], ("action",), metadata.get("action_space")):
        found[key] = rows[steps]
    for key, rows in _decoded(group["observations"], ("observation",), metadata.get("observation_space")):
        found[key], found["next", *key] = rows[steps], _rows_or_zeros(rows, steps + 1)
    for key, rows in _decoded(group["infos"], ("info",), None) if "infos" in group else ():
        before = steps - (len(rows) == moves)  # as many as moves: the reset's is missing
        found[key], found["next", *key] = _rows_or_zeros(rows, before), _rows_or_zeros(rows, before + 1)
    return {key: rows.astype(rows.dtype.newbyteorder("="), copy=False) for key, rows in found.items()}


def _rows_or_zeros(rows: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Rows by position, zeros for a position before the first or after the last."""
    there = (steps >= 0) & (steps < len(rows))
    found = np.zeros((len(steps), *rows.shape[1:]), rows.dtype)
    found[there] = rows[steps[there]]
    return found


def _decoded(node: Any, key: Key, space: Any) -> Iterator[tuple[Key, np.ndarray]]:
    """Every dataset below a node, whole."""
    if hasattr(node, "keys"):
        for name in node:
            yield from _decoded(node[name], (*key, entry_name(name)), subspace(space, name))
    else:
        yield key, np.asarray(dataset_rows(node.id, node.name, space)[:])
