"""Dropping boxes, with labels and masks."""

import numpy as np
import pytest
import torch

from tetravision.transforms import v2
from tetravision.tv_tensors import BoundingBoxes, Image, Mask

KEEP = [True, False, True]


def boxes():
    return BoundingBoxes([[0, 0, 4, 4], [2, 2, 2, 5], [1, 1, 3, 9]], format="XYXY", canvas_size=(9, 9))


def target(**more):
    return {"boxes": boxes(), "labels": torch.tensor([7, 8, 9])} | more


@pytest.mark.smoke
def test_boxes_labels_and_masks_lose_the_same_rows():
    masks = Mask(torch.arange(3)[:, None, None].expand(3, 9, 9))
    image = Image(torch.zeros(3, 9, 9))
    one, out = v2.SanitizeBoundingBoxes()(image, target(masks=masks, other=torch.zeros(3)))
    assert one is image
    assert out["boxes"].tolist() == [[0, 0, 4, 4], [1, 1, 3, 9]]
    assert type(out["boxes"]) is BoundingBoxes
    assert out["labels"].tolist() == [7, 9]
    assert out["masks"][:, 0, 0].tolist() == [0, 2]
    assert type(out["masks"]) is Mask
    assert len(out["other"]) == 3


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        (torch.tensor([7, 8, 9]), [7, 9]),
        ([7, 8, 9], [7, 9]),
        (("a", "b", "c"), ("a", "c")),
        (np.array([7, 8, 9]), [7, 9]),
        (torch.eye(3), torch.eye(3)[KEEP].tolist()),
    ],
    ids=["tensor", "list", "tuple", "array", "one-hot"],
)
def test_labels_may_be_any_sequence(labels, want):
    out = v2.SanitizeBoundingBoxes()({"boxes": boxes(), "labels": labels})["labels"]
    assert type(out) is type(labels)
    assert (out if isinstance(out, (list, tuple)) else out.tolist()) == want


@pytest.mark.parametrize(
    ("key", "getter"),
    [
        ("labels", "default"),
        ("LABELS", "default"),
        ("my_label", "default"),
        ("category", "category"),
        ("x", lambda sample: sample["x"]),
    ],
)
def test_labels_are_found(key, getter):
    out = v2.SanitizeBoundingBoxes(labels_getter=getter)({"boxes": boxes(), key: torch.tensor([7, 8, 9])})
    assert out[key].tolist() == [7, 9]


def test_labels_proper_come_before_other_keys_with_label_in_them():
    out = v2.SanitizeBoundingBoxes()({
        "boxes": boxes(),
        "label_names": "abc",
        "Labels": torch.tensor([7, 8, 9]),
    })
    assert out["label_names"] == "abc"
    assert out["Labels"].tolist() == [7, 9]


def test_several_labels_and_none():
    sample = {"boxes": boxes(), "a": torch.tensor([1, 2, 3]), "b": [4, 5, 6]}
    for kind in (tuple, list):
        out = v2.SanitizeBoundingBoxes(labels_getter=lambda sample: kind([sample["a"], sample["b"]]))(sample)  # noqa: B023
        assert out["a"].tolist() == [1, 3]
        assert out["b"] == [4, 6]
    out = v2.SanitizeBoundingBoxes(labels_getter=lambda sample: sample["b"])(sample)
    assert out["b"] == [4, 6]
    out = v2.SanitizeBoundingBoxes(labels_getter=None)(target())
    assert len(out["boxes"]) == 2
    assert len(out["labels"]) == 3


def test_masks_of_another_number_and_class_maps_stay():
    out = v2.SanitizeBoundingBoxes()(target(classes=Mask(torch.zeros(9, 9)), five=Mask(torch.zeros(5, 9, 9))))
    assert out["classes"].shape == (9, 9)
    assert out["five"].shape == (5, 9, 9)


def test_no_boxes_left_is_an_answer():
    out = v2.SanitizeBoundingBoxes(min_size=20)(target())
    assert out["boxes"].shape == (0, 4)
    assert len(out["labels"]) == 0


@pytest.mark.parametrize(
    ("make", "sample", "says"),
    [
        ({}, {"labels": torch.tensor([1])}, "no BoundingBoxes in the sample"),
        ({}, {"boxes": boxes()}, "found no key with 'label' in it"),
        ({}, (boxes(), torch.tensor([1])), "the sample has none; pass a function"),
        ({"labels_getter": "kind"}, target(), "'kind' is no key of the sample; its keys are boxes, labels"),
        ({}, target(labels=torch.zeros(2)), "there are 3 boxes, but 2 labels"),
        (
            {"labels_getter": None},
            {"b": BoundingBoxes(torch.zeros(2, 3, 4), format="XYXY", canvas_size=(1, 1))},
            "before batching",
        ),
    ],
    ids=["boxes", "labels", "dict", "key", "number", "batch"],
)
def test_what_is_missing_is_named(make, sample, says):
    with pytest.raises(ValueError, match=says):
        v2.SanitizeBoundingBoxes(**make)(sample)


def test_bounds_and_getters_are_checked_when_it_is_made():
    with pytest.raises(ValueError, match="must not be negative"):
        v2.SanitizeBoundingBoxes(min_size=-1)
    with pytest.raises(ValueError, match="labels_getter must be"):
        v2.SanitizeBoundingBoxes(labels_getter=5)
