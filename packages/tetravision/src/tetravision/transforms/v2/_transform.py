"""The base of all transforms: any structure in, the same structure out."""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, ClassVar

import PIL.Image
import torch
from torch import nn

from tetravision._torch_compat import TreeSpec, tree_flatten, tree_unflatten
from tetravision.transforms.v2.functional._registry import find_kernel, is_pure_tensor
from tetravision.tv_tensors import BoundingBoxes, Image, Mask

_LEAVES = (torch.Tensor, PIL.Image.Image)


class Transform(nn.Module):
    """Base of transforms, and of your own.

    A transform is called with any structure of dicts, lists and tuples, or with several arguments; what it knows is
    changed together, the rest comes back as it is. A plain tensor counts as a picture when there is no ``Image`` and no Pillow picture in
    the structure, and then only the first one does; other plain tensors are labels and the like.

    To write one, override ``transform``, and ``make_params`` when something is drawn or must be known about the whole
    sample:

    Example:
        >>> class Invert(Transform):
        ...     def transform(self, inpt, params):
        ...         return wrap(255 - inpt, like=inpt) if isinstance(inpt, Image) else inpt
        >>> Invert()({"image": Image(torch.zeros(1, 1, 1, dtype=torch.uint8)), "label": 3})
        {'image': Image([[[255]]], dtype=torch.uint8), 'label': 3}
    """

    _transformed_types: ClassVar[tuple[type, ...]] = _LEAVES

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Raise when a sample can't be transformed. Called with every leaf of it; the base accepts all."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw and work out what all leaves of one sample share. Called once a sample, with the leaves to be transformed."""
        return {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Transform one leaf with what ``make_params`` gave."""
        raise TypeError(f"{type(self).__name__}: a transform must override transform(inpt, params)")

    def call_kernel(self, functional: Callable[..., Any], inpt: Any, **kwargs: Any) -> Any:
        """Run a functional on a leaf, or give the leaf as it is when the functional knows no such type."""
        kernel = find_kernel(functional, type(inpt))
        return inpt if kernel is None else kernel(inpt, **kwargs)

    def forward(self, *inputs: Any) -> Any:
        """Transform a sample: one argument, or several that belong together."""
        leaves, spec = flatten(inputs)
        return unflatten(self.transform_leaves(leaves), spec)

    def transform_leaves(self, leaves: list[Any]) -> list[Any]:
        """Transform the leaves of one sample; the walk around it is the caller's."""
        self.check_inputs(leaves)
        chosen = self._choose(leaves)
        params = self.make_params([leaf for leaf, wanted in zip(leaves, chosen, strict=True) if wanted])
        return [
            self.transform(leaf, params) if wanted else leaf
            for leaf, wanted in zip(leaves, chosen, strict=True)
        ]

    def _choose(self, leaves: list[Any]) -> list[bool]:
        """Which leaves are ours, by type and by the rule for plain tensors."""
        plain_is_image = not any(isinstance(leaf, (Image, PIL.Image.Image)) for leaf in leaves)
        chosen = []
        for leaf in leaves:
            wanted = isinstance(leaf, self._transformed_types)
            if wanted and is_pure_tensor(leaf):
                wanted, plain_is_image = plain_is_image, False
            chosen.append(wanted)
        return chosen

    def extra_repr(self) -> str:
        """Name the simple attributes, as the constructor spells them."""
        return ", ".join(
            f"{name}={value.value if isinstance(value, Enum) else value}"
            for name, value in self.__dict__.items()
            if not name.startswith("_")
            and name != "training"
            and isinstance(value, (bool, int, float, str, tuple, list, Enum))
        )


def flatten(inputs: tuple[Any, ...]) -> tuple[list[Any], TreeSpec | None]:
    """Take a sample apart; a single leaf needs no walk."""
    if not inputs:
        raise TypeError("a transform is called with a sample: give it at least one argument")
    sample = inputs if len(inputs) > 1 else inputs[0]
    if isinstance(sample, _LEAVES):
        return [sample], None
    return tree_flatten(sample)


def unflatten(leaves: Iterable[Any], spec: TreeSpec | None) -> Any:
    """The inverse of :func:`flatten`."""
    leaves = list(leaves)
    return leaves[0] if spec is None else tree_unflatten(leaves, spec)


def query_size(flat_inputs: list[Any]) -> tuple[int, int]:
    """Height and width that all leaves of a sample share."""
    sizes = set()
    for leaf in flat_inputs:
        if isinstance(leaf, BoundingBoxes):
            sizes.add(tuple(leaf.canvas_size))
        elif isinstance(leaf, PIL.Image.Image):
            sizes.add((leaf.height, leaf.width))
        elif is_pure_tensor(leaf) or isinstance(leaf, (Image, Mask)):
            sizes.add(tuple(leaf.shape[-2:]))
    if len(sizes) != 1:
        found = ", ".join(f"{height}x{width}" for height, width in sorted(sizes)) or "nothing with a size"
        raise (ValueError if sizes else TypeError)(
            f"the pictures, masks and boxes of a sample must share one height and width; found {found}"
        )
    return next(iter(sizes))
