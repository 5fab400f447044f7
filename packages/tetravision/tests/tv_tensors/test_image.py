"""Making images."""

import numpy as np
import PIL.Image
import pytest
import torch

from tetravision.tv_tensors import Image


@pytest.mark.parametrize(
    ("data", "shape", "dtype"),
    [
        (torch.zeros(2, 3), (1, 2, 3), torch.float32),
        (torch.zeros(5, 3, 2, 4, dtype=torch.uint8), (5, 3, 2, 4), torch.uint8),
        ([[1, 2]], (1, 1, 2), torch.int64),
        (np.zeros((3, 4, 5), np.float32), (3, 4, 5), torch.float32),
        (PIL.Image.new("RGB", (5, 4)), (3, 4, 5), torch.uint8),
        (PIL.Image.new("L", (5, 4)), (1, 4, 5), torch.uint8),
    ],
    ids=["2-D", "batch", "list", "array", "RGB", "L"],
)
def test_anything_with_rows_of_pixels_becomes_an_image(data, shape, dtype):
    image = Image(data)
    assert type(image) is Image
    assert image.shape == shape
    assert image.dtype == dtype


def test_dtype_and_history_are_as_asked():
    assert Image(torch.zeros(1, 1, 1), dtype=torch.float64).dtype == torch.float64
    source = torch.zeros(1, 1, 1, requires_grad=True)
    assert Image(source * 1).requires_grad
    assert not Image(source, requires_grad=False).requires_grad


def test_fewer_than_two_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"\[H, W\], got shape \(3,\)"):
        Image(torch.zeros(3))
