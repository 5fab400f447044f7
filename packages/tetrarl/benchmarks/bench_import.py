"""What an import costs, in fresh interpreters: seconds and modules beyond those of torch, against torchrl."""

from __future__ import annotations

import subprocess
import sys
from statistics import median

import common

PROGRAM = """
import sys, time
import torch
before, start = len(sys.modules), time.perf_counter()
import {module}
print(time.perf_counter() - start, len(sys.modules) - before)
"""
PAIRS = (
    ("tetrarl", "torchrl"),
    ("tetrarl.envs", "torchrl.envs"),
    ("tetrarl.data", "torchrl.data"),
    ("tetrarl.objectives", "torchrl.objectives"),
)


def measured(module: str) -> tuple[float, int]:
    """Seconds and modules of one import."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM.format(module=module)]
    seconds, modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), int(modules)


def main() -> None:
    """Print one line a pair of modules."""
    args = common.arguments(__doc__, rounds=5)
    torchrl = common.peer("torchrl")
    if torchrl is None:
        print("# torchrl is not installed: ours alone", flush=True)
    for ours, theirs in PAIRS:
        if not common.wanted(args, ours):
            continue
        runs = [(measured(ours), measured(theirs) if torchrl else None) for _ in range(args.rounds)]
        mine = [run for run, _ in runs]
        result = {"seconds": round(median(s for s, _ in mine), 3), "modules": mine[0][1]}
        if torchrl is not None:
            others = [run for _, run in runs if run]
            result |= {
                "base_seconds": round(median(s for s, _ in others), 3),
                "base_modules": others[0][1],
                "ratio": round(median(s for s, _ in mine) / median(s for s, _ in others), 4),
            }
        result["rounds"] = args.rounds
        print(common.row("import", ours, theirs, args, result, "torchrl"), flush=True)


if __name__ == "__main__":
    main()
