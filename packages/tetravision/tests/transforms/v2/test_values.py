"""ToImage, PILToTensor, ToDtype, Normalize."""

import numpy as np
import PIL.Image
import pytest
import torch

from tetravision.transforms import v2
from tetravision.tv_tensors import BoundingBoxes, Image, Mask


def sample():
    return {
        "image": Image(torch.full((3, 2, 2), 255, dtype=torch.uint8)),
        "mask": Mask(torch.full((2, 2), 3, dtype=torch.uint8)),
        "boxes": BoundingBoxes([0, 0, 1, 1], format="XYXY", canvas_size=(2, 2)),
        "label": torch.tensor(4),
    }


def dtypes(out):
    return {key: value.dtype for key, value in out.items()}


@pytest.mark.smoke
def test_a_dtype_is_for_pictures_alone():
    out = v2.ToDtype(torch.float32, scale=True)(sample())
    assert dtypes(out) == {
        "image": torch.float32,
        "mask": torch.uint8,
        "boxes": torch.int64,
        "label": torch.int64,
    }
    assert out["image"].max() == 1


def test_a_dict_says_it_for_each_type():
    out = v2.ToDtype({Image: torch.float32, Mask: torch.int64, "others": None}, scale=True)(sample())
    assert dtypes(out) == {
        "image": torch.float32,
        "mask": torch.int64,
        "boxes": torch.int64,
        "label": torch.int64,
    }
    assert out["mask"].max() == 3
    out = v2.ToDtype({"others": torch.float64})(sample())
    assert dtypes(out) == {
        "image": torch.float64,
        "mask": torch.float64,
        "boxes": torch.float64,
        "label": torch.int64,
    }
    assert v2.ToDtype({torch.Tensor: torch.float16})(torch.zeros(1, 2, 2)).dtype == torch.float16


def test_a_type_that_a_dict_forgets_is_named():
    with pytest.raises(ValueError, match="says nothing about Mask; add it, or 'others': None"):
        v2.ToDtype({Image: torch.float32})(sample())
    with pytest.raises(TypeError, match=r"must be a torch\.dtype or a dict"):
        v2.ToDtype("float32")


def test_pictures_and_arrays_become_images_and_boxes_stay():
    values = np.zeros((2, 2, 3), np.uint8)
    out = v2.ToImage()({
        "a": PIL.Image.fromarray(values),
        "b": values,
        "c": torch.zeros(2),
        "boxes": sample()["boxes"],
    })
    assert [type(value) for value in out.values()] == [Image, Image, torch.Tensor, BoundingBoxes]
    assert type(v2.ToImage()(torch.zeros(3, 2, 2))) is Image


def test_pillow_pictures_become_tensors():
    tensor, label = v2.PILToTensor()(PIL.Image.new("RGB", (3, 2)), torch.tensor(3))
    assert type(tensor) is torch.Tensor
    assert tensor.shape == (3, 2, 3)
    assert label == 3


def test_normalising_leaves_masks_boxes_and_labels():
    given = v2.ToDtype(torch.float32, scale=True)(sample())
    out = v2.Normalize([0.5, 0.5, 0.0], [0.25, 0.5, 1.0])(given)
    assert out["image"][:, 0, 0].tolist() == [2.0, 1.0, 1.0]
    assert all(out[key] is given[key] for key in ("mask", "boxes", "label"))


def test_normalising_a_pillow_picture_says_what_to_put_before():
    with pytest.raises(TypeError, match="put ToImage and ToDtype"):
        v2.Normalize([0.5], [0.5])(PIL.Image.new("RGB", (2, 2)))
