"""Boxes as plain tensors."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetravision import ops

FORMATS = ["xyxy", "xywh", "cxcywh"]
numbers = st.integers(0, 40)
rows = st.lists(st.tuples(numbers, numbers, st.integers(1, 20), st.integers(1, 20)), min_size=0, max_size=5)


def corners(rows, dtype=torch.float32):
    boxes = torch.tensor(rows, dtype=dtype).reshape(-1, 4)
    return torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)


def grid_iou(one, two):
    """Intersection over union by counting cells of a grid."""
    masks = []
    for box in (one, two):
        mask = torch.zeros(64, 64, dtype=torch.bool)
        mask[int(box[1]) : int(box[3]), int(box[0]) : int(box[2])] = True
        masks.append(mask)
    return ((masks[0] & masks[1]).sum() / (masks[0] | masks[1]).sum()).item()


@pytest.mark.smoke
@given(rows, rows)
def test_counting_cells_gives_the_same_overlap(first, second):
    one, two = corners(first), corners(second)
    want = torch.tensor([[grid_iou(a, b) for b in two] for a in one]).reshape(len(one), len(two))
    assert_close(ops.box_iou(one, two), want)


@given(rows, st.sampled_from(FORMATS))
def test_overlap_and_area_do_not_ask_how_a_box_is_written(rows, fmt):
    boxes = corners(rows, torch.float64)
    other = ops.box_convert(boxes, "xyxy", fmt)
    assert_close(ops.box_iou(other, other, fmt), ops.box_iou(boxes, boxes))
    assert_close(ops.box_area(other, fmt), ops.box_area(boxes))
    assert_close(
        ops.box_area(boxes), torch.tensor([float(w * h) for _, _, w, h in rows], dtype=torch.float64)
    )


@given(rows, st.sampled_from(list(itertools.product(FORMATS, FORMATS))))
def test_any_way_through_the_formats_leads_back(rows, way):
    boxes = corners(rows, torch.float64)
    there = ops.box_convert(ops.box_convert(boxes, "xyxy", way[0]), way[0], way[1])
    assert_close(ops.box_convert(there, way[1], "xyxy"), boxes)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float16, torch.bfloat16], ids=str)
def test_areas_of_narrow_types_do_not_overflow(dtype):
    boxes = torch.tensor([[0, 0, 100, 100]], dtype=dtype)
    assert ops.box_area(boxes).item() == 10000
    assert ops.box_iou(boxes, boxes).item() == 1


def test_boxes_without_area_give_nan():
    assert ops.box_iou(torch.ones(1, 4), torch.ones(1, 4)).isnan().all()


def test_batches_of_sets_are_compared_set_by_set():
    one, two = torch.rand(3, 2, 4), torch.rand(3, 5, 4)
    assert_close(ops.box_iou(one, two)[1], ops.box_iou(one[1], two[1]))


def test_overlap_has_a_gradient():
    one = corners([(0, 0, 4, 4), (2, 3, 5, 6)], torch.float64).requires_grad_()
    two = corners([(1, 2, 4, 7)], torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(ops.box_iou, (one, two))


@given(rows)
def test_clipped_boxes_lie_in_the_picture(rows):
    out = ops.clip_boxes_to_image(corners(rows) - 10, (20, 30))
    assert ((out >= 0) & (out <= torch.tensor([30, 20, 30, 20]))).all()
    assert torch.equal(ops.clip_boxes_to_image(out, (20, 30)), out)


def test_small_boxes_are_found_by_both_sides():
    boxes = torch.tensor([[0.0, 0, 9, 9], [0, 0, 1, 9], [0, 0, 9, 1], [0, 0, 2, 2]])
    assert ops.remove_small_boxes(boxes, 2.0).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: ops.box_convert(torch.zeros(1, 4), "xyxy", "corners"),
            "one of xyxy, xywh, cxcywh, got 'corners'",
        ),
        (lambda: ops.box_area(torch.zeros(1, 5)), r"\[..., 4\], got shape \(1, 5\)"),
        (lambda: ops.box_iou(torch.zeros(1, 4), torch.zeros(4, 1)), r"got shape \(4, 1\)"),
    ],
)
def test_what_is_no_box_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
