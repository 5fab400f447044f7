"""Writes episodes into a memory-mapped collection exactly once: count, allocate, fill, seal, rename."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tetradict import TensorDict
from tqdm import tqdm

from tetrarl.data.datasets._manifest import Manifest, checksums
from tetrarl.data.datasets._raw import Key, RawEpisode
from tetrarl.data.datasets._ted import Layout, ted_arrays, ted_layout

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

DATA, MANIFEST = "data", "manifest.json"
_UNFINISHED = ".unfinished-"


def write_collection(
    folder: Path, dataset_id: str, source: dict[str, Any], episodes: Callable[[], Iterable[RawEpisode]]
) -> None:
    """Convert episodes to transitions in ``folder``, which appears when all is written.

    Args:
        folder: to make; its parents are made too.
        dataset_id: for the manifest and the progress bar.
        source: for the manifest; JSON.
        episodes: gives the episodes; called twice, once to count and once to fill.

    Raises:
        ValueError: no episode holds a row, or an episode differs from the first in its entries.
        OSError: the disk has less room than the rows need.
    """
    plan = _count(episodes())
    if not plan.rows:
        raise ValueError(f"{dataset_id}: {source}: holds no transition")
    with _unfinished(folder) as scratch:
        _check_room(scratch, plan, dataset_id)
        _fill(_allocate(plan, scratch / DATA), plan, episodes(), dataset_id)
        manifest = Manifest(
            dataset_id=dataset_id,
            source=source,
            rows=plan.rows,
            numbers=tuple(plan.numbers),
            lengths=tuple(plan.lengths),
            without_next=tuple(plan.without_next),
            files=checksums(scratch / DATA),
        )
        manifest.write(scratch / MANIFEST)
        # Read only, so that what is written into a view of the data stays in the process that writes it.
        for name in manifest.files:
            (scratch / DATA / name).chmod(0o444)


@dataclass
class _Plan:
    """What counting found."""

    leaves: dict[Key, tuple[tuple[int, ...], np.dtype]]
    numbers: list[int]
    lengths: list[int]
    without_next: list[int]

    @property
    def rows(self) -> int:
        return sum(self.lengths)

    @property
    def row_bytes(self) -> int:
        return sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in self.leaves.values())


def _count(episodes: Iterable[RawEpisode]) -> _Plan:
    plan, first = _Plan({}, [], [], []), ""
    for position, episode in enumerate(episodes):
        layout = ted_layout(episode)
        if not first:
            first, plan.leaves = episode.where, dict(layout.leaves)
        _agree(plan, layout, first, episode.where)
        plan.numbers.append(episode.number)
        plan.lengths.append(layout.length)
        if layout.length and not layout.next_known:
            plan.without_next.append(position)
    return plan


def _agree(plan: _Plan, layout: Layout, first: str, where: str) -> None:
    """Every episode has the entries of the first; a text entry may be wider, and widens them all."""
    if plan.leaves.keys() != layout.leaves.keys():
        differing = sorted("/".join(key) for key in plan.leaves.keys() ^ layout.leaves.keys())
        raise ValueError(
            f"{where}: has other entries than {first}: {', '.join(differing)} in one of them alone"
        )
    for key, (shape, dtype) in layout.leaves.items():
        wanted, wanted_dtype = plan.leaves[key]
        if key in layout.text and len(wanted) == 1:
            wanted = shape = (max(shape[0], wanted[0]),)
            plan.leaves[key] = (shape, wanted_dtype)
        if (shape, dtype) != (wanted, wanted_dtype):
            raise ValueError(
                f"{where}: {'/'.join(key)} has rows of shape {shape}, {dtype}; {first} has {wanted}, {wanted_dtype}"
            )


def _check_room(scratch: Path, plan: _Plan, dataset_id: str) -> None:
    needed, free = plan.rows * plan.row_bytes, shutil.disk_usage(scratch).free
    if needed > free:
        raise OSError(
            f"{dataset_id}: needs {needed} bytes in {scratch.parent}, where {free} are free; pass root= elsewhere"
        )


def _allocate(plan: _Plan, folder: Path) -> dict[Key, np.ndarray]:
    """Memory maps for all rows, in the folder layout of tetradict."""
    nested: dict = {}
    for key, (shape, dtype) in plan.leaves.items():
        node = nested
        for name in key[:-1]:
            node = node.setdefault(name, {})
        node[key[-1]] = torch.from_numpy(np.zeros((1, *shape), dtype)).expand(plan.rows, *shape)
    mapped = TensorDict(nested, batch_size=[plan.rows]).memmap_like(folder)
    return {key: mapped[key].numpy() for key in plan.leaves}


def _fill(maps: dict[Key, np.ndarray], plan: _Plan, episodes: Iterable[RawEpisode], dataset_id: str) -> None:
    row, lengths = 0, iter(plan.lengths)
    with tqdm(total=plan.rows, unit=" rows", desc=dataset_id, disable=None, leave=False) as bar:
        for episode in episodes:
            arrays = ted_arrays(episode)
            length = next(lengths, None)
            if length != len(arrays["episode",]):
                raise ValueError(f"{episode.where}: changed while it was read; open the dataset again")
            for key, array in arrays.items():
                target = maps[key][row : row + length]
                if target.shape != array.shape:  # text narrower than the widest
                    target = target[:, : array.shape[1]]
                target[...] = array
            row += length
            bar.update(length)
    if row != plan.rows:
        raise ValueError(f"{dataset_id}: episodes went missing while it was read; open the dataset again")


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A hidden folder beside ``folder`` that takes its name when the block ends well, and is removed otherwise.

    If another process finished ``folder`` meanwhile, its work stands and ours is dropped.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder.parent)
    name = uuid.uuid4().hex
    fresh, scratch = folder.parent / f".new-{name}", folder.parent / f"{_UNFINISHED}{name}"
    fresh.mkdir()
    lock = _lock(fresh)
    fresh.rename(scratch)  # locked before it bears the name that others look for
    try:
        yield scratch
        try:
            scratch.rename(folder)
        except OSError:
            if not (folder / MANIFEST).is_file():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    """Remove what a killed process left unfinished: its lock is free."""
    for scratch in parent.glob(f"{_UNFINISHED}*"):
        lock = _lock(scratch)
        if lock is not None:
            shutil.rmtree(scratch, ignore_errors=True)
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """An open, locked descriptor; None where another process holds the lock or the system has no such locks."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
