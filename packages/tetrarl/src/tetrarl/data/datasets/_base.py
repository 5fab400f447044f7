"""The base of the data hub: a read-only buffer over a collection that was written once and can be verified."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import torch
from tetradict import TensorDict, TensorDictBase

from tetrarl.data._buffers import TensorDictReplayBuffer
from tetrarl.data._samplers import Sampler
from tetrarl.data._tensor_storages import TensorStorage
from tetrarl.data._writers import ImmutableDatasetWriter, Writer
from tetrarl.data.datasets._manifest import FORMAT, Manifest
from tetrarl.data.datasets._source import Source
from tetrarl.data.datasets._verify import Verification, verify_batch, verify_collection
from tetrarl.data.datasets._writer import DATA, MANIFEST, write_collection


class BaseDatasetExperienceReplay(TensorDictReplayBuffer):
    """Transitions of a recorded dataset, memory-mapped and read only: the base of the hub's classes.

    The first opening converts the source's files to transitions in ``root/dataset_id``; later ones map what lies
    there. Files that changed since are converted anew. Several processes may open at once: each that finds nothing
    converts, and what is finished first stands.

    Args:
        source: the dataset's files and how to read them, which each class of the hub brings along.
        batch_size: rows of a sample, where ``sample`` is not told.
        root: folder of all datasets of the kind.
        sampler: see :class:`~tetrarl.data.ReplayBuffer`.
        writer: refuses to write when not given.
        collate_fn: see :class:`~tetrarl.data.ReplayBuffer`.
        transform: see :class:`~tetrarl.data.ReplayBuffer`.
        generator: see :class:`~tetrarl.data.ReplayBuffer`.

    Raises:
        FileNotFoundError: neither the source's files nor a converted collection are there.
        ValueError: the source's files are not what they should be; names file and part. Nothing is left behind.
    """

    _kind: ClassVar[str] = "dataset"

    def __init__(
        self,
        source: Source,
        batch_size: int | None = None,
        *,
        root: str | Path | None = None,
        sampler: Sampler | None = None,
        writer: Writer | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.dataset_id = source.dataset_id
        self.root = cache_folder(self._kind) if root is None else Path(root)
        self._source = source
        self._folder = _converted(self.root / source.dataset_id, source)
        self._manifest = Manifest.read(self._folder / MANIFEST)
        super().__init__(
            storage=TensorStorage(_open(self._folder / DATA, self._manifest.rows)),
            sampler=sampler,
            writer=ImmutableDatasetWriter() if writer is None else writer,
            collate_fn=collate_fn,
            transform=transform,
            batch_size=batch_size,
            generator=generator,
        )
        lengths = torch.tensor(self._manifest.lengths)
        self._starts = lengths.cumsum(0) - lengths

    @property
    def data_path(self) -> Path:
        """Folder of the memory-mapped collection, which ``TensorDict.load_memmap`` opens."""
        return self._folder / DATA

    @property
    def num_episodes(self) -> int:
        """Episodes, in the order of the source's numbers."""
        return len(self._manifest.lengths)

    def episode(self, position: int) -> TensorDictBase:
        """The rows of one episode, by its position in the dataset: views of the memory map, ``[T]``.

        Args:
            position: 0 to ``num_episodes - 1``, or negative, from the end.

        Raises:
            IndexError: there is no such episode.
        """
        count = self.num_episodes
        if not -count <= position < count:
            raise IndexError(f"{self.dataset_id}: episode {position} of {count}")
        start = int(self._starts[position])
        return self[start : start + self._manifest.lengths[position]]

    def episodes(self) -> Iterator[TensorDictBase]:
        """Every episode in turn; see :meth:`episode`."""
        return map(self.episode, range(self.num_episodes))

    def verify(self, batch: TensorDictBase | None = None) -> Verification:
        """Check the collection, or the rows of a batch against the very file they came from.

        With a batch, its rows are found by its ``index`` and read again from the source's files, by a reader that
        shares no row arithmetic with the one that wrote the collection, and compared byte by byte. Entries that the
        source doesn't have are passed over.

        Without one, the collection's files are compared with the sizes and checksums of the manifest, its rows with
        the rules of the format (root flags are False, ``next[t] == root[t + 1]`` inside an episode, the last row of
        an episode is done), and all rows with the source's files, if these are still there and unchanged.

        Returns:
            What was checked.

        Raises:
            ValueError: something differs; names the first file, or the entry and the row.
            FileNotFoundError: with a batch, the source's files are gone or have changed.
        """
        if batch is not None:
            self._require_source()
            return verify_batch(batch, self._manifest, self._source)
        source = self._source if self._source_unchanged() else None
        return verify_collection(self._folder / DATA, self._manifest, self._storage.get(...), source)

    def delete(self) -> None:
        """Remove the converted collection from the disk; the source's files stay. The buffer can't be used after."""
        shutil.rmtree(self._folder)

    def _source_unchanged(self) -> bool:
        try:
            return self._source.fingerprint() == self._manifest.source
        except FileNotFoundError:
            return False

    def _require_source(self) -> None:
        if self._source.fingerprint() != self._manifest.source:
            raise FileNotFoundError(
                f"{self.dataset_id}: {self._manifest.source} is no longer what the collection was made from; open it anew"
            )

    def __repr__(self) -> str:
        entries = sorted(
            "/".join(key) if isinstance(key, tuple) else key
            for key in self._storage.get(...).keys(True, True)
        )
        return (
            f"{type(self).__name__}({self.dataset_id!r}, rows={len(self)}, episodes={self.num_episodes}, "
            f"batch_size={self.batch_size},\n    entries={entries},\n    data_path={str(self.data_path)!r})"
        )


