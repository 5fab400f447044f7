"""Which kernel serves which type."""

import PIL.Image
import pytest
import torch
from torch import nn

from tetravision.transforms import v2
from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import BoundingBoxes, Image, Mask, TVTensor, wrap


def test_a_parameter_is_served_as_a_tensor_and_a_jpeg_as_a_picture():
    assert F.get_size(nn.Parameter(torch.zeros(3, 4, 5))) == [4, 5]

    class Jpeg(PIL.Image.Image): ...

    picture = PIL.Image.new("L", (5, 4))
    picture.__class__ = Jpeg
    assert F.get_size(picture) == [4, 5]


def test_a_subclass_of_image_uses_its_kernels_and_stays_itself():
    class Thermal(Image): ...

    out = F.resize(Thermal(torch.zeros(1, 4, 4)), [2, 2])
    assert type(out) is Thermal
    assert out.shape == (1, 2, 2)


def test_a_type_without_a_kernel_is_refused_by_a_functional_and_passed_by_a_transform():
    class Depth(TVTensor): ...

    depth = Depth.wrap(torch.zeros(1, 4, 4))
    with pytest.raises(
        TypeError,
        match=r"resize: no kernel for <.*Depth'>; there are some for torch.Tensor, tetravision.Image, .*PIL.Image",
    ):
        F.resize(depth, [2, 2])
    with pytest.raises(TypeError, match="no kernel for <class 'int'>"):
        F.resize(3, [2, 2])
    with pytest.raises(TypeError, match=r"normalize: no kernel for <.*BoundingBoxes'>"):
        F.normalize(BoundingBoxes([0, 0, 1, 1], format="XYXY", canvas_size=(2, 2)), [0.0], [1.0])
    assert v2.Resize(2)(depth) is depth


def test_a_registered_kernel_serves_the_type_and_its_subclasses_also_after_a_first_look():
    class Depth(TVTensor): ...

    class Near(Depth): ...

    near = Near.wrap(torch.tensor([[1, 2]]))
    assert v2.RandomHorizontalFlip(1.0)(near) is near

    @F.register_kernel(F.horizontal_flip, Depth)
    def flip(depth):
        return wrap(depth.flip(-1), like=depth)

    out = v2.RandomHorizontalFlip(1.0)(near)
    assert type(out) is Near
    assert out.tolist() == [[2, 1]]


def test_a_kernel_gets_the_other_arguments_by_name():
    class Depth(TVTensor): ...

    seen = {}

    @F.register_kernel(F.crop, Depth)
    def crop(depth, **arguments):
        seen.update(arguments)
        return depth

    F.crop(Depth.wrap(torch.zeros(4, 4)), 1, 2, 3, 4)
    assert seen == {"top": 1, "left": 2, "height": 3, "width": 4}


def test_a_functional_may_be_named():
    class Depth(TVTensor): ...

    F.register_kernel("center_crop", Depth)(lambda depth, output_size: depth)
    depth = Depth.wrap(torch.zeros(4, 4))
    assert F.center_crop(depth, 2) is depth


def test_kernels_go_to_functionals_of_ours_and_types_of_yours():
    class Depth(TVTensor): ...

    for functional in (F.resize_image, "resise", Image):
        with pytest.raises(ValueError, match=r"functional must be one of center_crop, crop, .*got "):
            F.register_kernel(functional, Depth)
    for cls in (torch.Tensor, nn.Parameter, PIL.Image.Image, object, "Image", TVTensor, Image, BoundingBoxes):
        with pytest.raises(ValueError, match="must be a subclass of TVTensor of your own"):
            F.register_kernel(F.resize, cls)


def test_a_type_has_one_kernel():
    class Depth(TVTensor): ...

    F.register_kernel(F.resize, Depth)(lambda depth, **arguments: depth)
    with pytest.raises(ValueError, match="has a kernel for resize already"):
        F.register_kernel(F.resize, Depth)


def test_pure_tensors_are_those_without_a_meaning():
    assert F.is_pure_tensor(torch.zeros(1))
    assert not F.is_pure_tensor(Mask(torch.zeros(1, 1)))
    assert not F.is_pure_tensor(3)
