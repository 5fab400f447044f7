"""Drop boxes that a pipeline has made useless, and whatever belongs to them."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tetravision._plain import plain_of
from tetravision._torch_compat import tree_flatten, tree_unflatten
from tetravision.transforms.v2._transform import Transform
from tetravision.transforms.v2.functional._boxes import valid_boxes
from tetravision.tv_tensors import BoundingBoxes, Mask, wrap

LabelsGetter = Callable[[Any], Any] | str | None


class SanitizeBoundingBoxes(Transform):
    """Drop boxes that are too small or not inside the picture, with their labels and masks.

    Put it once, at the end of a detection pipeline. The structure stays; of ``[N, 4]`` boxes, of their labels, and of ``[N, H, W]`` masks
    the same rows go.

    Args:
        min_size: least width and least height of a box, in pixels.
        min_area: least area, in pixels.
        labels_getter: where the labels are. ``"default"``: in the first dict of the sample, under ``labels`` in any case, else under
            the first key that has ``label`` in it. Another string: under that key of that dict. A function from the
            sample to the labels, or to a tuple or list of several. None: there are none. Labels are tensors, arrays or lists of N.

    Raises:
        ValueError: a bound below 0, or, when called: no boxes, no labels where they should be, or another number of them than of boxes.

    Example:
        >>> boxes = BoundingBoxes([[0, 0, 4, 4], [2, 2, 2, 5]], format="XYXY", canvas_size=(9, 9))
        >>> SanitizeBoundingBoxes()({"boxes": boxes, "labels": ["cat", "dog"]})["labels"]
        ['cat']
    """

    def __init__(
        self, min_size: float = 1.0, min_area: float = 1.0, labels_getter: LabelsGetter = "default"
    ) -> None:
        super().__init__()
        if min_size < 0 or min_area < 0:
            raise ValueError(
                f"SanitizeBoundingBoxes: min_size and min_area must not be negative, got {min_size}, {min_area}"
            )
        if not (labels_getter is None or isinstance(labels_getter, str) or callable(labels_getter)):
            raise ValueError(
                f"SanitizeBoundingBoxes: labels_getter must be 'default', a key, a function or None, got {labels_getter!r}"
            )
        self.min_size = min_size
        self.min_area = min_area
        self.labels_getter = labels_getter

    def forward(self, *inputs: Any) -> Any:
        """Sift a sample."""
        sample = inputs if len(inputs) > 1 else inputs[0]
        labels = find_labels(sample, self.labels_getter)
        leaves, spec = tree_flatten(sample, is_leaf=lambda node: any(node is each for each in labels))
        boxes = next((leaf for leaf in leaves if isinstance(leaf, BoundingBoxes)), None)
        if boxes is None:
            raise ValueError("SanitizeBoundingBoxes: there are no BoundingBoxes in the sample")
        if boxes.ndim != 2:
            raise ValueError(
                f"SanitizeBoundingBoxes: boxes must be [N, 4], got shape {tuple(boxes.shape)}; sanitise before batching"
            )
        valid = valid_boxes(
            plain_of(boxes), boxes.format, boxes.canvas_size, min_size=self.min_size, min_area=self.min_area
        )
        for each in labels:
            if len(each) != len(valid):
                raise ValueError(
                    f"SanitizeBoundingBoxes: there are {len(valid)} boxes, but {len(each)} labels"
                )
        params = {"valid": valid, "labels": labels}
        return tree_unflatten([self.transform(leaf, params) for leaf in leaves], spec)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Sift one leaf: boxes, masks of as many objects, and the labels."""
        valid = params["valid"]
        if any(inpt is each for each in params["labels"]):
            return _sift(inpt, valid)
        rows = isinstance(inpt, BoundingBoxes) and inpt.ndim == 2
        rows = rows or (isinstance(inpt, Mask) and inpt.ndim > 2)
        if rows and inpt.shape[0] == valid.shape[0]:
            return wrap(plain_of(inpt)[valid], like=inpt)
        return inpt


def find_labels(sample: Any, getter: LabelsGetter) -> tuple[Any, ...]:
    """The objects in a sample that hold one label for each box."""
    if getter is None:
        return ()
    if callable(getter):
        found = getter(sample)
        if isinstance(found, (tuple, list)) and all(
            hasattr(each, "__len__") and not isinstance(each, str) for each in found
        ):
            return tuple(found)
        return () if found is None else (found,)
    holder = _first_mapping(sample)
    if holder is None:
        raise ValueError(
            f"labels_getter={getter!r} looks for a dict, and the sample has none; pass a function, or None for no labels"
        )
    if getter != "default":
        if getter not in holder:
            raise ValueError(
                f"labels_getter={getter!r} is no key of the sample; its keys are {', '.join(map(str, holder))}"
            )
        return (holder[getter],)
    named = [key for key in holder if isinstance(key, str) and "label" in key.lower()]
    exact = [key for key in named if key.lower() == "labels"]
    if not named:
        raise ValueError(
            "labels_getter='default' found no key with 'label' in it; pass the key, a function, or None for no labels"
        )
    return (holder[(exact or named)[0]],)


def _first_mapping(sample: Any) -> Mapping[Any, Any] | None:
    if isinstance(sample, Mapping):
        return sample
    if isinstance(sample, (tuple, list)):
        return next((part for part in sample if isinstance(part, Mapping)), None)
    return None


def _sift(labels: Any, valid: Tensor) -> Any:
    if isinstance(labels, torch.Tensor):
        return labels[valid.to(labels.device)]
    if isinstance(labels, (list, tuple)):
        return type(labels)([label for label, keep in zip(labels, valid.tolist(), strict=True) if keep])
    return labels[valid.cpu().numpy()]
