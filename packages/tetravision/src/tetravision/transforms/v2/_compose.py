"""Several transforms, one after another."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from tetravision._torch_compat import has_hooks
from tetravision.transforms.v2._transform import _LEAVES, Transform, flatten, unflatten


class Compose(Transform):
    """Run transforms in order.

    The sample is taken apart once, not for each transform. Functions and modules that are no :class:`Transform` are called
    with the sample as it stands, and may change its structure.

    Args:
        transforms: callables; at least one.

    Raises:
        TypeError: not a sequence of callables.
        ValueError: an empty one.

    Example:
        >>> pipeline = Compose([Resize(8), ToDtype(torch.float32, scale=True)])
        >>> pipeline(torch.zeros(3, 16, 20, dtype=torch.uint8)).shape
        torch.Size([3, 8, 10])
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        super().__init__()
        if not isinstance(transforms, (Sequence, nn.ModuleList)):
            raise TypeError(
                f"Compose: transforms must be a sequence of callables, got {type(transforms).__name__}"
            )
        if not transforms:
            raise ValueError("Compose: give at least one transform")
        for each in transforms:
            if not callable(each):
                raise TypeError(f"Compose: every transform must be callable, got {each!r}")
        self.transforms = transforms

    def forward(self, *inputs: Any) -> Any:
        """Transform a sample: one argument, or several that belong together."""
        leaves, spec = flatten(inputs)
        several = len(inputs) > 1
        for each in self.transforms:
            if _takes_leaves(each):
                done = each.transform_leaves(leaves)
                same = all(
                    new is old or isinstance(new, _LEAVES) for new, old in zip(done, leaves, strict=True)
                )
                leaves = done
                if same:
                    continue
                sample = unflatten(leaves, spec)  # a leaf became a structure
            else:
                sample = unflatten(leaves, spec)
                sample = each(*sample) if several else each(sample)
            leaves, spec = flatten(sample if several else (sample,))
        return unflatten(leaves, spec)

    def __repr__(self) -> str:
        lines = [f"  {line}" for each in self.transforms for line in repr(each).splitlines()]
        return "\n".join(["Compose(", *lines, ")"])


def _takes_leaves(each: Callable[..., Any]) -> bool:
    """Whether calling a transform is no more than transforming its leaves: no forward of its own, no hooks."""
    return isinstance(each, Transform) and type(each).forward is Transform.forward and not has_hooks(each)
