"""Replay buffers: extend, add and sample, against torchrl, cpprb, stable-baselines3 and what bare torch takes.

Two kinds of rows: those of CartPole (seven entries, 60 bytes) and stacks of four frames of 84 x 84 pixels, with the
next stack beside them. cpprb and stable-baselines3 keep one flag where we keep three. Buffers are full before they
are timed. The floor is one copy or one ``index_select`` an entry, with indices drawn by ``torch.randint``.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import common
import numpy as np
import torch
from tetradict import TensorDict
from torch.testing import assert_close

from tetrarl import data as ours_data

warnings.filterwarnings("ignore")
BATCH = 256
ADDS = 20
STORAGES = ("LazyTensorStorage", "LazyMemmapStorage", "ListStorage")
KINDS = {"cartpole": (100_000, 1000, (4,), torch.float32), "frames": (1024, 64, (4, 84, 84), torch.uint8)}
Calls = dict[str, Callable[[], Any]]


def transitions(count: int, shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Any]:
    """Random rows as nested dicts."""

    def seen() -> torch.Tensor:
        return torch.randint(255, (count, *shape)).to(dtype)

    flags = {flag: torch.rand(count, 1) < 0.02 for flag in ("done", "terminated", "truncated")}
    after = {"observation": seen(), "reward": torch.randn(count, 1), **flags}
    return {"observation": seen(), "action": torch.randint(2, (count, 1)), "next": after}


def collection(rows: dict[str, Any], kind: type) -> Any:
    """The rows as a collection of one of the two libraries."""
    count = len(rows["action"])
    return kind({**rows, "next": kind(rows["next"], [count])}, [count])


def buffer_calls(
    data: Any, kind: type, storage: str, size: int, full: dict[str, Any], chunk: dict[str, Any]
) -> Calls:
    """extend, add and sample of a buffer of torchrl's interface."""
    where = {"scratch_dir": tempfile.mkdtemp()} if storage == "LazyMemmapStorage" else {}
    buffer = data.TensorDictReplayBuffer(storage=getattr(data, storage)(size, **where), batch_size=BATCH)
    buffer.extend(collection(full, kind))
    batch = buffer.sample()
    assert_close(batch["observation"], full["observation"][batch["index"]])
    assert_close(batch["next", "reward"], full["next"]["reward"][batch["index"]])
    rows = collection(chunk, kind)
    one = rows[0]
    return {
        "sample": buffer.sample,
        "extend": lambda: buffer.extend(rows),
        "add": lambda: [buffer.add(one) for _ in range(ADDS)],
    }


def floor_calls(size: int, full: dict[str, Any], chunk: dict[str, Any]) -> Calls:
    """One torch call an entry."""
    leaves = [*(full[key] for key in ("observation", "action")), *full["next"].values()]
    leaves = [leaf.clone() for leaf in leaves]
    news = [*(chunk[key] for key in ("observation", "action")), *chunk["next"].values()]
    cursor = [0]

    def extend() -> None:
        start = cursor[0] if cursor[0] + len(news[0]) <= size else 0
        for leaf, new in zip(leaves, news, strict=True):
            leaf[start : start + len(new)] = new
        cursor[0] = start + len(news[0])

    def sample() -> list[torch.Tensor]:
        index = torch.randint(size, (BATCH,))
        return [leaf.index_select(0, index) for leaf in leaves]

    def add() -> None:
        for row in range(ADDS):
            for leaf, new in zip(leaves, news, strict=True):
                leaf[row] = new[0]

    return {"sample": sample, "extend": extend, "add": add}


def arrays(rows: dict[str, Any]) -> dict[str, np.ndarray]:
    """The rows as cpprb and stable-baselines3 take them."""
    return {
        "obs": rows["observation"].numpy(),
        "act": rows["action"].numpy(),
        "next_obs": rows["next"]["observation"].numpy(),
        "rew": rows["next"]["reward"].numpy(),
        "done": rows["next"]["done"].numpy().astype(np.float32),
    }