def cache_folder(kind: str) -> Path:
    """Where collections of one kind of dataset lie when the caller doesn't say: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tetrarl" / kind


def _converted(parent: Path, source: Source) -> Path:
    """The folder of the finished collection below ``parent``, converted now if it isn't there."""
    try:
        fingerprint = source.fingerprint()
    except FileNotFoundError:
        # The files are gone; what was made from them may still be here.
        fitting = [
            folder for folder, made_from in _finished(parent) if source.options.items() <= made_from.items()
        ]
        if not fitting:
            raise
        return max(fitting, key=os.path.getmtime)
    made_from = json.dumps([FORMAT, fingerprint], sort_keys=True)
    folder = parent / hashlib.sha256(made_from.encode()).hexdigest()[:16]
    if not (folder / MANIFEST).is_file():
        write_collection(folder, source.dataset_id, fingerprint, source.episodes)
        _drop_former(folder, fingerprint)
    return folder


def _finished(parent: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Folders of finished collections that this version reads, and what they were made from."""
    for manifest in parent.glob(f"[!.]*/{MANIFEST}"):
        with contextlib.suppress(ValueError):
            yield manifest.parent, Manifest.read(manifest).source


def _drop_former(folder: Path, fingerprint: dict[str, Any]) -> None:
    """Remove collections made from the same file, with the same options, before it changed."""
    changing = {"bytes", "mtime_ns"}
    stays = {fact: value for fact, value in fingerprint.items() if fact not in changing}.items()
    for other, made_from in list(_finished(folder.parent)):
        if other != folder and stays <= made_from.items():
            shutil.rmtree(other, ignore_errors=True)


def _open(folder: Path, rows: int) -> TensorDictBase:
    """The collection as it lies on the disk, its structure checked against the files."""
    try:
        data = TensorDict.load_memmap(folder)
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(
            f"{folder}: not a whole collection ({error}); delete the folder to convert again"
        ) from error
    if data.batch_size[:1] != torch.Size([rows]):
        raise ValueError(
            f"{folder}: holds {list(data.batch_size)} rows, its manifest says {rows}; delete the folder to convert again"
        )
    return data
