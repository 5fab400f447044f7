"""Making masks."""

import PIL.Image
import pytest
import torch

from tetravision.tv_tensors import Mask


@pytest.mark.parametrize("shape", [(2, 3), (5, 2, 3), (2, 5, 2, 3)])
def test_masks_keep_their_shape(shape):
    assert Mask(torch.zeros(shape, dtype=torch.bool)).shape == shape


def test_a_pillow_mask_has_one_channel():
    assert Mask(PIL.Image.new("1", (5, 4))).dtype == torch.bool
    assert Mask(PIL.Image.new("L", (5, 4))).shape == (1, 4, 5)


def test_fewer_than_two_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"\[..., H, W\], got shape \(3,\)"):
        Mask(torch.zeros(3))
