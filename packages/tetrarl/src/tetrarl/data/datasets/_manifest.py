"""What a collection on disk holds, written beside it when it is complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

FORMAT = 1
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True)
class Manifest:
    """Rows, episodes and checksums of a collection.

    Args:
        dataset_id: what it was imported as.
        source: what it was imported from, as the importer describes it; compared on the next opening.
        rows: in all.
        numbers: the source's number of each episode, in the order of the rows.
        lengths: rows of each episode, in the same order.
        without_next: positions, in that order, of episodes whose last next observation the source doesn't hold.
        files: size and sha256 of each file, by its path inside the collection.
    """

    dataset_id: str
    source: dict[str, Any]
    rows: int
    numbers: tuple[int, ...]
    lengths: tuple[int, ...]
    without_next: tuple[int, ...]
    files: dict[str, dict[str, Any]]

    def write(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps({"format": FORMAT, **asdict(self)}))

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read what :meth:`write` wrote.

        Raises:
            ValueError: it is not a manifest, is one of another format, or its counts contradict each other.
        """
        try:
            found = json.loads(path.read_text())
            if found.pop("format") != FORMAT:
                raise ValueError(f"another format than {FORMAT}")
            lists = {
                name: tuple(map(int, found.pop(name))) for name in ("numbers", "lengths", "without_next")
            }
            manifest = cls(**found, **lists)
            if manifest.rows != sum(manifest.lengths) or len(manifest.numbers) != len(manifest.lengths):
                raise ValueError("its counts of rows and episodes contradict each other")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{path}: not a manifest this version reads ({error}); delete its folder"
            ) from error
        return manifest


def checksums(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and sha256 of every file below a folder, by its path inside it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with ThreadPoolExecutor(max(1, torch.get_num_threads())) as pool:
        found = pool.map(_checksum, files)
        return {path.relative_to(folder).as_posix(): row for path, row in zip(files, found, strict=True)}


def differing_file(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The first file that is missing, unexpected or differs from its size and sha256, said in words."""
    found = checksums(folder)
    for name in sorted({*files, *found}):
        if name not in found:
            return f"{name} is missing"
        if name not in files:
            return f"{name} is not in the manifest"
        for fact in ("bytes", "sha256"):
            if found[name][fact] != files[name][fact]:
                return f"{name} has {fact} {found[name][fact]}, the manifest says {files[name][fact]}"
    return None


def _checksum(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}
