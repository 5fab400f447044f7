"""The table-batched lookup and its update on a GPU, as shares of the bandwidth of a plain copy.

python packages/tetrarec/benchmarks/gpu_tbe.py
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tetrarec.ops._layout import Batch, Layout, layout_of

ROTATION = 4  # batches in turn, so that none finds its rows in the cache


class Case(NamedTuple):
    """One shape of work."""

    tables: int
    dim: int
    batch: int
    pooling: int
    rows: int
    dtype: torch.dtype = torch.float32
    weighted: bool = False

    @property
    def name(self) -> str:
        """In a few words."""
        words = f"{self.tables} tables x dim {self.dim} x batch {self.batch} x pooling {self.pooling}"
        return words + " weighted" * self.weighted


CASES = [
    Case(26, 64, 8192, 20, 500_000),
    Case(26, 128, 8192, 10, 500_000),
    Case(26, 128, 8192, 10, 500_000, torch.float16),
    Case(26, 128, 8192, 10, 500_000, weighted=True),
    Case(26, 256, 4096, 10, 250_000),
    Case(26, 128, 16384, 1, 500_000),
]


class Data(NamedTuple):
    """Everything that the kernels take."""

    layout: Layout
    weights: Tensor
    state: Tensor
    rate: Tensor
    batches: list[Batch]
    grads: list[Tensor]


def build(case: Case, device: torch.device) -> Data:
    """Random tables, and batches to take in turn; bags are uniform up to twice the pooling, ids uniform."""
    generator = torch.Generator(device=device).manual_seed(0)
    layout = layout_of([case.rows] * case.tables, [case.dim] * case.tables, range(case.tables))
    weights = torch.randn(layout.numel, device=device, generator=generator).to(case.dtype)
    state = torch.zeros(case.rows * case.tables, device=device)
    batches, grads = [], []
    for _ in range(ROTATION):
        sizes = (case.tables * case.batch,)
        lengths = torch.randint(0, 2 * case.pooling + 1, sizes, device=device, generator=generator)
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        count = int(offsets[-1])
        ids = torch.randint(0, case.rows, (count,), device=device, generator=generator)
        samples = torch.rand(count, device=device, generator=generator) if case.weighted else None
        batches.append(Batch(ids, offsets, samples, [case.batch], False))
        grad = torch.randn(case.batch, layout.total_dim, device=device, generator=generator)
        grads.append(grad.to(case.dtype))
    return Data(layout, weights, state, torch.tensor(0.01, device=device), batches, grads)


def forward(data: Data, turn: int) -> Tensor:
    """One lookup."""
    from tetrarec.ops._embedding_bags_triton import launch  # noqa: PLC0415  (triton: absent on some machines)

    matrices = [group.matrix(data.weights) for group in data.layout.groups]
    return launch(data.layout, matrices, data.batches[turn % ROTATION])


def update(data: Data, turn: int) -> None:
    """One exact update."""
    from tetrarec.ops._run_sums_triton import launch  # noqa: PLC0415  (triton: absent on some machines)

    turn %= ROTATION
    launch(data.layout, data.grads[turn], data.batches[turn], data.weights, data.state, data.rate, 1e-8)


def moved_bytes(case: Case, data: Data) -> tuple[float, float]:
    """Bytes that a lookup and an update must move, on average over the batches."""
    item = data.weights.element_size()
    lookups = sum(batch.indices.numel() for batch in data.batches) / ROTATION
    results = case.batch * data.layout.total_dim * item
    ids = lookups * (8 + 4 * case.weighted) + data.batches[0].offsets.numel() * 8
    table = torch.arange(case.tables, device=data.weights.device) * case.rows
    touched = sum(
        (b.indices + table.repeat_interleave(b.offsets[:: case.batch].diff())).unique().numel()
        for b in data.batches
    )
    rows = touched / ROTATION * (2 * case.dim * item + 8)
    return lookups * case.dim * item + results + ids, lookups * case.dim * item + ids + rows


def milliseconds(call: Callable[[int], Any], rounds: int = 20) -> float:
    """Median time of a call by device events, after a warm-up."""
    for turn in range(2 * ROTATION):
        call(turn)
    times = []
    for turn in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call(turn)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[rounds // 2]


def run(device: torch.device, copy_gb_per_s: float) -> list[dict]:
    """Time every case.

    Args:
        device: a CUDA or ROCm device.
        copy_gb_per_s: bytes read and written a second by a plain copy on it, in GB.

    Returns:
        For each kernel and case: kernel, size, dtype, ms, gb_per_s, copy_share.
    """
    rows = []
    for case in CASES:
        data = build(case, device)
        calls = (("forward", forward), ("exact row-wise Adagrad", update))
        for (name, call), size in zip(calls, moved_bytes(case, data), strict=True):
            ms = milliseconds(lambda turn, call=call, data=data: call(data, turn))
            rate = size / ms / 1e6
            rows.append({
                "kernel": f"tetrarec {name}",
                "size": case.name,
                "dtype": str(case.dtype).removeprefix("torch."),
                "ms": round(ms, 4),
                "gb_per_s": round(rate, 1),
                "copy_share": round(rate / copy_gb_per_s, 3),
            })
        del data
    return rows


def copy_bandwidth(device: torch.device) -> float:
    """GB read and written a second by copying a GiB."""
    source = torch.empty(2**28, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / milliseconds(lambda _: target.copy_(source)) / 1e6


def main() -> None:
    """Time this machine's GPU, where it has one."""
    if not torch.cuda.is_available():
        print(json.dumps({"row": "no GPU here: nothing timed"}))
        return
    device = torch.device("cuda")
    for row in run(device, copy_bandwidth(device)):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
