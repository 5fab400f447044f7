"""What every tv_tensor does: keep its type where it should, its memory, its metadata."""

import copy
import gc
import io
import pickle
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetravision.tv_tensors import (
    BoundingBoxes,
    BoundingBoxFormat,
    Image,
    Mask,
    TVTensor,
    set_return_type,
    wrap,
)


def boxes():
    return BoundingBoxes(
        torch.tensor([[1.0, 2, 5, 6]]), format="XYWH", canvas_size=(10, 20), clamping_mode=None
    )


def metadata(value):
    return {name: getattr(value, name) for name in value.metadata_names}


@pytest.fixture(params=["Image", "Mask", "BoundingBoxes"])
def value(request):
    return {
        "Image": lambda: Image(torch.zeros(3, 2, 4)),
        "Mask": lambda: Mask(torch.zeros(2, 4, dtype=torch.bool)),
        "BoundingBoxes": boxes,
    }[request.param]()


@pytest.mark.smoke
def test_an_ordinary_operation_gives_a_plain_tensor(value):
    for out in (
        value + 1,
        value.float(),
        value.cpu(),
        value[0],
        value.reshape(-1),
        torch.stack([value, value]),
    ):
        assert type(out) is torch.Tensor


@pytest.mark.parametrize(
    "keep",
    [
        lambda x: x.clone(),
        lambda x: x.detach(),
        lambda x: x.to(torch.float64),
        lambda x: x.to("cpu"),
        lambda x: x.to(torch.float64).requires_grad_(),
    ],
    ids=["clone", "detach", "to dtype", "to device", "requires_grad_"],
)
def test_copies_keep_type_and_metadata(value, keep):
    out = keep(value)
    assert type(out) is type(value)
    assert metadata(out) == metadata(value)


def test_an_operation_in_place_gives_the_object_itself(value):
    assert value.zero_() is value
    assert torch.logical_not(value, out=value) is value
    value[0] = 0
    assert (value[0] == 0).all()


def test_augmented_assignment_stays_an_image():
    image = same = Image(torch.zeros(1, 2, 2))
    image += 1
    assert image is same
    assert type(image) is Image
    assert image.sum() == 4


def test_memory_is_shared_with_the_tensor_it_was_made_of(value):
    plain = torch.zeros(2, 3, 4)
    wrapped = wrap(plain, like=value)
    plain.fill_(7)
    assert (wrapped + 0 == 7).all()
    wrapped.zero_()
    assert (plain == 0).all()


def test_the_plain_view_follows_changes_of_shape_and_memory():
    image = Image(torch.zeros(1, 2, 3))
    image.unsqueeze_(0)
    assert image.shape == (1, 1, 2, 3)
    image.data = torch.ones(5, 5)
    assert image.shape == (5, 5)
    assert image.sum() == 25


@pytest.mark.parametrize(
    "through",
    [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))],
    ids=["deepcopy", "copy", "pickle"],
)
def test_copies_and_pickles_are_equal_and_typed(value, through):
    out = through(value)
    assert type(out) is type(value)
    assert torch.equal(out, value)
    assert metadata(out) == metadata(value)


def test_a_deepcopy_shares_no_memory_and_keeps_what_a_user_has_set():
    image = Image(torch.zeros(1, 2, 2), requires_grad=True)
    image.camera = "left"
    out = copy.deepcopy(image)
    assert out.camera == "left"
    assert out.requires_grad
    with torch.no_grad():
        out.fill_(1)
    assert image.sum() == 0


def test_torch_load_reads_it_back_without_unpickling_at_will(value):
    file = io.BytesIO()
    torch.save({"value": value}, file)
    file.seek(0)
    out = torch.load(file, weights_only=True)["value"]
    assert type(out) is type(value)
    assert metadata(out) == metadata(value)


def test_a_leaf_collects_its_gradient():
    image = Image(torch.rand(1, 2, 2), requires_grad=True)
    assert image.is_leaf
    (image * 3).sum().backward()
    assert_close(torch.as_tensor(image.grad), torch.full((1, 2, 2), 3.0))


