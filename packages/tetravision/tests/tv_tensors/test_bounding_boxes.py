"""Making boxes."""

import pytest
import torch

from tetravision.tv_tensors import BoundingBoxes, BoundingBoxFormat


@pytest.mark.parametrize("name", ["xyxy", "XYXY", "Xyxy", BoundingBoxFormat.XYXY])
def test_a_format_may_be_named_in_any_case(name):
    assert BoundingBoxes([[1, 2, 3, 4]], format=name, canvas_size=(9, 9)).format is BoundingBoxFormat.XYXY


@pytest.mark.parametrize(
    ("data", "shape"),
    [([1, 2, 3, 4], (1, 4)), ([], (0, 4)), (torch.zeros(0, 4), (0, 4)), (torch.zeros(2, 3, 4), (2, 3, 4))],
    ids=["one", "none", "no rows", "batch"],
)
def test_boxes_have_four_numbers_each(data, shape):
    assert BoundingBoxes(data, format="XYXY", canvas_size=(9, 9)).shape == shape


def test_the_canvas_becomes_a_pair():
    assert BoundingBoxes([1, 2, 3, 4], format="XYXY", canvas_size=[8, 9]).canvas_size == (8, 9)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"data": torch.zeros(2, 5)}, r"\[..., 4\], got shape \(2, 5\)"),
        ({"data": torch.tensor(1.0)}, r"got shape \(\)"),
        ({"format": "corners"}, "one of XYXY, XYWH, CXCYWH, got 'corners'"),
        ({"canvas_size": (1, 2, 3)}, r"\(height, width\)"),
        ({"clamping_mode": "wild"}, "'soft', 'hard' or None, got 'wild'"),
    ],
)
def test_what_is_no_set_of_boxes_is_refused(change, says):
    arguments = {"data": torch.zeros(1, 4), "format": "XYXY", "canvas_size": (9, 9)} | change
    with pytest.raises(ValueError, match=says):
        BoundingBoxes(**arguments)
