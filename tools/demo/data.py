"""The real data of the demo that no library ships: MovieLens-100k, as it travels inside a package on PyPI."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

FILES = ("ml-100k.inter", "ml-100k.user", "ml-100k.item")
LIMIT_S = 120
ROWS = {"ml-100k.inter": 100_000, "ml-100k.user": 943, "ml-100k.item": 1_682}


class MissingDataError(RuntimeError):
    """An optional download could not be had; the section that wanted it says so and the rest goes on."""


def cache() -> Path:
    """The user's cache folder for the demo."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "tetra-demo" / "ml-100k"


def movielens() -> dict[str, dict[str, np.ndarray]]:
    """Ratings, users and items, each a dict of columns of strings; downloaded once.

    Raises:
        MissingDataError: the files are neither in the cache nor to be had from the package index.
    """
    folder = cache()
    if not all((folder / name).exists() for name in FILES):
        download(folder)
    return {name.partition(".")[2]: read(folder / name) for name in FILES}


def download(folder: Path) -> None:
    """Fetch the wheel and keep its three data files; nothing of it is installed or run."""
    print("  fetching MovieLens-100k (recbole's wheel from the package index), once", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = fetch_wheel(scratch)
        with zipfile.ZipFile(wheel) as archive:
            for name in FILES:
                try:
                    content = archive.read(f"recbole/dataset_example/ml-100k/{name}")
                except KeyError as error:
                    raise MissingDataError(
                        f"{wheel.name} holds no {name}; MovieLens-100k must come from elsewhere."
                    ) from error
                folder.mkdir(parents=True, exist_ok=True)
                part = folder / f"{name}.part"
                part.write_bytes(content)
                part.replace(folder / name)


def fetch_wheel(scratch: str) -> Path:
    """Download the wheel that carries the files."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--disable-pip-version-check",
        "--no-deps",
        "-d",
        scratch,
    ]
    try:
        done = subprocess.run([*command, "recbole"], capture_output=True, text=True, timeout=LIMIT_S)
        reason = (done.stderr.strip().splitlines() or ["no wheel came"])[-1][:160]
    except subprocess.TimeoutExpired:
        reason = f"no answer in {LIMIT_S} s"
    wheel = next(Path(scratch).glob("recbole-*.whl"), None)
    if wheel is None:
        raise MissingDataError(
            f"MovieLens-100k could not be downloaded ({reason}); run the demo again when online."
        )
    return wheel


def read(path: Path) -> dict[str, np.ndarray]:
    """A tab-separated table whose header names each column and its type, ``user_id:token``."""
    lines = path.read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n")
    header = [name.partition(":")[0] for name in lines[0].split("\t")]
    if len(lines) - 1 != ROWS[path.name]:
        raise MissingDataError(
            f"{path} has {len(lines) - 1} rows, expected {ROWS[path.name]}; delete it and run again."
        )
    columns = zip(*(line.split("\t") for line in lines[1:]), strict=True)
    return {name: np.array(column) for name, column in zip(header, columns, strict=True)}
