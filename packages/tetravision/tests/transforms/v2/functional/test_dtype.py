"""Types of values and their ranges."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import BoundingBoxes, Image, Mask

WHOLE = {torch.uint8: 8, torch.int8: 7, torch.int16: 15, torch.uint16: 16, torch.int32: 31}
REAL = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize(("old", "new"), list(itertools.product(WHOLE, REAL)), ids=str)
def test_the_largest_whole_number_becomes_one(old, new):
    values = torch.tensor([0, 2 ** WHOLE[old] - 1]).to(old)
    out = F.to_dtype(values, new, scale=True)
    assert out.dtype == new
    if new != torch.float16 or WHOLE[old] < 16:  # float16 ends at 65,504
        assert_close(out.double(), torch.tensor([0.0, 1.0]).double(), rtol=0, atol=torch.finfo(new).eps)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(REAL, list(WHOLE)[:4])), ids=str)
def test_one_becomes_the_largest_whole_number_and_steps_are_equal(old, new):
    top = 2 ** WHOLE[new] - 1
    assert F.to_dtype(torch.tensor([0.0, 1.0], dtype=old), new, scale=True).to(torch.int64).tolist() == [
        0,
        top,
    ]
    ramp = F.to_dtype(torch.linspace(0, 1, 1001, dtype=torch.float64), new, scale=True).to(torch.int64)
    assert (ramp.diff() >= 0).all()


@given(
    st.lists(st.integers(0, 255), min_size=1, max_size=20),
    st.sampled_from([torch.float32, torch.float64, torch.int16, torch.uint16]),
)
def test_uint8_comes_back_from_wider_types(values, through):
    picture = torch.tensor(values, dtype=torch.uint8)
    assert torch.equal(F.to_dtype(F.to_dtype(picture, through, scale=True), torch.uint8, scale=True), picture)


@pytest.mark.parametrize(
    ("old", "new"),
    list(itertools.permutations([torch.uint8, torch.int8, torch.int16, torch.uint16], 2)),
    ids=str,
)
def test_between_whole_types_the_leading_bits_stay(old, new):
    value = 5 << (WHOLE[old] - 3)
    out = F.to_dtype(torch.tensor([value]).to(old), new, scale=True)
    assert out.dtype == new
    assert out.to(torch.int64).item() == 5 << (WHOLE[new] - 3)


def test_without_scale_values_are_only_cast():
    assert F.to_dtype(torch.tensor([3.7]), torch.uint8).tolist() == [3]
    assert F.to_dtype(torch.tensor([200], dtype=torch.uint8)).tolist() == [200.0]
    assert F.to_dtype(torch.tensor([0.5]), torch.float64, scale=True).tolist() == [0.5]


def test_a_tensor_of_the_type_is_returned_itself():
    picture = torch.zeros(2)
    assert F.to_dtype(picture, torch.float32, scale=True) is picture


def test_masks_and_boxes_have_no_range():
    mask = F.to_dtype(Mask(torch.full((1, 1), 7, dtype=torch.uint8)), torch.float32, scale=True)
    assert (type(mask), mask.item()) == (Mask, 7.0)
    boxes = F.to_dtype(
        BoundingBoxes([1, 2, 3, 4], format="XYXY", canvas_size=(5, 6)), torch.float32, scale=True
    )
    assert (type(boxes), boxes.tolist(), boxes.canvas_size) == (BoundingBoxes, [[1, 2, 3, 4]], (5, 6))
    assert type(F.to_dtype(Image(torch.zeros(1, 1, 1)), torch.uint8, scale=True)) is Image


@pytest.mark.parametrize(
    ("old", "new"), [(torch.float32, torch.int32), (torch.float16, torch.int64), (torch.float64, torch.int64)]
)
def test_a_type_too_wide_to_count_in_is_refused(old, new):
    with pytest.raises(RuntimeError, match="can't count the steps"):
        F.to_dtype(torch.zeros(1, dtype=old), new, scale=True)
