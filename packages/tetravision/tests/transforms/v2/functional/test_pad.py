"""Padding."""

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import BoundingBoxes, Image, Mask

MODES = ["constant", "edge", "reflect", "symmetric"]
frames = st.tuples(*[st.integers(0, 3)] * 4)


@given(frames, st.sampled_from(MODES), st.sampled_from([torch.uint8, torch.float32, torch.int64, torch.bool]))
def test_numpy_agrees_in_every_mode_and_dtype(frame, mode, dtype):
    left, top, right, bottom = frame
    picture = (torch.arange(2 * 4 * 5).view(2, 4, 5) % 7).to(dtype)
    want = np.pad(picture.numpy(), [(0, 0), (top, bottom), (left, right)], mode=mode)
    for kind in (torch.as_tensor, Image, Mask):
        got = F.pad(kind(picture), frame, padding_mode=mode)
        assert type(got) is type(kind(picture))
        assert np.array_equal(got.numpy(), want)


@pytest.mark.parametrize(
    ("padding", "size"), [(2, (8, 9)), ([2], (8, 9)), ([1, 3], (10, 7)), ([1, 2, 3, 4], (10, 9))], ids=str
)
def test_one_two_or_four_numbers_say_how_much(padding, size):
    assert F.pad(torch.zeros(1, 4, 5), padding).shape[-2:] == size
    assert F.pad(PIL.Image.new("RGB", (5, 4)), padding).size == size[::-1]
    boxes = F.pad(BoundingBoxes([0, 0, 1, 1], format="XYXY", canvas_size=(4, 5)), padding)
    assert boxes.canvas_size == size


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["RGB", "L", "P"])
def test_pillow_pictures_are_padded_as_tensors_are(mode, kind):
    values = np.random.default_rng(0).integers(0, 255, (4, 5, 3), dtype=np.uint8)
    picture = PIL.Image.fromarray(values).convert(kind)
    want = F.pad(F.pil_to_tensor(picture), [1, 2, 3, 0], padding_mode=mode)
    got = F.pad(picture, [1, 2, 3, 0], padding_mode=mode)
    assert got.mode == kind
    assert torch.equal(F.pil_to_tensor(got), want)


def test_the_fill_may_differ_by_channel():
    want = torch.tensor([1, 2, 3], dtype=torch.uint8)
    assert torch.equal(F.pad(torch.zeros(3, 1, 1, dtype=torch.uint8), 1, fill=[1, 2, 3])[:, 0, 0], want)
    assert torch.equal(F.pil_to_tensor(F.pad(PIL.Image.new("RGB", (1, 1)), 1, fill=[1, 2, 3]))[:, 0, 0], want)
    assert F.pad(torch.zeros(3, 1, 1), 1, fill=5)[2, 0, 0] == 5
    assert F.pad(torch.zeros(1, 1), 1, fill=[5])[0, 0] == 5


def test_a_negative_padding_cuts():
    picture = torch.arange(20).view(1, 4, 5)
    assert torch.equal(F.pad(picture, [-1, 0, 0, -2]), picture[:, :2, 1:])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"padding": [1, 2, 3]}, "one, two or four whole numbers"),
        ({"padding": 1, "padding_mode": "wrap"}, "one of constant, edge, reflect, symmetric, got 'wrap'"),
        ({"padding": 4, "padding_mode": "reflect"}, "can't mirror more than 3 of 4 pixels, got 4"),
        ({"padding": -1, "padding_mode": "edge"}, "must not be negative"),
        ({"padding": 1, "fill": [1, 2]}, "fill has 2 values"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        F.pad(torch.zeros(3, 4, 4), **arguments)


def test_masks_take_one_label_and_boxes_no_mirror():
    with pytest.raises(ValueError, match="masks have no channels"):
        F.pad(Mask(torch.zeros(3, 4, 4)), 1, fill=[1, 2, 3])
    with pytest.raises(ValueError, match="boxes can't be mirrored"):
        F.pad(BoundingBoxes([0, 0, 1, 1], format="XYXY", canvas_size=(4, 5)), 1, padding_mode="edge")


@pytest.mark.parametrize("format", ["XYXY", "XYWH", "CXCYWH"])
def test_boxes_move_by_left_and_top(format):
    boxes = BoundingBoxes([[1.0, 1, 2, 2]], format=format, canvas_size=(4, 5))
    far = 3 if format == "XYXY" else 0
    assert F.pad(boxes, [3, 3, 0, 0]).tolist() == [[4, 4, 2 + far, 2 + far]]
