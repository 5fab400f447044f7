"""Minari's datasets, read from the files that Minari keeps or wrote."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch

from tetrarl.data._samplers import Sampler
from tetrarl.data._writers import Writer
from tetrarl.data.datasets._base import BaseDatasetExperienceReplay
from tetrarl.data.datasets._minari_hdf5 import MinariFile, read_metadata
from tetrarl.data.datasets._minari_reader import minari_reader
from tetrarl.data.datasets._raw import RawEpisode
from tetrarl.data.datasets._source import EpisodeReader

_ID = re.compile(r"(?:[-\w]+/)*[-\w]+")
_MAIN_FILE = "main_data.hdf5"
_METADATA = "metadata.json"


class MinariExperienceReplay(BaseDatasetExperienceReplay):
    """Transitions of a Minari dataset: memory-mapped, read only, verifiable against its file.

    The dataset is looked for where Minari keeps what it downloads or records: ``$MINARI_DATASETS_PATH``, or
    ``~/.minari/datasets``. Neither Minari nor the network is needed. The first opening converts; see
    :class:`~tetrarl.data.datasets.BaseDatasetExperienceReplay` for what lies where.

    A dataset has the entries ``observation``, ``action``, ``done``, ``terminated``, ``truncated``, ``episode`` and
    ``next`` with ``observation``, ``reward``, ``done``, ``terminated``, ``truncated``; ``info`` in both when recorded.
    Dict and Tuple spaces become nested entries (those of a tuple are called ``"0"``, ``"1"``...), text becomes rows
    of UTF-8 bytes (see :func:`~tetrarl.data.datasets.decode_text`), frames kept as JPEG are decoded. Dtypes are the
    file's. An episode that stops without a flag is truncated at its last row. One that lacks its last observation
    has zeros in its place, in a row that is done.

    Args:
        dataset_id: ``namespace/name-vN``.
        batch_size: rows of a sample, where ``sample`` is not told.
        root: folder for converted datasets; ``$XDG_CACHE_HOME/tetrarl/minari`` or ``~/.cache/tetrarl/minari``
            when not given.
        sampler: see :class:`~tetrarl.data.ReplayBuffer`.
        writer: refuses to write when not given.
        collate_fn: see :class:`~tetrarl.data.ReplayBuffer`.
        transform: see :class:`~tetrarl.data.ReplayBuffer`.
        load_from_local_minari: must be True, the default: Minari's own folder is the only place to read from.
        infos: also read what was recorded as ``infos``.
        generator: see :class:`~tetrarl.data.ReplayBuffer`.

    Raises:
        FileNotFoundError: the dataset isn't there; tells which folders were looked at and how to get it.
        ValueError: its file is damaged or not what Minari writes; names file and group, and leaves nothing behind.
        ImportError: h5py is missing.

    Example:
        >>> dataset = MinariExperienceReplay("D4RL/door/human-v2", batch_size=32)  # doctest: +SKIP
        >>> dataset.verify(dataset.sample()).rows  # doctest: +SKIP
        32

    Source: the layout that minari 0.5 writes.
    """

    _kind = "minari"

    def __init__(
        self,
        dataset_id: str,
        batch_size: int | None = None,
        *,
        root: str | Path | None = None,
        sampler: Sampler | None = None,
        writer: Writer | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        load_from_local_minari: bool = True,
        infos: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        if not load_from_local_minari:
            raise ValueError(
                f"MinariExperienceReplay: can't download {dataset_id!r}; run `minari download {dataset_id}` "
                "and leave load_from_local_minari=True"
            )
        super().__init__(
            _MinariSource(dataset_id, _local_file(dataset_id), infos),
            batch_size,
            root=root,
            sampler=sampler,
            writer=writer,
            collate_fn=collate_fn,
            transform=transform,
            generator=generator,
        )

    @classmethod
    def from_files(
        cls, path: str | Path, batch_size: int | None = None, *, infos: bool = True, **options: Any
    ) -> Self:
        """A dataset from a file that lies anywhere.

        Args:
            path: an HDF5 file that Minari wrote, or the folder of a dataset, which holds it as
                ``data/main_data.hdf5`` or ``main_data.hdf5``.
            batch_size: rows of a sample, where ``sample`` is not told.
            infos: also read what was recorded as ``infos``.
            options: ``root``, ``sampler``, ``writer``, ``collate_fn``, ``transform``, ``generator``, as for the class.

        Raises:
            FileNotFoundError: there is no such file or folder.
        """
        given = Path(path).expanduser()
        candidates = [given] if given.is_file() else [given / "data" / _MAIN_FILE, given / _MAIN_FILE]
        file = next((candidate for candidate in candidates if candidate.is_file()), None)
        if file is None:
            raise FileNotFoundError(
                f"MinariExperienceReplay.from_files: no file at {', '.join(map(str, candidates))}"
            )
        file = file.resolve()
        dataset = cls.__new__(cls)
        BaseDatasetExperienceReplay.__init__(
            dataset, _MinariSource(_name_of(file), file, infos), batch_size, **options
        )
        return dataset


class _MinariSource:
    """One ``main_data.hdf5`` and the metadata beside it."""

    def __init__(self, dataset_id: str, path: Path, infos: bool) -> None:
        self.dataset_id = dataset_id
        self.options = {"infos": infos}
        self._path = path

    def fingerprint(self) -> dict[str, Any]:
        """Where the file is, its size and when it was written."""
        if not self._path.is_file():
            raise FileNotFoundError(_not_found(self.dataset_id, self._path))
        facts = self._path.stat()
        return {
            "path": str(self._path),
            "bytes": facts.st_size,
            "mtime_ns": facts.st_mtime_ns,
            **self.options,
        }

    def episodes(self) -> Iterator[RawEpisode]:
        """Every episode by its number."""
        with MinariFile(self._path, self._metadata()) as file:
            for episode in file.episodes():
                yield episode if self.options["infos"] else replace(episode, info={})

    def reader(self) -> AbstractContextManager[EpisodeReader]:
        """The file for comparison."""
        return minari_reader(self._path, self._metadata())

    def _metadata(self) -> dict[str, Any]:
        return read_metadata(self._path.with_name(_METADATA))


def _datasets_folder() -> Path:
    """Where Minari keeps its datasets."""
    folder = os.environ.get("MINARI_DATASETS_PATH")
    return Path(folder) if folder else Path.home() / ".minari" / "datasets"


def _local_file(dataset_id: str) -> Path:
    if not _ID.fullmatch(dataset_id):
        raise ValueError(
            f"MinariExperienceReplay: {dataset_id!r} is no dataset id; expected 'namespace/name-vN'"
        )
    return _datasets_folder().resolve() / dataset_id / "data" / _MAIN_FILE


def _not_found(dataset_id: str, path: Path) -> str:
    kept_as = read_metadata(path.with_name(_METADATA)).get("data_format")
    if kept_as not in {None, "hdf5"}:
        return f"{dataset_id}: {path.parent} keeps its rows as {kept_as}; this version reads data_format='hdf5' alone"
    folder = _datasets_folder()
    here = [file.parent.parent.relative_to(folder).as_posix() for file in folder.rglob(f"data/{_METADATA}")]
    near = difflib.get_close_matches(dataset_id, here, n=3, cutoff=0.4)
    return (
        f"{dataset_id}: no file {path}" + (f"; near it are {near}" if near else "") + f"; to get it, run "
        f"`minari download {dataset_id}`, or set MINARI_DATASETS_PATH (now {folder}) to the folder that holds it"
    )


def _name_of(file: Path) -> str:
    """A name of its own for the collection made from a file."""
    folder = file.parent.parent if file.parent.name == "data" else file.parent
    words = re.sub(r"[^-\w]+", "-", f"{folder.name}-{file.stem}" if file.name != _MAIN_FILE else folder.name)
    return f"files/{words}-{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
