"""Normalising."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import Image

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def want(picture, mean, std):
    values = picture.double().numpy()
    shape = (-1, 1, 1)
    return torch.from_numpy((values - np.reshape(mean, shape)) / np.reshape(std, shape)).to(picture.dtype)


def layouts(picture):
    last = picture.movedim(-3, -1).contiguous().movedim(-1, -3)
    return {
        "first": picture,
        "last": last,
        "crop of last": last[..., 1:5, 2:6],
        "crop": picture[..., 1:5, 2:6],
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(3, 7, 9), (2, 3, 7, 9), (2, 2, 3, 7, 9)], ids=str)
@pytest.mark.parametrize("layout", ["first", "last", "crop of last", "crop"])
def test_numpy_agrees_in_any_layout(dtype, shape, layout):
    picture = layouts(torch.rand(shape, dtype=dtype))[layout]
    before = picture.clone()
    assert_close(F.normalize(picture, MEAN, STD), want(picture, MEAN, STD))
    assert torch.equal(picture, before)
    assert_close(F.normalize(picture, [0.5], [0.25]), want(picture, [0.5], [0.25]))


@pytest.mark.parametrize("layout", ["first", "last", "crop of last"])
def test_in_place_changes_the_picture_itself(layout):
    picture = layouts(torch.rand(3, 7, 9))[layout]
    answer = want(picture, MEAN, STD)
    assert F.normalize(picture, MEAN, STD, inplace=True) is picture
    assert_close(picture, answer)


def test_an_image_stays_one_and_gets_its_gradient():
    image = Image(torch.rand(3, 4, 4, requires_grad=True) * 1)
    out = F.normalize(image, MEAN, STD)
    assert type(out) is Image
    assert out.requires_grad


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (
            (torch.zeros(3, 2, 2, dtype=torch.uint8), MEAN, STD),
            TypeError,
            "must be floating, got torch.uint8; use to_dtype",
        ),
        ((torch.zeros(2, 2), [0.0], [1.0]), ValueError, r"\[..., C, H, W\], got shape \(2, 2\)"),
        ((torch.zeros(3, 2, 2), MEAN, [0.1, 0.0, 0.1]), ValueError, "std must not hold 0"),
        ((torch.zeros(1, 2, 2), MEAN, STD), ValueError, "mean has 3 values, but the picture has 1 channels"),
        ((torch.zeros(3, 2, 2), MEAN, [0.1, 0.2]), ValueError, "std has 2 values"),
    ],
    ids=["whole", "two dimensions", "zero", "channels", "std"],
)
def test_what_cannot_be_normalised_is_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        F.normalize(*arguments)
