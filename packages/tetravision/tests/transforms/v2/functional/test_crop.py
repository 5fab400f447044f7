"""Cropping."""

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import BoundingBoxes, Image, Mask

places = st.tuples(st.integers(-12, 12), st.integers(-12, 12), st.integers(0, 12), st.integers(0, 12))


def slow_crop(values, top, left, height, width):
    """Pixel by pixel."""
    out = np.zeros((values.shape[0], height, width), values.dtype)
    for y in range(height):
        for x in range(width):
            if 0 <= top + y < values.shape[1] and 0 <= left + x < values.shape[2]:
                out[:, y, x] = values[:, top + y, left + x]
    return out


@given(places)
def test_a_slow_program_agrees_wherever_the_rectangle_lies(place):
    picture = torch.arange(1, 1 + 2 * 5 * 7, dtype=torch.uint8).view(2, 5, 7)
    want = slow_crop(picture.numpy(), *place)
    for kind in (torch.as_tensor, Image, Mask):
        got = F.crop(kind(picture), *place)
        assert type(got) is type(kind(picture))
        assert np.array_equal(got.numpy(), want)


@given(st.tuples(st.integers(-12, 12), st.integers(-12, 12), st.integers(1, 12), st.integers(1, 12)))
def test_pillow_pictures_are_cropped_as_tensors_are(place):
    values = np.random.default_rng(0).integers(0, 255, (5, 7, 3), dtype=np.uint8)
    picture = PIL.Image.fromarray(values)
    assert torch.equal(F.pil_to_tensor(F.crop(picture, *place)), F.crop(F.pil_to_tensor(picture), *place))


def test_a_crop_inside_shares_memory():
    picture = torch.zeros(1, 5, 5)
    F.crop(picture, 1, 1, 2, 2).fill_(1)
    assert picture.sum() == 4


@given(places.filter(lambda place: place[2] and place[3]), st.sampled_from(["XYXY", "XYWH", "CXCYWH"]))
def test_boxes_are_those_of_the_pixels_they_hold(place, format):
    mask = torch.zeros(20, 20)
    mask[4:9, 6:14] = 1  # left 6, top 4, right 14, bottom 9
    boxes = BoundingBoxes([[6.0, 4, 14, 9]], format="XYXY", canvas_size=(20, 20))
    boxes = F.convert_bounding_box_format(boxes, new_format=format)
    out = F.convert_bounding_box_format(F.crop(boxes, *place), new_format="XYXY")
    assert out.canvas_size == place[2:]
    seen = F.crop(mask, *place).nonzero()
    if len(seen):
        (top, left), (bottom, right) = seen.amin(0).tolist(), (seen.amax(0) + 1).tolist()
        assert out.tolist() == [[left, top, right, bottom]]
    else:
        x, y, x2, y2 = out[0].tolist()
        assert (x2 - x) * (y2 - y) == 0


def test_boxes_without_clamping_only_move():
    boxes = BoundingBoxes([[1.0, 2, 5, 6]], format="XYXY", canvas_size=(10, 20), clamping_mode=None)
    assert F.crop(boxes, 1, 2, 3, 4).tolist() == [[-1, 1, 3, 5]]


@pytest.mark.parametrize("size", [3, [3], [4, 5], [9, 5], [4, 12], [10, 13]], ids=str)
@pytest.mark.parametrize("canvas", [(6, 8), (7, 9), (6, 9)], ids=str)
def test_the_middle_stays_the_middle_for_picture_mask_and_boxes(size, canvas):
    mask = torch.zeros(canvas)
    mask[2:4, 3:5] = 1
    boxes = BoundingBoxes([[3.0, 2, 5, 4]], format="XYXY", canvas_size=canvas)
    out = F.center_crop(mask[None], size)
    height, width = out.shape[-2:]
    wanted = [size] * 2 if isinstance(size, int) else size * 2 if len(size) == 1 else size
    assert [height, width] == wanted
    (top, left), (bottom, right) = out[0].nonzero().amin(0).tolist(), (out[0].nonzero().amax(0) + 1).tolist()
    moved = F.center_crop(boxes, size)
    assert moved.tolist() == [[left, top, right, bottom]]
    assert moved.canvas_size == (height, width)
    # as many pixels go on either side, up to one
    rows = torch.arange(1.0, canvas[0] + 1)[None, :, None].expand(1, *canvas)
    kept = F.center_crop(rows, size)[0, :, width // 2]
    inside = kept[kept > 0]
    if height <= canvas[0]:
        assert abs((inside[0] - 1) - (canvas[0] - inside[-1])) <= 1
    else:
        assert abs((kept > 0).int().argmax().item() - (height - canvas[0]) / 2) <= 0.5
    assert torch.equal(F.center_crop(Mask(mask), size) + 0, out[0])


def test_pillow_and_tensor_have_the_same_middle():
    picture = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 255, (7, 10, 3), dtype=np.uint8))
    for size in (3, [4, 5], [9, 5], [12, 13]):
        assert torch.equal(
            F.pil_to_tensor(F.center_crop(picture, size)), F.center_crop(F.pil_to_tensor(picture), size)
        )


def test_three_numbers_are_no_size():
    with pytest.raises(ValueError, match=r"one number or \[height, width\], got \[1, 2, 3\]"):
        F.center_crop(torch.zeros(1, 4, 4), [1, 2, 3])


@pytest.mark.parametrize("place", [(1, 2, 5, 6), (-2, -3, 12, 14)], ids=str)
def test_a_resized_crop_is_a_crop_then_a_resize(place):
    picture = torch.rand(3, 9, 11)
    mask = Mask(picture[0] > 0.5)
    boxes = BoundingBoxes([[2.0, 1, 7, 8]], format="XYWH", canvas_size=(9, 11))
    pillow = PIL.Image.fromarray((picture * 255).to(torch.uint8).permute(1, 2, 0).numpy())
    for each in (picture, Image(picture), mask, boxes):
        want = F.resize(F.crop(each, *place), [4, 5])
        got = F.resized_crop(each, *place, [4, 5])
        assert type(got) is type(want)
        assert_close(
            got + 0 if got.dtype != torch.bool else got | False,
            want + 0 if got.dtype != torch.bool else want | False,
        )
    assert F.resized_crop(boxes, *place, [4, 5]).canvas_size == (4, 5)
    got, want = F.resized_crop(pillow, *place, [4, 5]), F.resize(F.crop(pillow, *place), [4, 5])
    assert got.tobytes() == want.tobytes()
