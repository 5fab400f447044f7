"""Resizing."""

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetravision.transforms import InterpolationMode as Mode
from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import BoundingBoxes, Image, Mask

sides = st.integers(1, 40)


def photo(height=37, width=53, channels=3):
    """A smooth picture with an edge, uint8."""
    y, x = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    planes = [127 + 90 * torch.sin(6 * x + k) * torch.cos(5 * y) + 30 * (x > y) for k in range(channels)]
    return torch.stack(planes).to(torch.uint8)


@given(sides, sides, sides, sides)
def test_two_sides_are_taken_as_they_are(height, width, new_height, new_width):
    picture = torch.zeros(1, height, width, dtype=torch.uint8)
    assert F.resize(picture, [new_height, new_width]).shape == (1, new_height, new_width)


@given(sides, sides, sides)
def test_one_number_is_the_shorter_side_and_the_aspect_stays(height, width, size):
    h, w = F.resize(torch.zeros(1, height, width), size).shape[-2:]
    assert min(h, w) == size
    assert max(h, w) == int(size * max(height, width) / min(height, width))
    assert (h <= w) == (height <= width) or h == w


@given(sides, sides, sides, st.integers(1, 20))
def test_max_size_caps_the_longer_side(height, width, size, more):
    aspect = max(height, width) / min(height, width)
    if (size + more) / aspect < 1:
        return  # the shorter side would vanish
    h, w = F.resize(torch.zeros(1, height, width), size, max_size=size + more).shape[-2:]
    assert max(h, w) <= size + more


def test_no_size_means_the_largest_below_max_size():
    assert F.resize(torch.zeros(3, 20, 30), None, max_size=60).shape == (3, 40, 60)


@pytest.mark.parametrize(
    "arguments",
    [{"size": None}, {"size": [2, 3], "max_size": 9}, {"size": 5, "max_size": 5}, {"size": [1, 2, 3]}],
    ids=str,
)
def test_sizes_that_do_not_go_together_are_refused(arguments):
    with pytest.raises(ValueError, match="resize: size"):
        F.resize(torch.zeros(1, 4, 4), **arguments)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("mode", "off"), [(Mode.BILINEAR, 1), (Mode.BICUBIC, 2)], ids=str
)  # it overshoots: two roundings
@pytest.mark.parametrize("size", [[20, 31], [60, 80], [37, 20]], ids=str)
def test_pillow_agrees_within_its_rounding(mode, off, size):
    picture = photo()
    want = F.pil_to_tensor(F.resize(PIL.Image.fromarray(picture.permute(1, 2, 0).numpy()), size, mode))
    got = F.resize(picture, size, mode)
    assert got.dtype == torch.uint8
    assert (got.int() - want.int()).abs().max() <= off


@pytest.mark.parametrize("size", [[20, 31], [74, 106], [5, 7]], ids=str)
def test_nearest_exact_is_that_of_pillow(size):
    picture = photo()
    want = F.pil_to_tensor(
        F.resize(PIL.Image.fromarray(picture.permute(1, 2, 0).numpy()), size, Mode.NEAREST)
    )
    assert torch.equal(F.resize(picture, size, Mode.NEAREST_EXACT), want)


