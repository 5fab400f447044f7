"""Mirroring."""

import PIL.Image
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import BoundingBoxes, Image, Mask

rows = st.lists(st.tuples(*[st.integers(0, 9)] * 4), min_size=0, max_size=4)


@given(rows, st.sampled_from(["XYXY", "XYWH", "CXCYWH"]), st.sampled_from([torch.float32, torch.int64]))
def test_twice_is_nothing(rows, format, dtype):
    boxes = torch.tensor(rows, dtype=dtype).reshape(-1, 4)
    typed = BoundingBoxes(boxes, format=format, canvas_size=(12, 19))
    twice = F.horizontal_flip(F.horizontal_flip(typed))
    assert torch.equal(twice + 0, boxes)
    assert twice.canvas_size == (12, 19)


@given(rows, st.sampled_from(["XYWH", "CXCYWH"]), st.sampled_from([torch.float32, torch.int64]))
def test_flipping_does_not_ask_how_a_box_is_written(rows, format, dtype):
    boxes = torch.tensor(rows, dtype=dtype).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    typed = BoundingBoxes(boxes, format="XYXY", canvas_size=(12, 19))
    other = F.horizontal_flip(F.convert_bounding_box_format(typed, new_format=format))
    assert torch.equal(
        F.convert_bounding_box_format(other, new_format="XYXY") + 0, F.horizontal_flip(typed) + 0
    )


@pytest.mark.smoke
def test_picture_mask_and_box_turn_together():
    picture = torch.zeros(3, 5, 8, dtype=torch.uint8)
    picture[:, 1:3, 1:4] = 9
    out = F.horizontal_flip(Image(picture))
    assert torch.equal(out + 0, picture.flip(-1))
    assert torch.equal(F.horizontal_flip(Mask(picture[0] > 0)) | False, picture[0].flip(-1) > 0)
    boxes = F.horizontal_flip(BoundingBoxes([1, 1, 4, 3], format="XYXY", canvas_size=(5, 8)))
    assert boxes.tolist() == [[4, 1, 7, 3]]
    assert (out[:, 1:3, 4:7] == 9).all()


def test_a_pillow_picture_turns_too():
    picture = PIL.Image.linear_gradient("L").crop((0, 0, 9, 200)).rotate(30)
    assert torch.equal(F.pil_to_tensor(F.hflip(picture)), F.pil_to_tensor(picture).flip(-1))
