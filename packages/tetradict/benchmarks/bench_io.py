"""Saving and opening a folder of memory-mapped tensors, beside the peer's and torch.save.

python packages/tetradict/benchmarks/bench_io.py [--rounds N] [--only TEXT] [--folder FOLDER] [--scale 1.0]

Warm page cache, no fsync; what was written is removed between the timed calls. Sizes: 16 x 64 KB, 2048 x 16 KB and
64 x 4 MB (times --scale).
"""

import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import compare, facts, line, parser, peer

import tetradict

SIZES = {"16 x 64 KB": (16, 64 << 10), "2048 x 16 KB": (2048, 16 << 10), "64 x 4 MB": (64, 4 << 20)}


def main() -> None:
    """Run every size: save with 0 and 2 threads, and open."""
    options = parser(__doc__, rounds=9)
    options.add_argument("--folder", default=None, help="where files are written")
    options.add_argument("--scale", type=float, default=1.0, help="part of the number of tensors to take")
    options = options.parse_args()
    warnings.simplefilter("ignore")
    other = peer("tensordict")
    print(line(case="facts", rounds=options.rounds, scale=options.scale, **facts(other)))
    for name, (count, size_bytes) in SIZES.items():
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            run(name, max(1, int(count * options.scale)), size_bytes, Path(folder), other, options)


def run(name: str, count: int, size_bytes: int, folder: Path, other: Any, options: Any) -> None:
    """Time one size."""
    source = {f"t{i:05d}": torch.rand(size_bytes // 256, 64) for i in range(count)}
    td = tetradict.TensorDict(source, [])
    theirs = other.TensorDict(source, []) if other else None
    path, file = folder / "td", folder / "file.pt"

    def clean() -> None:
        shutil.rmtree(path, ignore_errors=True)
        file.unlink(missing_ok=True)

    def report(case: str, calls: dict[str, Callable[[], Any]], between: Callable[[], None] | None) -> None:
        if options.only in case:
            got = compare(calls, options.rounds, between=between, once=between is not None)
            rate = count * size_bytes / got["ours_us"] * 1e6 / 1e9
            print(line(case=case, tensors=count, ours_GBps=round(rate, 3), **got), flush=True)

    for threads in (0, 2):
        calls: dict[str, Callable[[], Any]] = {
            "ours": lambda threads=threads: td.memmap(path, num_threads=threads),
            "torch.save": lambda: torch.save(source, file),
        }
        if theirs is not None:
            calls["peer"] = lambda threads=threads: theirs.memmap(str(path), num_threads=threads)
        report(f"save {name}, {threads} threads", calls, clean)
    clean()
    td.memmap(path)
    torch.save(source, file)
    calls = {
        "ours": lambda: tetradict.TensorDict.load_memmap(path),
        "torch.load mmap": lambda: torch.load(file, mmap=True),
    }
    if other:
        calls["peer"] = lambda: other.TensorDict.load_memmap(str(path))
    report(f"open {name}", calls, None)


if __name__ == "__main__":
    main()
