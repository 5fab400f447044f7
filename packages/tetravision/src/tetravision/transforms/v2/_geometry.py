"""Transforms that move pixels: Resize, CenterCrop, RandomResizedCrop, RandomHorizontalFlip."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from tetravision.transforms._interpolation import InterpolationMode, parse_interpolation
from tetravision.transforms.v2 import functional as F
from tetravision.transforms.v2._transform import Transform, query_size
from tetravision.transforms.v2.functional._resize import output_size


class Resize(Transform):
    """Resize pictures, masks and boxes together.

    Args:
        size: ``(height, width)``; or one number for the shorter side, keeping the aspect; or None for the largest size of that
            aspect with no side over ``max_size``.
        interpolation: for pictures; masks use nearest neighbour.
        max_size: with one number, the longer side is capped at this.
        antialias: average when shrinking; Pillow always does.

    Raises:
        ValueError: ``size`` and ``max_size`` don't go together, or an unknown mode.

    Example:
        >>> Resize(20)(torch.zeros(3, 40, 60)).shape
        torch.Size([3, 20, 30])
    """

    def __init__(
        self,
        size: int | Sequence[int] | None,
        interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        output_size((1, 1), size, max_size)  # refuses what doesn't go together
        self.size = [size] if isinstance(size, int) else None if size is None else list(size)
        self.interpolation = parse_interpolation(interpolation)
        self.max_size = max_size
        self.antialias = antialias

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Resize one leaf."""
        return self.call_kernel(
            F.resize,
            inpt,
            size=self.size,
            interpolation=self.interpolation,
            max_size=self.max_size,
            antialias=self.antialias,
        )


class CenterCrop(Transform):
    """Cut the middle out of pictures, masks and boxes; what is smaller is padded with 0 first.

    Args:
        size: ``(height, width)``, or one number for a square.

    Raises:
        ValueError: more than two numbers.

    Example:
        >>> CenterCrop(20)(torch.zeros(3, 40, 60)).shape
        torch.Size([3, 20, 20])
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = parse_size(size, "CenterCrop")

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Crop one leaf."""
        return self.call_kernel(F.center_crop, inpt, output_size=self.size)


class RandomResizedCrop(Transform):
    """Cut out a rectangle of random area, shape and place, and resize it: the augmentation that classifiers are trained with.

    Args:
        size: ``(height, width)`` of the result, or one number for a square.
        scale: least and greatest share of the picture's area, drawn evenly.
        ratio: least and greatest width over height, drawn evenly on a logarithmic scale.
        interpolation: for pictures; masks use nearest neighbour.
        antialias: average when shrinking; Pillow always does.
        generator: where random numbers come from; without one, torch's global state. A worker process has its own copy: give each
            worker one of its own.

    A shape that doesn't fit is drawn again, ten times at most; after that the middle of the picture is taken, as large as ``ratio`` allows.

    Raises:
        ValueError: bounds in the wrong order or not positive, or an unknown mode.

    Example:
        >>> RandomResizedCrop(8)(torch.zeros(3, 40, 60)).shape
        torch.Size([3, 8, 8])

    Source: the training crops of Szegedy et al. 2015 (arXiv:1409.4842), section 6.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: InterpolationMode | str | int = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        for name, bounds in (("scale", scale), ("ratio", ratio)):
            if len(bounds) != 2 or not 0 <= bounds[0] <= bounds[1] or bounds[name == "scale"] == 0:
                raise ValueError(
                    f"RandomResizedCrop: {name} must be (least, greatest), positive, got {bounds}"
                )
        self.size = parse_size(size, "RandomResizedCrop")
        self.scale = scale
        self.ratio = ratio
        self.interpolation = parse_interpolation(interpolation)
        self.antialias = antialias
        self.generator = generator
        self._log_ratio = (math.log(ratio[0]), math.log(ratio[1]))

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw ``top``, ``left``, ``height`` and ``width``."""
        height, width = query_size(flat_inputs)
        area = height * width
        (least, most), (flat, steep) = self.scale, self._log_ratio
        for _ in range(10):
            u = torch.rand(4, dtype=torch.float64, generator=self.generator).tolist()
            wanted = area * (least + u[0] * (most - least))
            aspect = math.exp(flat + u[1] * (steep - flat))
            w, h = round(math.sqrt(wanted * aspect)), round(math.sqrt(wanted / aspect))
            if 0 < w <= width and 0 < h <= height:
                top, left = int(u[2] * (height - h + 1)), int(u[3] * (width - w + 1))
                return {"top": top, "left": left, "height": h, "width": w}
        aspect = min(max(width / height, self.ratio[0]), self.ratio[1])
        w, h = min(width, round(height * aspect)), min(height, round(width / aspect))
        return {"top": (height - h) // 2, "left": (width - w) // 2, "height": h, "width": w}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Crop and resize one leaf."""
        return self.call_kernel(
            F.resized_crop,
            inpt,
            **params,
            size=self.size,
            interpolation=self.interpolation,
            antialias=self.antialias,
        )


class RandomHorizontalFlip(Transform):
    """Swap left and right of pictures, masks and boxes, or leave them.

    Args:
        p: how often to swap, from 0 to 1.
        generator: where random numbers come from; without one, torch's global state. A worker process has its own copy: give each
            worker one of its own.

    Raises:
        ValueError: ``p`` is no probability.

    Example:
        >>> RandomHorizontalFlip(p=1.0)(torch.tensor([[1, 2, 3]]))
        tensor([[3, 2, 1]])
    """

    def __init__(self, p: float = 0.5, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"RandomHorizontalFlip: p must be from 0 to 1, got {p}")
        self.p = p
        self.generator = generator

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw whether to ``flip``."""
        return {"flip": torch.rand((), dtype=torch.float64, generator=self.generator).item() < self.p}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Flip one leaf, or not."""
        return self.call_kernel(F.horizontal_flip, inpt) if params["flip"] else inpt


def parse_size(size: int | Sequence[int], where: str) -> tuple[int, int]:
    """Height and width from one number or two."""
    sides = (size,) if isinstance(size, int) else tuple(size)
    if len(sides) not in (1, 2):
        raise ValueError(f"{where}: size must be one number or (height, width), got {size!r}")
    return sides[0], sides[-1]
