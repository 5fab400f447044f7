"""Formats of boxes, clamping and sanitising."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import BoundingBoxes, BoundingBoxFormat

FORMATS = [format.name for format in BoundingBoxFormat]
pairs = st.tuples(st.integers(-50, 50), st.integers(-50, 50), st.integers(0, 60), st.integers(0, 60))
rows = st.lists(pairs, min_size=0, max_size=5)
dtypes = st.sampled_from([torch.float32, torch.float64, torch.int32, torch.int64])


def corners(rows, dtype):
    """Boxes XYXY of (left, top, width, height) rows."""
    boxes = torch.tensor(rows, dtype=dtype).reshape(-1, 4)
    return torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)


@given(rows, dtypes, st.sampled_from(list(itertools.product(FORMATS, FORMATS))))
def test_any_way_through_the_formats_leads_back(rows, dtype, way):
    boxes = corners(rows, dtype)
    first = F.convert_bounding_box_format(boxes, "XYXY", way[0])
    second = F.convert_bounding_box_format(first, way[0], way[1])
    assert second.dtype == dtype
    assert torch.equal(F.convert_bounding_box_format(second, way[1], "XYXY"), boxes)


@pytest.mark.smoke
def test_the_three_formats_of_one_box():
    boxes = torch.tensor([[1.0, 2.0, 4.0, 8.0]])
    assert F.convert_bounding_box_format(boxes, "XYXY", "XYWH").tolist() == [[1, 2, 3, 6]]
    assert F.convert_bounding_box_format(boxes, "XYXY", "CXCYWH").tolist() == [[2.5, 5, 3, 6]]
    assert F.convert_bounding_box_format(boxes.int(), "XYXY", "CXCYWH").tolist() == [[2, 5, 3, 6]]


def test_boxes_know_their_format():
    boxes = BoundingBoxes([[1.0, 2, 4, 8]], format="XYXY", canvas_size=(9, 9))
    out = F.convert_bounding_box_format(boxes, new_format="xywh")
    assert out.format is BoundingBoxFormat.XYWH
    assert out.tolist() == [[1, 2, 3, 6]]
    with pytest.raises(ValueError, match="leave old_format out"):
        F.convert_bounding_box_format(boxes, "XYXY", "XYWH")
    with pytest.raises(ValueError, match="needs old_format="):
        F.convert_bounding_box_format(torch.zeros(1, 4), new_format="XYWH")
    with pytest.raises(TypeError, match="new_format is missing"):
        F.convert_bounding_box_format(boxes)


def test_conversion_in_place_writes_into_the_input_and_else_leaves_it():
    boxes = torch.tensor([[1.0, 2.0, 4.0, 8.0]])
    for new in ("XYWH", "CXCYWH"):
        F.convert_bounding_box_format(boxes, "XYXY", new).zero_()
    assert boxes.tolist() == [[1, 2, 4, 8]]
    assert all(F.convert_bounding_box_format(boxes, same, same) is boxes for same in FORMATS)
    out = F.convert_bounding_box_format(boxes, "XYXY", "XYWH", inplace=True)
    assert out.data_ptr() == boxes.data_ptr()
    assert boxes.tolist() == [[1, 2, 3, 6]]


@given(rows, st.sampled_from(FORMATS), dtypes)
def test_clamped_boxes_lie_on_the_canvas_and_stay_so(rows, format, dtype):
    boxes = F.convert_bounding_box_format(corners(rows, dtype), "XYXY", format)
    once = F.clamp_bounding_boxes(boxes, format=format, canvas_size=(30, 40), clamping_mode="soft")
    left, top, right, bottom = F.convert_bounding_box_format(once, format, "XYXY").unbind(1)
    assert (left >= 0).all()
    assert (top >= 0).all()
    assert (right <= 40).all()
    assert (bottom <= 30).all()
    assert torch.equal(
        F.clamp_bounding_boxes(once, format=format, canvas_size=(30, 40), clamping_mode="soft"), once
    )


@given(rows)
def test_clamping_is_the_intersection_with_the_canvas(rows):
    boxes = [(x, y, x + w, y + h) for x, y, w, h in rows]
    want = [[min(max(v, 0), limit) for v, limit in zip(box, (40, 30, 40, 30), strict=True)] for box in boxes]
    out = F.clamp_bounding_boxes(
        torch.tensor(boxes).reshape(-1, 4), format="XYXY", canvas_size=(30, 40), clamping_mode="soft"
    )
    assert out.tolist() == want


def test_clamping_does_as_the_boxes_say_unless_told():
    for mode, clamped in (("soft", True), ("hard", True), (None, False)):
        boxes = BoundingBoxes([-1, 0, 4, 8], format="XYXY", canvas_size=(9, 9), clamping_mode=mode)
        assert F.clamp_bounding_boxes(boxes)[0, 0] == (0 if clamped else -1)
        assert F.clamp_bounding_boxes(boxes, clamping_mode="hard")[0, 0] == 0
        assert F.clamp_bounding_boxes(boxes, clamping_mode=None)[0, 0] == -1


@pytest.mark.parametrize("function", [F.clamp_bounding_boxes, F.sanitize_bounding_boxes])
def test_plain_boxes_need_format_and_canvas_and_typed_ones_refuse_them(function):
    with pytest.raises(ValueError, match="needs format= and canvas_size="):
        function(torch.zeros(1, 4), format="XYXY")
    with pytest.raises(ValueError, match="leave them out"):
        function(BoundingBoxes([0, 0, 1, 1], format="XYXY", canvas_size=(9, 9)), canvas_size=(9, 9))


@pytest.mark.parametrize(
    "function",
    [
        F.clamp_bounding_boxes,
        F.sanitize_bounding_boxes,
        lambda x: F.convert_bounding_box_format(x, new_format="XYXY"),
    ],
)
def test_what_is_no_tensor_is_refused(function):
    with pytest.raises(TypeError, match="must be BoundingBoxes or a plain tensor, got <class 'list'>"):
        function([[0, 0, 1, 1]])


def test_a_plain_tensor_has_no_clamping_mode_of_its_own():
    with pytest.raises(ValueError, match="needs clamping_mode="):
        F.clamp_bounding_boxes(torch.zeros(1, 4), format="XYXY", canvas_size=(9, 9))


@pytest.mark.parametrize("format", FORMATS)
def test_sanitising_keeps_boxes_inside_that_are_large_enough(format):
    keep = [[0.0, 0, 9, 9], [1, 1, 3, 2], [4, 4, 5, 5]]
    drop = [
        [1, 1, 1.5, 9],
        [1, 1, 9, 1.5],
        [3, 3, 3, 3],
        [-1, 0, 4, 4],
        [0, 0, 9.5, 4],
        [0, torch.nan, 4, 4],
        [5, 5, 2, 2],
    ]
    boxes = F.convert_bounding_box_format(torch.tensor(keep + drop), "XYXY", format)
    out, valid = F.sanitize_bounding_boxes(boxes, format=format, canvas_size=(9, 9))
    assert valid.tolist() == [True] * len(keep) + [False] * len(drop)
    assert torch.equal(out, boxes[:3])
    assert F.sanitize_bounding_boxes(boxes, format=format, canvas_size=(9, 9), min_area=5)[1].sum() == 1
    assert F.sanitize_bounding_boxes(boxes, format=format, canvas_size=(9, 9), min_size=1.5)[1].sum() == 1


def test_sanitised_boxes_keep_their_type():
    boxes = BoundingBoxes([[0.0, 0, 4, 4], [2, 2, 2, 5]], format="XYXY", canvas_size=(9, 9))
    out, valid = F.sanitize_bounding_boxes(boxes)
    assert type(out) is BoundingBoxes
    assert type(valid) is torch.Tensor
    assert_close(out + 0, torch.tensor([[0.0, 0, 4, 4]]))
