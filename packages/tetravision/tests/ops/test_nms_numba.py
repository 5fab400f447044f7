"""The compiled loop by itself."""

import pytest
import torch

pytest.importorskip("numba", reason="needs numba")


def test_classes_are_settled_one_by_one():
    from tetravision.ops._nms_numba import survivors_numba

    boxes = torch.tensor([[0.0, 0, 4, 4]]).repeat(5, 1)
    ends = torch.tensor([2, 2, 3, 5, 5])
    assert survivors_numba(boxes, ends, 0.5).tolist() == [True, False, True, True, False]


@pytest.mark.parametrize("number", [0, 1, 63, 64, 65, 200])
def test_runs_of_kept_boxes_of_any_length_are_compared(number):
    from tetravision.ops._nms_numba import survivors_numba

    left = torch.arange(number, dtype=torch.float32)
    apart = torch.stack([left, 0 * left, left + 1, 0 * left + 1], 1)
    boxes = torch.cat([apart, apart])
    ends = torch.full((2 * number,), 2 * number)
    assert survivors_numba(boxes, ends, 0.5).tolist() == [True] * number + [False] * number
