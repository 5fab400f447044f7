"""Pipelines."""

import pickle

import pytest
import torch
from torch import nn

from tetravision.transforms import v2
from tetravision.tv_tensors import Image


def picture():
    return Image(torch.arange(48, dtype=torch.uint8).view(3, 4, 4))


def test_a_pipeline_does_what_its_parts_do_one_by_one():
    parts = [
        v2.Resize(3),
        v2.RandomHorizontalFlip(1.0),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.5], [0.5]),
    ]
    want = picture()
    for part in parts:
        want = part(want)
    got = v2.Compose(parts)(picture())
    assert type(got) is Image
    assert torch.equal(got, want)


def test_the_sample_is_taken_apart_once(monkeypatch):
    from tetravision.transforms.v2 import _compose

    calls = []
    monkeypatch.setattr(
        _compose, "flatten", lambda inputs, flatten=_compose.flatten: calls.append(1) or flatten(inputs)
    )
    v2.Compose([v2.Resize(3), v2.CenterCrop(2), v2.ToImage()])({"image": picture(), "label": 3})
    assert len(calls) == 1


def test_functions_and_modules_see_the_sample_and_may_change_its_structure():
    pipeline = v2.Compose([
        v2.Resize(2),
        lambda image: {"image": image, "size": image.shape[-1]},
        v2.CenterCrop(1),
        nn.Identity(),
    ])
    out = pipeline(picture())
    assert out["size"] == 2
    assert out["image"].shape == (3, 1, 1)


def test_several_arguments_go_through_functions_too():
    image, label = v2.Compose([v2.Resize(2), lambda image, label: (image, label + 1), v2.CenterCrop(1)])(
        picture(), 3
    )
    assert label == 4
    assert image.shape == (3, 1, 1)


def test_a_transform_that_gives_a_structure_for_a_leaf_is_followed_into_it():
    class Twice(v2.Transform):
        def transform(self, inpt, params):
            return (inpt, inpt)

    first, second = v2.Compose([Twice(), v2.Resize(2)])(picture())
    assert first.shape == second.shape == (3, 2, 2)


def test_hooks_of_a_part_are_called():
    part, seen = v2.Resize(2), []
    part.register_forward_hook(lambda module, inputs, output: seen.append(tuple(output.shape)))
    v2.Compose([part])(picture())
    assert seen == [(3, 2, 2)]


def test_repr_has_a_line_for_each_part():
    inner = v2.Compose([v2.ToImage()])
    assert repr(v2.Compose([v2.RandomHorizontalFlip(), inner])) == (
        "Compose(\n  RandomHorizontalFlip(p=0.5)\n  Compose(\n    ToImage()\n  )\n)"
    )


def test_a_pipeline_goes_to_another_process_and_draws_the_same_there():
    pipeline = v2.Compose([v2.RandomResizedCrop(3, generator=torch.Generator().manual_seed(3))])
    twin = pickle.loads(pickle.dumps(pipeline))
    assert torch.equal(twin(picture()), pipeline(picture()))


@pytest.mark.parametrize(
    ("given", "error"),
    [([], ValueError), (v2.ToImage(), TypeError), ([3], TypeError)],
    ids=["empty", "one", "number"],
)
def test_what_is_no_list_of_callables_is_refused(given, error):
    with pytest.raises(error, match="Compose: "):
        v2.Compose(given)
