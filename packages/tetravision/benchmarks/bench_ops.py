"""Detection operators on a CPU, ours and torchvision's in one process.

python packages/tetravision/benchmarks/bench_ops.py [--rounds N] [--only TEXT] [--threads N]

Answers are compared before they are timed. `nms` takes the numba loop where numba is installed; rows that end in "torch" are
the path without it.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from timing import compare, facts, parser, peer
from torch import Tensor

import tetravision.ops
from tetravision.ops._nms import _select, survivors_torch

Calls = dict[str, Callable[[], Any]]


def boxes_of(number: int, size: float = 1000.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Boxes all over a picture, and scores."""
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(number, 2, generator=generator) * size
    sides = 10 + torch.rand(number, 2, generator=generator) * 90
    return torch.cat([corner, corner + sides], 1), torch.rand(number, generator=generator)


def clustered(number: int, copies: int = 20) -> tuple[Tensor, Tensor]:
    """Boxes as a detector gives them: near-copies of each object."""
    generator = torch.Generator().manual_seed(0)
    boxes = boxes_of(number // copies)[0].repeat_interleave(copies, 0)
    return boxes + torch.randn(number, 4, generator=generator) * 2, torch.rand(number, generator=generator)


def pooling(ops: ModuleType, feature: Tensor, rois: Tensor, ratio: int, backward: bool) -> Callable[[], Any]:
    """RoIAlign of 512 regions, forward or with its gradient."""
    if not backward:
        return lambda: ops.roi_align(feature, rois, 7, 1 / 16, ratio, True)
    leaf = feature.clone().requires_grad_()
    return lambda: torch.autograd.grad(ops.roi_align(leaf, rois, 7, 1 / 16, ratio, True).sum(), leaf)[0]


def cases(ops: ModuleType) -> Calls:
    """The rows of one library."""
    rows: Calls = {}
    for number in (1000, 10000):
        for kind, make in (("uniform", boxes_of), ("clustered", clustered)):
            boxes, scores = make(number)
            rows[f"nms, {kind} {number}"] = lambda b=boxes, s=scores: ops.nms(b, s, 0.5)
        boxes, scores = boxes_of(number)
        idxs = torch.randint(0, 80, (number,), generator=torch.Generator().manual_seed(0))
        rows[f"batched_nms, uniform {number}, 80 classes"] = lambda b=boxes, s=scores, i=idxs: (
            ops.batched_nms(b, s, i, 0.5)
        )
    one, two = boxes_of(1000)[0], boxes_of(1000, seed=1)[0]
    rows["box_iou, 1000 x 1000"] = lambda: ops.box_iou(one, two)
    rows["box_convert, 1000"] = lambda: ops.box_convert(one, "xyxy", "cxcywh")
    rows["clip_boxes_to_image, 1000"] = lambda: ops.clip_boxes_to_image(one, (500, 500))
    feature = torch.randn(2, 256, 50, 76, generator=torch.Generator().manual_seed(0))
    last = feature.contiguous(memory_format=torch.channels_last)
    rois = torch.cat([torch.arange(512)[:, None] % 2, boxes_of(512, 700.0)[0]], 1)
    for ratio, name in ((2, "2 samples"), (0, "adaptive")):
        rows[f"roi_align, {name}"] = pooling(ops, feature, rois, ratio, False)
        rows[f"roi_align, {name}, channels last"] = pooling(ops, last, rois, ratio, False)
        rows[f"roi_align, {name}, with gradient"] = pooling(ops, feature, rois, ratio, True)
    return rows


def without_numba() -> Calls:
    """The torch path of nms."""
    rows: Calls = {}
    for number in (1000, 10000):
        for kind, make in (("uniform", boxes_of), ("clustered", clustered)):
            boxes, scores = make(number)
            rows[f"nms, {kind} {number}"] = lambda b=boxes, s=scores: _select(
                b, s, None, 0.5, survivors_torch
            )
    return rows


def main() -> None:
    """Print a line for each row."""
    options = parser(__doc__, rounds=9).parse_args()
    torch.set_num_threads(options.threads)
    found = peer("torchvision", "torchvision.ops")
    print(facts(found, options.rounds), flush=True)
    theirs = cases(found[1]) if found else {}
    rows = cases(tetravision.ops) | {f"{name}, torch": call for name, call in without_numba().items()}
    for name, call in rows.items():
        other = theirs.get(name.removesuffix(", torch"))
        if options.only not in name:
            continue
        if other is not None:
            got, want = call(), other()
            assert got.shape == want.shape, name
            if got.is_floating_point():
                torch.testing.assert_close(got, want, rtol=1e-3, atol=2e-3)
            else:  # indices; equal scores may come in another order
                assert set(got.tolist()) == set(want.tolist()), name
        calls = {"ours": call} | ({"peer": other} if other is not None else {})
        print(compare(name, calls, options.rounds), flush=True)


if __name__ == "__main__":
    main()
