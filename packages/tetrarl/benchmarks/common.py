"""What the benchmarks of this folder share: arguments, alternating timing, one row a comparison."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from types import ModuleType
from typing import Any

import torch


def arguments(doc: str | None, rounds: int = 15) -> argparse.Namespace:
    """The command line, with the number of threads set as it says."""
    cli = argparse.ArgumentParser(description=doc)
    cli.add_argument("--rounds", type=int, default=rounds, help="pairs of timings a comparison")
    cli.add_argument("--only", default="", help="comma-separated beginnings of the cases to run")
    cli.add_argument("--threads", type=int, default=1, help="of torch")
    args = cli.parse_args()
    torch.set_num_threads(args.threads)
    return args


def peer(name: str) -> ModuleType | None:
    """The established library, or ``None`` where it isn't installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def timed(call: Callable[[], Any], fill_s: float = 0.02) -> float:
    """Seconds a call, repeated until it fills ``fill_s``."""
    count, start = 0, time.perf_counter()
    while True:
        call()
        count += 1
        spent = time.perf_counter() - start
        if spent >= fill_s:
            return spent / count


def compare(ours: Callable[[], Any], base: Callable[[], Any], rounds: int) -> dict[str, Any]:
    """Median time of ours over that of the base (below 1 is faster), and the middle half of the paired ratios."""
    ours(), base()
    times = [(timed(ours), timed(base)) for _ in range(rounds)]
    a, b = map(list, zip(*times, strict=True))
    paired = sorted(x / y for x, y in times)
    return {
        "ratio": round(median(a) / median(b), 3),
        "middle_half": [round(paired[rounds // 4], 3), round(paired[3 * rounds // 4], 3)],
        "ours_us": round(median(a) * 1e6, 1),
        "base_us": round(median(b) * 1e6, 1),
        "rounds": rounds,
    }


def wanted(args: argparse.Namespace, case: str) -> bool:
    """Whether the command line asks for a case."""
    return not args.only or any(case.startswith(part) for part in args.only.split(","))


def row(bench: str, case: str, base: str, args: argparse.Namespace, result: dict[str, Any], *of: str) -> str:
    """One line of JSON: the result, and what it depends on."""
    where = {"threads": args.threads, "python": platform.python_version(), "machine": platform.machine()}
    return json.dumps({
        "bench": bench,
        "case": case,
        "base": base,
        **result,
        **where,
        "versions": versions(of),
    })


def versions(names: tuple[str, ...]) -> dict[str, str]:
    """The versions of installed packages."""
    found = {}
    for name in ("tetrarl", "tetradict", "torch", *names):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
