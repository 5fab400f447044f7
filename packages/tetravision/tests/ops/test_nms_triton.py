"""The GPU kernels of non-maximum suppression, natively or under Triton's interpreter."""

import os

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings(
        "ignore:.*encountered in:RuntimeWarning"
    ),  # the interpreter is numpy, and NaN is meant
    pytest.mark.skipif(
        not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1",
        reason="needs a GPU, or TRITON_INTERPRET=1",
    ),
]

NAN, INF = float("nan"), float("inf")


def answer(boxes, scores, threshold, device, idxs=None):
    from tetravision.ops._nms import _select
    from tetravision.ops._nms_triton import launch

    moved = [None if each is None else each.to(device) for each in (boxes, scores, idxs)]
    return _select(*moved, threshold, launch).cpu()


def many(number, seed=0):
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(number, 2, generator=generator) * 60
    size = 5 + torch.rand(number, 2, generator=generator) * 40
    return torch.cat([corner, corner + size], 1), torch.rand(number, generator=generator)


@pytest.mark.parametrize("number", [0, 1, 31, 32, 33, 70])  # around a word, and past a block of rows
@pytest.mark.parametrize("threshold", [0.2, 0.6])
def test_kernels_agree_with_the_reference(number, threshold, device):
    from tetravision.ops._nms import nms_reference

    boxes, scores = many(number)
    assert torch.equal(answer(boxes, scores, threshold, device), nms_reference(boxes, scores, threshold))


def test_classes_do_not_meet(device):
    from tetravision.ops._nms import nms_reference

    boxes, scores = many(40)
    idxs = torch.arange(40) % 3
    assert torch.equal(answer(boxes, scores, 0.3, device, idxs), nms_reference(boxes, scores, 0.3, idxs))


def test_boxes_that_are_not_finite_are_kept_and_drop_no_other(device):
    boxes = torch.tensor([
        [0.0, 0, 4, 4],
        [0, NAN, 4, 4],
        [0, 0, 4, 4],
        [0, 0, INF, 4],
        [-INF, -INF, INF, INF],
        [NAN] * 4,
    ])
    scores = torch.tensor([0.9, 0.95, 0.8, 0.99, 0.7, 0.6])
    assert answer(boxes, scores, 0.1, device).tolist() == [3, 1, 0, 4, 5]


def test_float64_is_compared_in_float64(device):
    boxes = torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 0.5 + 1e-12]], dtype=torch.float64)
    assert answer(boxes, torch.ones(2), 0.5, device).tolist() == [0]
