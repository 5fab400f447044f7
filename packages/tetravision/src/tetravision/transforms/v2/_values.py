"""Transforms that change values and types, and leave pixels where they are."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import PIL.Image
import torch

from tetravision.transforms.v2 import functional as F
from tetravision.transforms.v2._transform import Transform
from tetravision.tv_tensors import Image


class ToImage(Transform):
    """Make ``Image`` of Pillow pictures, arrays and the plain tensor that counts as a picture; values stay as they are.

    Example:
        >>> type(ToImage()(np.zeros((4, 5, 3), dtype=np.uint8))).__name__
        'Image'
    """

    _transformed_types: ClassVar[tuple[type, ...]] = (torch.Tensor, PIL.Image.Image, np.ndarray)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one leaf, unless it is a tv_tensor."""
        if F.is_pure_tensor(inpt) or not isinstance(inpt, torch.Tensor):
            return F.to_image(inpt)
        return inpt


class PILToTensor(Transform):
    """Make plain tensors of Pillow pictures; values stay as they are.

    Example:
        >>> PILToTensor()(PIL.Image.new("RGB", (5, 4))).shape
        torch.Size([3, 4, 5])
    """

    _transformed_types: ClassVar[tuple[type, ...]] = (PIL.Image.Image,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one picture."""
        return F.pil_to_tensor(inpt)


class ToDtype(Transform):
    """Convert values to another type.

    Args:
        dtype: the type for pictures; masks and boxes stay what they are. Or a dict from types (``Image``, ``Mask``, ``torch.Tensor`` for
            plain tensors…) to a dtype, or to None for "as it is"; ``"others"`` stands for those not named.
        scale: map the range of pictures along: floating values lie in [0, 1], whole numbers in [0, their largest].

    Raises:
        TypeError: ``dtype`` is neither.
        ValueError: when called, a dict says nothing about a type in the sample.

    Example:
        >>> ToDtype({Image: torch.float32, "others": None}, scale=True)(Image(torch.full((1, 1, 1), 255, dtype=torch.uint8)))
        Image([[[1.]]])
    """

    def __init__(
        self, dtype: torch.dtype | dict[type | str, torch.dtype | None], scale: bool = False
    ) -> None:
        super().__init__()
        if not isinstance(dtype, (torch.dtype, dict)):
            raise TypeError(
                f"ToDtype: dtype must be a torch.dtype or a dict from types to one, got {dtype!r}"
            )
        self.dtype = dtype
        self.scale = scale

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one leaf."""
        dtype = self._dtype_of(inpt)
        return inpt if dtype is None else self.call_kernel(F.to_dtype, inpt, dtype=dtype, scale=self.scale)

    def _dtype_of(self, inpt: Any) -> torch.dtype | None:
        if isinstance(self.dtype, torch.dtype):
            return self.dtype if F.is_pure_tensor(inpt) or isinstance(inpt, Image) else None
        if type(inpt) in self.dtype:
            return self.dtype[type(inpt)]
        if "others" in self.dtype:
            return self.dtype["others"]
        if isinstance(inpt, PIL.Image.Image):
            return None
        raise ValueError(
            f"ToDtype: dtype says nothing about {type(inpt).__name__}; add it, or 'others': None to leave the rest as it is"
        )

    def extra_repr(self) -> str:
        """The types wanted, and the scale."""
        return f"dtype={self.dtype}, scale={self.scale}"


class Normalize(Transform):
    """Subtract a mean from each channel of floating pictures and divide by a deviation.

    Args:
        mean: one value for each channel, or a single one.
        std: likewise.
        inplace: change the picture itself.

    Raises:
        ValueError: ``std`` holds 0, or, when called, the channels are another number.
        TypeError: when called, a Pillow picture, or values that are not floating.

    Example:
        >>> Normalize(mean=[0.5], std=[0.25])(torch.ones(3, 1, 1)).flatten()
        tensor([2., 2., 2.])
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean = list(mean)
        self.std = list(std)
        self.inplace = inplace

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Refuse Pillow pictures, which hold whole numbers."""
        if any(isinstance(leaf, PIL.Image.Image) for leaf in flat_inputs):
            raise TypeError(
                "Normalize: a Pillow picture holds whole numbers; put ToImage and ToDtype(torch.float32, scale=True) before it"
            )

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Normalise one leaf."""
        return self.call_kernel(F.normalize, inpt, mean=self.mean, std=self.std, inplace=self.inplace)
