"""What the benchmarks share: paired rounds in one process, and the ratio of medians."""

import argparse
import importlib
import json
import platform
import time
import warnings
from collections.abc import Callable
from statistics import median
from types import ModuleType
from typing import Any

import torch

import tetrarec


def parser(doc: str | None, rounds: int) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=rounds, help="paired rounds of each case")
    options.add_argument("--only", default="", help="run the cases whose name contains this")
    return options


def peer(name: str) -> ModuleType | None:
    """A module of the established library, or ``None`` where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError:
            return None


def facts(**versions: str) -> dict[str, Any]:
    """What the figures hang on."""
    return {
        "tetrarec": tetrarec.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "clock": "CPU time of the process",
        **versions,
    }


def compare(calls: dict[str, Callable[[], Any]], rounds: int, fill_s: float = 0.02) -> dict[str, list[float]]:
    """CPU seconds of each call, timed in turn round by round, each over as many calls as fill ``fill_s``."""
    counts = {}
    for name, call in calls.items():
        call()
        start = time.process_time()
        call()
        counts[name] = max(1, round(fill_s / max(time.process_time() - start, 1e-6)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(counts[name]):
                call()
            times[name].append((time.process_time() - start) / counts[name])
    return times


def ratio(times: dict[str, list[float]], ours: str, other: str) -> list[float]:
    """Median of ours over that of the other (below 1: ours is faster), and the middle half of paired ratios."""
    paired = sorted(a / b for a, b in zip(times[ours], times[other], strict=True))
    quarter = len(paired) // 4
    middle = paired[quarter], paired[-1 - quarter]
    return [round(value, 3) for value in (median(times[ours]) / median(times[other]), *middle)]


def milliseconds(times: dict[str, list[float]]) -> dict[str, float]:
    """The median of each."""
    return {name: round(median(took) * 1e3, 3) for name, took in times.items()}


def line(**values: Any) -> str:
    """One result as a line of JSON."""
    return json.dumps(values)
