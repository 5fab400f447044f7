"""Checks a collection against its manifest, the rules of its format and the files it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tetradict import TensorDictBase
from torch import Tensor

from tetrarl.data.datasets._manifest import Manifest, differing_file
from tetrarl.data.datasets._raw import Key
from tetrarl.data.datasets._source import EpisodeReader, Source

_FLAGS = ("done", "terminated", "truncated")


@dataclass(frozen=True)
class Verification:
    """What was compared and found equal.

    Args:
        rows: transitions.
        episodes: that these belong to.
        files: whose size and checksum were compared.
        entries: that were compared with the source's files; none when these are gone or changed.
    """

    rows: int
    episodes: int
    files: int
    entries: tuple[str, ...]


def verify_batch(batch: TensorDictBase, manifest: Manifest, source: Source) -> Verification:
    """Compare the rows of a batch, found by its ``index``, with the source's files."""
    arrays = _arrays(batch)
    index = arrays.pop(("index",), None)
    if index is None:
        raise ValueError(f"verify: the batch has no entry 'index'; it holds {sorted(map('/'.join, arrays))}")
    index = index.reshape(-1)
    if index.size and not 0 <= index.min() <= index.max() < manifest.rows:
        raise ValueError(f"verify: index {index.min()} to {index.max()} of {manifest.rows} rows")
    lengths = np.asarray(manifest.lengths)
    stops = lengths.cumsum()
    position = np.searchsorted(stops, index, side="right")
    compared: set[Key] = set()
    with source.reader() as read:
        for episode in np.unique(position):
            rows = np.flatnonzero(position == episode)
            steps = index[rows] - (stops - lengths)[episode]
            found = {
                key: array.reshape(len(index), *array.shape[batch.ndim :])[rows]
                for key, array in arrays.items()
            }
            compared |= _compare_episode(found, manifest.numbers[episode], steps, read, manifest.dataset_id)
    return Verification(len(index), len(np.unique(position)), 0, tuple(sorted(map("/".join, compared))))


def verify_collection(
    folder: Path, manifest: Manifest, data: TensorDictBase, source: Source | None
) -> Verification:
    """Compare all that a collection holds; see :meth:`BaseDatasetExperienceReplay.verify`."""
    if differing := differing_file(folder, manifest.files):
        raise ValueError(f"{folder}: {differing}; delete the folder to convert again")
    arrays = _arrays(data)
    _check_format(arrays, manifest)
    compared: set[Key] = set()
    if source is not None:
        with source.reader() as read:
            start = 0
            for number, length in zip(manifest.numbers, manifest.lengths, strict=True):
                found = {key: array[start : start + length] for key, array in arrays.items()}
                compared |= _compare_episode(found, number, np.arange(length), read, manifest.dataset_id)
                start += length
    entries = tuple(sorted(map("/".join, compared)))
    return Verification(manifest.rows, len(manifest.lengths), len(manifest.files), entries)


def _compare_episode(
    found: Mapping[Key, np.ndarray], number: int, steps: np.ndarray, read: EpisodeReader, dataset_id: str
) -> set[Key]:
    """Compare rows with those of the source; returns the entries that both have."""
    wanted = {**read(number, steps), ("episode",): np.full(len(steps), number, np.int64)}
    common = found.keys() & wanted.keys()
    if not common:
        raise ValueError(f"verify: nothing to compare: the rows hold {sorted(map('/'.join, found))}")
    for key in sorted(common):
        ours, theirs = found[key], _padded(wanted[key], found[key].shape)
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            raise ValueError(
                f"{dataset_id}: {'/'.join(key)} is {ours.dtype} of shape {ours.shape}, in the file "
                f"{theirs.dtype} of shape {theirs.shape}"
            )
        row = _first_difference(ours, theirs)
        if row is not None:
            raise ValueError(
                f"{dataset_id}: {'/'.join(key)} differs from the file at episode {number}, step {steps[row]}: "
                f"{ours[row]!r} here, {theirs[row]!r} in the file"
            )
    return common


def _check_format(arrays: Mapping[Key, np.ndarray], manifest: Manifest) -> None:
    lengths = np.asarray(manifest.lengths)
    stops = lengths.cumsum()
    for flag in _FLAGS:
        if (set_ := np.flatnonzero(arrays[flag,])).size:
            raise ValueError(
                f"{manifest.dataset_id}: root {flag} is True at row {set_[0]}; expected False everywhere"
            )
    last = stops[lengths > 0] - 1
    if (open_ := np.flatnonzero(~arrays["next", "done"].reshape(-1)[last])).size:
        raise ValueError(f"{manifest.dataset_id}: an episode ends at row {last[open_[0]]}, which is not done")
    start = 0
    for number, length in zip(manifest.numbers, manifest.lengths, strict=True):
        rows = slice(start, start + length)
        if (arrays["episode",][rows] != number).any():
            raise ValueError(
                f"{manifest.dataset_id}: rows {start} to {start + length} are not all of episode {number}"
            )
        for key, array in arrays.items():
            if key[0] in {"observation", "info"}:
                row = _first_difference(arrays["next", *key][rows][:-1], array[rows][1:])
                if row is not None:
                    raise ValueError(
                        f"{manifest.dataset_id}: next/{'/'.join(key)} of row {start + row} is not the "
                        f"{'/'.join(key)} of the row after it, in the same episode"
                    )
        start += length


def _first_difference(left: np.ndarray, right: np.ndarray) -> int | None:
    """The first row whose bytes differ."""
    if left.size == 0:
        return None
    left, right = (
        np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8) for array in (left, right)
    )
    if np.array_equal(left, right):
        return None
    return int(np.flatnonzero((left != right).any(1))[0])


def _padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Text rows with zeros up to the width that the widest of the dataset gave them."""
    if array.dtype != np.uint8 or array.ndim != 2 or len(shape) != 2 or array.shape[1] >= shape[1]:
        return array
    return np.pad(array, ((0, 0), (0, shape[1] - array.shape[1])))


def _arrays(data: TensorDictBase) -> dict[Key, np.ndarray]:
    return {
        (key if isinstance(key, tuple) else (key,)): _plain(value).numpy()
        for key, value in data.items(include_nested=True, leaves_only=True)
    }


def _plain(value: Tensor) -> Tensor:
    return value.detach().as_subclass(torch.Tensor).cpu()
