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

import tetravision


def parser(doc: str | None, rounds: int) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=rounds, help="paired rounds of each case")
    options.add_argument("--only", default="", help="run the cases whose name contains this")
    options.add_argument("--threads", type=int, default=1)
    return options


def peer(*names: str) -> list[ModuleType] | None:
    """Modules of the established library, or None where it is not installed."""
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError:
        return None


def facts(found: list[ModuleType] | None, rounds: int) -> str:
    """What the figures hang on, as a line of JSON."""
    return json.dumps({
        "case": "facts",
        "tetravision": tetravision.__version__,
        "peer": f"{found[0].__name__} {found[0].__version__}" if found else "not installed: timed alone",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "rounds": rounds,
    })


def timed(call: Callable[[], Any], count: int) -> float:
    """Processor seconds a call, over ``count`` of them; neighbours on the machine don't move that clock."""
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


def compare(case: str, calls: dict[str, Callable[[], Any]], rounds: int, fill_s: float = 0.05) -> str:
    """Time calls in turn, round by round.

    Args:
        case: the name of the row.
        calls: ``ours``, and ``peer`` where there is one.
        rounds: how often each is timed.
        fill_s: each time is taken over as many calls as fill this.

    Returns:
        A line of JSON: medians in microseconds, the ratio of medians (below 1: ours is faster), and the middle half of
        the paired ratios.
    """
    counts = {}
    for name, call in calls.items():
        call()
        counts[name] = max(1, round(fill_s / max(timed(call, 1), 1e-6)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(timed(call, counts[name]))
    row: dict[str, Any] = {"case": case}
    row |= {f"{name}_us": round(median(taken) * 1e6, 1) for name, taken in times.items()}
    if "peer" in times:
        paired = sorted(a / b for a, b in zip(times["ours"], times["peer"], strict=True))
        row["ratio"] = round(median(times["ours"]) / median(times["peer"]), 3)
        row["middle_half"] = [round(paired[len(paired) // 4], 3), round(paired[3 * len(paired) // 4], 3)]
    return json.dumps(row)
