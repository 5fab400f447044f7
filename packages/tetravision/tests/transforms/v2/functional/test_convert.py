"""From pictures and arrays."""

import numpy as np
import PIL.Image
import pytest
import torch

from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import Image


def test_arrays_pictures_and_tensors_become_the_same_image():
    values = np.random.default_rng(0).integers(0, 255, (4, 5, 3), dtype=np.uint8)
    want = torch.from_numpy(values).permute(2, 0, 1)
    for given in (values, PIL.Image.fromarray(values), want, Image(want)):
        out = F.to_image(given)
        assert type(out) is Image
        assert torch.equal(out + 0, want)


def test_an_array_of_two_dimensions_gains_a_channel_and_is_copied():
    values = np.zeros((4, 5), np.float32)
    out = F.to_image(values)
    assert out.shape == (1, 4, 5)
    out.fill_(1)
    assert values.sum() == 0


def test_something_else_is_refused():
    with pytest.raises(TypeError, match="got list"):
        F.to_image([[1, 2]])
