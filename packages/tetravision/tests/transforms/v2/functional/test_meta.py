"""Sizes and channels."""

import PIL.Image
import pytest
import torch

from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import BoundingBoxes, Image, Mask

PICTURES = pytest.mark.parametrize(
    ("picture", "channels"),
    [
        (torch.zeros(3, 4, 5), 3),
        (torch.zeros(7, 2, 4, 5), 2),
        (torch.zeros(4, 5), 1),
        (Image(torch.zeros(3, 4, 5)), 3),
        (PIL.Image.new("RGB", (5, 4)), 3),
        (PIL.Image.new("L", (5, 4)), 1),
    ],
    ids=["CHW", "BCHW", "HW", "Image", "RGB", "L"],
)


@PICTURES
def test_pictures_have_channels_height_and_width(picture, channels):
    assert F.get_size(picture) == [4, 5]
    assert F.get_dimensions(picture) == [channels, 4, 5]
    assert F.get_num_channels(picture) == channels


def test_masks_and_boxes_have_a_size():
    assert F.get_size(Mask(torch.zeros(9, 4, 5))) == [4, 5]
    assert F.get_size(BoundingBoxes([0, 0, 1, 1], format="XYXY", canvas_size=(4, 5))) == [4, 5]


def test_a_vector_has_no_channels():
    with pytest.raises(TypeError, match=r"got shape \(4,\)"):
        F.get_num_channels(torch.zeros(4))