def test_history_goes_through_a_wrapped_tensor():
    source = torch.rand(1, 2, 2, requires_grad=True)
    (Image(source * 2) * 3).sum().backward()
    assert_close(source.grad, torch.full((1, 2, 2), 6.0))


def makers():
    return [
        lambda: Image(torch.zeros(1, 2, 2)),
        lambda: Image(torch.zeros(1, 2, 2)).add_(1),
        lambda: Image(torch.zeros(1, 2, 2), requires_grad=True),
        lambda: torch.zeros(1, 2, 2).as_subclass(Image),
        lambda: Image(torch.zeros(1, 2, 2)).unsqueeze_(0),
    ]


@pytest.mark.parametrize("make", makers())
def test_nothing_keeps_a_dropped_image_alive(make):
    image = make()
    seen = weakref.ref(image)
    del image
    gc.collect()
    assert seen() is None


def test_wrap_keeps_a_users_own_subclass():
    class Faces(BoundingBoxes):
        pass

    faces = boxes().as_subclass(Faces)
    faces.format, faces.canvas_size, faces.clamping_mode = BoundingBoxFormat.XYXY, (9, 9), "soft"
    out = wrap(torch.zeros(1, 4), like=faces)
    assert type(out) is Faces
    assert out.canvas_size == (9, 9)


def test_wrap_takes_metadata_that_differs():
    out = wrap(torch.zeros(2, 4), like=boxes(), format=BoundingBoxFormat.XYXY, canvas_size=(3, 4))
    assert (out.format, out.canvas_size, out.clamping_mode) == (BoundingBoxFormat.XYXY, (3, 4), None)


def test_wrap_refuses_unknown_metadata_and_plain_likes():
    with pytest.raises(TypeError, match="unknown metadata colour; known are: format"):
        wrap(torch.zeros(1, 4), like=boxes(), colour=1)
    with pytest.raises(TypeError, match="like must be a tv_tensor, got Tensor"):
        wrap(torch.zeros(1, 4), like=torch.zeros(1))
    with pytest.raises(TypeError, match="format= is missing"):
        BoundingBoxes.wrap(torch.zeros(1, 4), canvas_size=(1, 1))


def test_a_type_of_ones_own_carries_its_metadata():
    class Depth(TVTensor):
        metadata_names = ("unit",)

    depth = Depth.wrap(torch.zeros(2, 2), unit="mm")
    assert depth.clone().unit == "mm"
    assert copy.deepcopy(depth).unit == "mm"
    assert "unit=mm" in repr(depth)


def test_types_mix_in_an_operation():
    assert type(Image(torch.zeros(1, 2, 2)) * Mask(torch.ones(2, 2))) is torch.Tensor


@pytest.mark.smoke
def test_repr_names_the_type_and_its_metadata():
    assert repr(boxes()) == (
        "BoundingBoxes([[1., 2., 5., 6.]], format=BoundingBoxFormat.XYWH, canvas_size=(10, 20), clamping_mode=None)"
    )
    assert repr(Image(torch.zeros(1, 2, 1))) == "Image([[[0.],\n        [0.]]])"


def test_shape_and_its_kin_are_those_of_the_values(value):
    plain = value.as_subclass(torch.Tensor)
    assert (value.shape, value.ndim, value.dtype, value.device) == (
        plain.shape,
        plain.ndim,
        plain.dtype,
        plain.device,
    )


@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=4),
    st.sampled_from([torch.float32, torch.int64, torch.bool]),
)
def test_wrapping_is_undone_by_any_plain_operation(shape, dtype):
    values = torch.zeros(shape, dtype=dtype)
    assert torch.equal(
        wrap(values, like=Mask(values)) | 0 if dtype != torch.float32 else Mask(values) + 0, values
    )


def test_with_the_return_type_set_every_operation_keeps_the_type():
    with set_return_type("TVTensor"):
        assert type(boxes() + 1) is BoundingBoxes
        assert type(torch.ones(2, 4) + boxes()) is BoundingBoxes
        assert [type(part) for part in Image(torch.zeros(2, 3, 3)).unbind(0)] == [Image, Image]
        assert type(torch.stack([Mask(torch.zeros(2, 2))] * 2)) is Mask
        assert type(Image(torch.zeros(1, 2, 2)).shape) is torch.Size