def cpprb_calls(cpprb: Any, size: int, full: dict[str, Any], chunk: dict[str, Any]) -> Calls:
    """The same for cpprb."""
    observation = {"shape": full["observation"].shape[1:], "dtype": full["observation"].numpy().dtype}
    layout = {
        "obs": observation,
        "act": {"shape": 1, "dtype": np.int64},
        "next_obs": observation,
        "rew": {},
        "done": {},
    }
    buffer = cpprb.ReplayBuffer(size, layout)
    buffer.add(**arrays(full))
    rows = arrays(chunk)
    one = {key: column[0] for key, column in rows.items()}
    return {
        "sample": lambda: {key: torch.from_numpy(column) for key, column in buffer.sample(BATCH).items()},
        "extend": lambda: buffer.add(**rows),
        "add": lambda: [buffer.add(**one) for _ in range(ADDS)],
    }


def sb3_calls(sb3: Any, size: int, full: dict[str, Any], chunk: dict[str, Any]) -> Calls:
    """The same for stable-baselines3, which adds row by row alone."""
    from gymnasium import spaces  # noqa: PLC0415  (gymnasium: wanted by this peer alone)

    low, high, dtype = (
        (0, 255, np.uint8) if full["observation"].dtype == torch.uint8 else (-1e9, 1e9, np.float32)
    )
    space = spaces.Box(low, high, full["observation"].shape[1:], dtype)
    buffer = sb3.common.buffers.ReplayBuffer(size, space, spaces.Discrete(2), device="cpu")
    one = {key: column[0] for key, column in arrays(chunk).items()}
    row = (one["obs"], one["next_obs"], one["act"], one["rew"], one["done"], [{}])
    for _ in range(size):
        buffer.add(*row)
    return {"sample": lambda: buffer.sample(BATCH), "add": lambda: [buffer.add(*row) for _ in range(ADDS)]}


def peers(size: int, full: dict[str, Any], chunk: dict[str, Any]) -> dict[str, Calls]:
    """The calls of every peer that is installed, the floor first."""
    found = {"floor": floor_calls(size, full, chunk)}
    torchrl, tensordict = common.peer("torchrl.data"), common.peer("tensordict")
    if torchrl and tensordict:
        found["torchrl"] = buffer_calls(
            torchrl, tensordict.TensorDict, "LazyTensorStorage", size, full, chunk
        )
    if cpprb := common.peer("cpprb"):
        found["cpprb"] = cpprb_calls(cpprb, size, full, chunk)
    if common.peer("stable_baselines3.common.buffers"):
        found["stable_baselines3"] = sb3_calls(common.peer("stable_baselines3"), size, full, chunk)
    for name in {"torchrl", "cpprb", "stable_baselines3"} - found.keys():
        print(f"# {name} is not installed: not compared", flush=True)
    return found


def main() -> None:
    """Print one line an operation, storage and peer."""
    args = common.arguments(__doc__)
    for label, (size, count, shape, dtype) in KINDS.items():
        cases = [f"{name}/{label}/{storage}" for name in ("sample", "extend", "add") for storage in STORAGES]
        if not any(common.wanted(args, case) for case in cases):
            continue
        torch.manual_seed(0)
        full, chunk = transitions(size, shape, dtype), transitions(count, shape, dtype)
        theirs = peers(size, full, chunk)
        for storage in STORAGES:
            ours = buffer_calls(ours_data, TensorDict, storage, size, full, chunk)
            for name, call in ours.items():
                case = f"{name}/{label}/{storage}"
                for base, calls in theirs.items():
                    if name in calls and common.wanted(args, case):
                        result = common.compare(call, calls[name], args.rounds)
                        package = base.replace("_", "-")
                        print(common.row("rb", case, base, args, result, package), flush=True)


if __name__ == "__main__":
    main()
