"""Pillow pictures as tensors."""

import numpy as np
import PIL.Image
import pytest
import torch

from tetravision.transforms.v2.functional import pil_to_tensor


@pytest.mark.parametrize(
    ("mode", "channels", "dtype"),
    [
        ("RGB", 3, torch.uint8),
        ("RGBA", 4, torch.uint8),
        ("L", 1, torch.uint8),
        ("1", 1, torch.bool),
        ("I", 1, torch.int32),
        ("F", 1, torch.float32),
        ("I;16", 1, torch.uint16),
        ("P", 1, torch.uint8),
    ],
)
def test_every_mode_has_its_dtype_and_channels(mode, channels, dtype):
    out = pil_to_tensor(PIL.Image.new(mode, (5, 4)))
    assert out.shape == (channels, 4, 5)
    assert out.dtype == dtype


def test_pixels_keep_their_place():
    values = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    out = pil_to_tensor(PIL.Image.fromarray(values))
    assert torch.equal(out, torch.from_numpy(values).permute(2, 0, 1))
    out[0, 0, 0] = 99
    assert values[0, 0, 0] == 0


def test_an_array_is_refused_with_the_mend():
    with pytest.raises(TypeError, match="got ndarray; for an array use to_image"):
        pil_to_tensor(np.zeros((2, 2)))