@given(
    sides,
    sides,
    st.sampled_from([torch.uint8, torch.int16, torch.int64, torch.bool, torch.float16, torch.float64]),
)
def test_nearest_takes_values_at_evenly_spaced_places_in_every_dtype(old, new, dtype):
    line = torch.arange(old).to(dtype)
    at = (np.arange(new, dtype=np.float32) * np.float32(old / new)).astype(np.int64).clip(max=old - 1)
    assert torch.equal(
        F.resize(line.expand(2, 1, old), [2, new], Mode.NEAREST)[1, 0], line[torch.from_numpy(at)]
    )


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16, torch.float64], ids=str
)
def test_smooth_modes_serve_every_dtype(dtype):
    picture = (photo() // 2).to(dtype)
    want = F.resize(picture.to(torch.float64), [20, 31])
    got = F.resize(picture, [20, 31])
    assert got.dtype == dtype
    off = 0.501 if not dtype.is_floating_point else 127 * torch.finfo(dtype).eps
    assert (got.double() - want).abs().max() <= off


def test_a_picture_of_bools_stays_one():
    assert torch.equal(
        F.resize(torch.ones(1, 8, 8, dtype=torch.bool), [3, 3]), torch.ones(1, 3, 3, dtype=torch.bool)
    )


def test_averaging_is_asked_for_by_antialias():
    checks = torch.tensor([[0.0, 1.0]]).repeat(8, 8)[None]
    assert_close(
        F.resize(checks, [4, 4], antialias=True)[:, :, 1:-1], torch.full((1, 4, 2), 0.5), rtol=0, atol=0.1
    )
    want = torch.nn.functional.interpolate(checks[None], [4, 4], mode="bilinear")[0]
    assert_close(F.resize(checks, [4, 4], antialias=False), want)


def test_the_layout_in_memory_does_not_matter_and_is_kept():
    picture = photo()
    last = picture.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    for mode in (Mode.BILINEAR, Mode.NEAREST):
        assert F.resize(last, [20, 31], mode).stride(0) == 1
        assert torch.equal(F.resize(last, [20, 60], mode), F.resize(picture, [20, 60], mode))
    assert torch.equal(F.resize(last, [20, 31]), F.resize(picture, [20, 31]))
    assert torch.equal(
        F.resize(picture[:, 3:30, 5:40], [9, 9]), F.resize(picture[:, 3:30, 5:40].contiguous(), [9, 9])
    )


def test_any_number_of_leading_dimensions_is_served():
    picture = photo()
    batch = torch.stack([picture, picture.flip(-1)])[None]
    assert torch.equal(F.resize(batch, [9, 8])[0, 1], F.resize(picture.flip(-1), [9, 8]))
    assert torch.equal(F.resize(picture[0], [9, 8]), F.resize(picture[:1], [9, 8])[0])
    assert F.resize(torch.zeros(0, 3, 5, 5), [2, 2]).shape == (0, 3, 2, 2)


def test_a_picture_of_the_right_size_is_returned_itself():
    picture = photo()
    assert F.resize(picture, [37, 53]) is picture
    assert type(F.resize(Image(picture), [37, 53])) is Image
    boxes = BoundingBoxes([[1.0, 2, 5, 7]], format="XYXY", canvas_size=(37, 53))
    assert F.resize(boxes, [37, 53]).data_ptr() == boxes.data_ptr()


def test_filters_of_pillow_are_refused_for_tensors():
    with pytest.raises(ValueError, match="tensors have no hamming filter"):
        F.resize(photo(), [9, 9], Mode.HAMMING)
    with pytest.raises(ValueError, match="lanczos always averages"):
        F.resize(photo(), [9, 9], Mode.LANCZOS, antialias=False)
    assert F.resize(PIL.Image.new("L", (5, 4)), [2, 3], Mode.HAMMING).size == (3, 2)


def test_a_mask_holds_no_new_labels_whatever_the_mode():
    mask = Mask(torch.tensor([[0, 7], [9, 1000]]))
    out = F.resize(mask, [5, 5], Mode.BICUBIC)
    assert type(out) is Mask
    assert set(out.unique().tolist()) == {0, 7, 9, 1000}
    assert F.resize(Mask(torch.zeros(0, 4, 4, dtype=torch.bool)), [2, 2]).shape == (0, 2, 2)
    exact = F.resize(Mask(torch.arange(25).view(5, 5)), [3, 3], Mode.NEAREST_EXACT)
    assert exact.tolist() == [[0, 2, 4], [10, 12, 14], [20, 22, 24]]


@given(sides, sides, sides, sides, st.sampled_from(["XYXY", "XYWH", "CXCYWH"]))
def test_boxes_scale_with_their_canvas_and_back(height, width, new_height, new_width, format):
    boxes = BoundingBoxes(
        torch.tensor([[1.0, 2, 5, 7]], dtype=torch.float64), format=format, canvas_size=(height, width)
    )
    out = F.resize(boxes, [new_height, new_width])
    assert out.canvas_size == (new_height, new_width)
    x, y = new_width / width, new_height / height
    assert_close(out + 0, torch.tensor([[1 * x, 2 * y, 5 * x, 7 * y]], dtype=torch.float64))
    assert_close(F.resize(out, [height, width]) + 0, boxes + 0)


def test_whole_boxes_stay_whole():
    boxes = BoundingBoxes([[1, 2, 5, 7]], format="XYXY", canvas_size=(10, 20))
    assert F.resize(boxes, [15, 30]).tolist() == [[1, 3, 7, 10]]
