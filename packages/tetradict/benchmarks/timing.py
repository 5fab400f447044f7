"""What the benchmarks share: paired rounds in one process, and the ratio of medians."""

import argparse
import importlib
import json
import platform
import time
from collections.abc import Callable
from statistics import median
from types import ModuleType
from typing import Any

import torch

import tetradict


def parser(doc: str | None, rounds: int) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(description=doc)
    options.add_argument("--rounds", type=int, default=rounds, help="paired rounds of each case")
    options.add_argument("--only", default="", help="run the cases whose name contains this")
    return options


def peer(name: str) -> ModuleType | None:
    """The established library, or ``None`` where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def facts(other: ModuleType | None) -> dict[str, Any]:
    """What the figures hang on."""
    return {
        "tetradict": tetradict.__version__,
        "peer": f"{other.__name__} {other.__version__}"
        if other
        else "not installed: timed against the floor alone",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }


def repeats(call: Callable[[], Any], fill_s: float) -> int:
    """How often ``call`` fits into ``fill_s``."""
    call()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        took = time.perf_counter() - start
        if took >= fill_s / 2 or count >= 1 << 20:
            return max(1, round(count * fill_s / max(took, fill_s / 4)))
        count *= 2


def timed(call: Callable[[], Any], count: int) -> float:
    """Seconds a call, over ``count`` of them."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def compare(
    calls: dict[str, Callable[[], Any]],
    rounds: int,
    fill_s: float = 0.02,
    between: Callable[[], Any] | None = None,
    once: bool = False,
) -> dict[str, Any]:
    """Time calls in turn, round by round.

    Args:
        calls: ``ours`` and others by name; the others are what ours is divided by.
        rounds: how often each is timed.
        fill_s: each time is taken over as many calls as fill this.
        between: run before each timed call, outside the clock.
        once: time single calls.

    Returns:
        Medians in microseconds, and for each other the ratio of medians (below 1: ours is faster) with the middle
        half of the paired ratios.
    """
    counts = {name: 1 if once else repeats(call, fill_s) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if between is not None:
                between()
            times[name].append(timed(call, counts[name]))
    out: dict[str, Any] = {f"{name}_us": round(median(took) * 1e6, 3) for name, took in times.items()}
    for name, took in times.items():
        if name == "ours":
            continue
        paired = sorted(mine / theirs for mine, theirs in zip(times["ours"], took, strict=True))
        out[f"ours/{name}"] = round(median(times["ours"]) / median(took), 3)
        out[f"ours/{name} middle half"] = [round(paired[rounds // 4], 3), round(paired[3 * rounds // 4], 3)]
    return out


def line(**values: Any) -> str:
    """One result as a line of JSON."""
    return json.dumps(values)
