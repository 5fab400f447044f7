"""What every transform does with the structure it is given."""

import PIL.Image
import pytest
import torch

from tetravision.transforms import v2
from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import BoundingBoxes, Image, Mask, wrap


class AddOne(v2.Transform):
    """Adds one to what it is given."""

    def transform(self, inpt, params):
        return wrap(inpt + 1, like=inpt) if isinstance(inpt, (Image, Mask)) else inpt + 1


def image():
    return Image(torch.zeros(1, 2, 2))


@pytest.mark.smoke
def test_any_structure_comes_back_as_it_was():
    sample = {"image": image(), "nested": [1, ("label", Mask(torch.zeros(2, 2))), {"none": None}]}
    out = AddOne()(sample)
    assert list(out) == ["image", "nested"]
    assert out["nested"][0] == 1
    assert out["nested"][1][0] == "label"
    assert out["nested"][2] == {"none": None}
    assert out["image"].sum() == 4
    assert out["nested"][1][1].sum() == 4
    assert sample["image"].sum() == 0


def test_several_arguments_come_back_as_a_tuple_and_one_as_itself():
    first, second = AddOne()(image(), "label")
    assert first.sum() == 4
    assert second == "label"
    assert type(AddOne()(image())) is Image
    assert AddOne()([image()])[0].sum() == 4


@pytest.mark.parametrize(
    ("sample", "changed"),
    [
        ([torch.zeros(1), torch.zeros(1)], [1, 0]),
        ([torch.zeros(1), image()], [0, 4]),
        ([image(), torch.zeros(1)], [4, 0]),
        ([Mask(torch.zeros(1, 1)), torch.zeros(1), torch.zeros(1)], [1, 1, 0]),
    ],
    ids=["first of two", "before an image", "after an image", "beside a mask"],
)
def test_only_the_first_plain_tensor_is_a_picture_and_only_without_another(sample, changed):
    assert [leaf.sum().item() for leaf in AddOne()(sample)] == changed


def test_a_plain_tensor_beside_a_pillow_picture_is_left_alone():
    label = torch.tensor([3])
    picture, same = v2.Resize(2)(PIL.Image.new("L", (4, 4)), label)
    assert picture.size == (2, 2)
    assert same is label


def test_parameters_are_made_once_from_the_leaves_that_will_be_transformed():
    calls = []

    class Count(v2.Transform):
        def check_inputs(self, flat_inputs):
            calls.append(("check", len(flat_inputs)))

        def make_params(self, flat_inputs):
            calls.append(("make", [type(leaf).__name__ for leaf in flat_inputs]))
            return {"number": 7}

        def transform(self, inpt, params):
            calls.append(("transform", params["number"]))
            return inpt

    Count()({"a": image(), "b": "text", "c": torch.zeros(1), "d": Mask(torch.zeros(1, 1))})
    assert calls == [("check", 4), ("make", ["Image", "Mask"]), ("transform", 7), ("transform", 7)]


def test_call_kernel_passes_what_the_functional_does_not_know():
    boxes = BoundingBoxes([0, 0, 1, 1], format="XYXY", canvas_size=(2, 2))
    assert v2.Transform().call_kernel(F.normalize, boxes, mean=[0.0], std=[1.0]) is boxes


def test_a_transform_without_a_transform_says_so():
    with pytest.raises(TypeError, match=r"Transform: a transform must override transform\(inpt, params\)"):
        v2.Transform()(image())
    with pytest.raises(TypeError, match="give it at least one argument"):
        v2.Resize(3)()


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (v2.Resize(3), "Resize(size=[3], interpolation=bilinear, antialias=True)"),
        (v2.CenterCrop((3, 4)), "CenterCrop(size=(3, 4))"),
        (v2.RandomHorizontalFlip(0.25), "RandomHorizontalFlip(p=0.25)"),
        (v2.Normalize((0.5,), (0.25,)), "Normalize(mean=[0.5], std=[0.25], inplace=False)"),
        (v2.ToDtype(torch.float32, scale=True), "ToDtype(dtype=torch.float32, scale=True)"),
        (v2.ToImage(), "ToImage()"),
        (
            v2.SanitizeBoundingBoxes(),
            "SanitizeBoundingBoxes(min_size=1.0, min_area=1.0, labels_getter=default)",
        ),
    ],
    ids=lambda value: value.split("(")[0] if isinstance(value, str) else "",
)
def test_repr_is_the_call(transform, text):
    assert repr(transform) == text


def test_picture_mask_and_boxes_must_agree_in_size_where_that_is_asked():
    with pytest.raises(ValueError, match="must share one height and width; found 2x2, 4x5"):
        v2.RandomResizedCrop(2)(image(), Mask(torch.zeros(4, 5)))
    with pytest.raises(TypeError, match="found nothing with a size"):
        v2.RandomResizedCrop(2)("label")
