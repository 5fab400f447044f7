"""Reads the HDF5 files that Minari writes: one group an episode, its rows read only when sliced.

Source: the layout that minari 0.5 writes (``main_data.hdf5`` beside ``metadata.json``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tetrarl.data.datasets._hdf5_rows import DatasetRows, dataset_rows, import_h5py
from tetrarl.data.datasets._raw import RawEpisode, RowTree, leaves

_GROUP = re.compile(r"episode_(\d+)")
_TUPLE_ITEM = re.compile(r"_index_(\d+)")
_COLUMNS = ("observations", "actions", "rewards", "terminations", "truncations")
_SPACES = ("observation_space", "action_space")
_DEEPEST = 32  # levels of groups; a group may hold a link to itself
_NOT_MINARI = "not a Minari file?"


def read_metadata(path: Path) -> dict[str, Any]:
    """Minari's ``metadata.json``, its spaces decoded; empty when there is no such file."""
    if not path.is_file():
        return {}
    try:
        metadata = json.loads(path.read_text())
        return {**metadata, **{key: json.loads(metadata[key]) for key in _SPACES if key in metadata}}
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: not the metadata of a Minari dataset ({error})") from error


def entry_name(member: str) -> str:
    """The key that a member of a group is kept under: the items of a tuple are called 0, 1, ..."""
    item = _TUPLE_ITEM.fullmatch(member)
    return item.group(1) if item else member


class MinariFile:
    """An open ``main_data.hdf5``.

    It is read through h5py's low-level objects: those of the high level take four times as long to open, and a file
    holds some ten for each episode.

    Args:
        path: of the file.
        metadata: of the dataset, as :func:`read_metadata` gives it; tells encoded frames from plain bytes.

    Raises:
        ValueError: the file is no HDF5 file, or its groups are not named as Minari names them.
    """

    def __init__(self, path: Path, metadata: Mapping[str, Any]) -> None:
        self._h5py = import_h5py()
        self._metadata = metadata
        self.path = path
        try:
            self._file = self._h5py.File(path, "r")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ValueError(f"{path}: not a whole HDF5 file ({error}); fetch or write it again") from error
        try:
            self._root = self._h5py.h5g.open(self._file.id, b"/")
            self.groups = self._episode_groups()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> MinariFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def episodes(self) -> Iterator[RawEpisode]:
        """Every episode by its number. The rows can be read while the file is open."""
        for number in self.groups:
            yield self.episode(number)

    def episode(self, number: int) -> RawEpisode:
        """One episode.

        Raises:
            ValueError: a part is missing, lies elsewhere or is not what Minari writes; names file and group.
        """
        name = self.groups[number]
        where = f"{self.path}: {name}"
        group = self._open(self._root, name, where)
        if not isinstance(group, self._h5py.h5g.GroupID):
            raise ValueError(f"{where}: expected a group, found a dataset")
        members = self._members(group, where)
        if missing := [column for column in _COLUMNS if column not in members]:
            raise ValueError(f"{where}: {', '.join(missing)} missing; found {sorted(members)}")
        spaces = dict(zip(_COLUMNS, (self._metadata.get(key) for key in _SPACES), strict=False))
        parts = {column: self._tree(group, column, where, spaces.get(column)) for column in _COLUMNS}
        info = self._tree(group, "infos", where, None) if "infos" in members else {}
        for column, part in parts.items():
            if column in _COLUMNS[2:] and not isinstance(part, DatasetRows):
                raise ValueError(f"{where}/{column}: expected a dataset of numbers")
            if not any(leaves(part)):
                raise ValueError(f"{where}/{column}: an empty group; expected rows")
        if not isinstance(info, Mapping):
            raise ValueError(f"{where}/infos: expected a group, found a dataset")
        observation, action, reward, terminated, truncated = parts.values()
        return RawEpisode(
            "T+1", observation, action, reward, terminated, truncated, info, number=number, where=where
        )

    def _episode_groups(self) -> dict[int, str]:
        """Group names by episode number, in its order: the file lists them as text, 10 before 2."""
        found: dict[int, str] = {}
        for name in self._members(self._root, str(self.path)):
            match = _GROUP.fullmatch(name)
            if match is None:
                raise ValueError(f"{self.path}: {name!r} is not called 'episode_<number>'; {_NOT_MINARI}")
            number = int(match.group(1))
            if number in found:
                raise ValueError(
                    f"{self.path}: {found[number]!r} and {name!r} are the same episode; {_NOT_MINARI}"
                )
            found[number] = name
        if not found:
            raise ValueError(f"{self.path}: holds no group 'episode_<number>'; {_NOT_MINARI}")
        return dict(sorted(found.items()))

    def _members(self, group: Any, where: str) -> list[str]:
        """Names of a group's members, all of which lie in this very file: links to elsewhere are not followed."""
        links: list[tuple[bytes, int]] = []
        try:
            group.links.iterate(lambda name, info: links.append((name, info.type)), info=True)
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{where}: can't be read ({error})") from error
        for name, kind in links:
            if kind != self._h5py.h5l.TYPE_HARD:
                raise ValueError(
                    f"{where}: {name.decode()!r} is a link to somewhere else; expected data of this file"
                )
        return [name.decode() for name, _ in links]

    def _open(self, group: Any, name: str, where: str) -> Any:
        try:
            return self._h5py.h5o.open(group, name.encode())
        except (OSError, RuntimeError, KeyError) as error:
            raise ValueError(f"{where}: {name!r} can't be read ({error})") from error

    def _tree(self, group: Any, name: str, where: str, space: Any) -> RowTree:
        node, inner = self._open(group, name, where), f"{where}/{name}"
        if isinstance(node, self._h5py.h5d.DatasetID):
            return dataset_rows(node, inner, space)
        if not isinstance(node, self._h5py.h5g.GroupID):
            raise ValueError(f"{inner}: expected a group or a dataset, found {type(node).__name__}")
        if inner.count("/") - str(self.path).count("/") > _DEEPEST:
            raise ValueError(f"{inner}: groups within groups without end")
        tree: dict[str, RowTree] = {}
        for child in self._members(node, inner):
            entry = entry_name(child)
            if entry in {".", "..", *tree} or "\\" in entry or "\0" in entry:
                raise ValueError(f"{inner}: {child!r} can't be the name of an entry")
            tree[entry] = self._tree(node, child, inner, subspace(space, child))
        return tree


def subspace(space: Any, member: str) -> Any:
    """The space of a member, where the metadata tells."""
    inner = space.get("subspaces") if isinstance(space, Mapping) else None
    item = _TUPLE_ITEM.fullmatch(member)
    if isinstance(inner, list) and item:
        inner = dict(enumerate(inner))
        return inner.get(int(item.group(1)))
    return inner.get(member) if isinstance(inner, Mapping) else None
