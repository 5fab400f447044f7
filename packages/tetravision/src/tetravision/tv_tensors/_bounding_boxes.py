"""Axis-aligned boxes and the three ways to write one."""

from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Literal, Self

import torch

from tetravision.tv_tensors._tv_tensor import TVTensor, as_plain_tensor

ClampingMode = Literal["soft", "hard"] | None
_CLAMPING_MODES = ("soft", "hard", None)


class BoundingBoxFormat(Enum):
    """How four numbers write a box, in pixels, with the corner of the picture's first pixel at (0, 0).

    - ``XYXY``: left, top, right, bottom.
    - ``XYWH``: left, top, width, height.
    - ``CXCYWH``: middle, width, height.
    """

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"


class BoundingBoxes(TVTensor):
    """Boxes in one picture, ``[..., 4]``, with the way they are written and the size of that picture.

    Args:
        data: a tensor (its memory is shared) or anything ``torch.as_tensor`` takes. One dimension gains a row; nothing
            at all gives ``[0, 4]``.
        format: a :class:`BoundingBoxFormat` or its name in any case.
        canvas_size: ``(height, width)`` of the picture.
        clamping_mode: what transforms that move boxes over the edge do: ``"soft"`` and ``"hard"`` cut them at the edge (the two
            are one for boxes without rotation), ``None`` leaves them.
        dtype: type of the values; by default that of ``data``.
        device: where they lie; by default where ``data`` does.
        requires_grad: make a leaf that collects a gradient; by default the history of ``data`` goes on.

    Raises:
        ValueError: a last dimension other than 4, an unknown format or clamping mode, or a canvas that is not two numbers.

    Example:
        >>> BoundingBoxes([1, 2, 5, 6], format="xyxy", canvas_size=(10, 20))
        BoundingBoxes([[1, 2, 5, 6]], format=BoundingBoxFormat.XYXY, canvas_size=(10, 20), clamping_mode=soft)
    """

    metadata_names: ClassVar[tuple[str, ...]] = ("format", "canvas_size", "clamping_mode")
    format: BoundingBoxFormat
    canvas_size: tuple[int, int]
    clamping_mode: ClampingMode = "soft"

    def __new__(
        cls,
        data: Any,
        *,
        format: BoundingBoxFormat | str,
        canvas_size: Sequence[int],
        clamping_mode: ClampingMode = "soft",
        dtype: torch.dtype | None = None,
        device: torch.device | str | int | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        tensor, leaf = as_plain_tensor(data, dtype, device, requires_grad)
        if tensor.ndim == 1:
            tensor = tensor.reshape(-1, 4) if tensor.numel() in (0, 4) else tensor
        if tensor.ndim < 2 or tensor.shape[-1] != 4:
            raise ValueError(f"BoundingBoxes: data must be [..., 4], got shape {tuple(tensor.shape)}")
        boxes = cls.wrap(
            tensor,
            format=parse_format(format),
            canvas_size=_parse_canvas_size(canvas_size),
            clamping_mode=check_clamping_mode(clamping_mode),
        )
        return boxes.requires_grad_() if leaf else boxes


def parse_format(given: BoundingBoxFormat | str) -> BoundingBoxFormat:
    """Turn the name of a format into the format."""
    if isinstance(given, BoundingBoxFormat):
        return given
    try:
        return BoundingBoxFormat[given.upper()]
    except KeyError:
        known = ", ".join(member.name for member in BoundingBoxFormat)
        raise ValueError(f"BoundingBoxFormat: the format must be one of {known}, got {given!r}") from None


def check_clamping_mode(given: ClampingMode) -> ClampingMode:
    """Refuse what is no clamping mode."""
    if given not in _CLAMPING_MODES:
        raise ValueError(f"clamping_mode must be 'soft', 'hard' or None, got {given!r}")
    return given


def _parse_canvas_size(given: Sequence[int]) -> tuple[int, int]:
    if len(given) != 2:
        raise ValueError(f"BoundingBoxes: canvas_size must be (height, width), got {given!r}")
    return given[0], given[1]


torch.serialization.add_safe_globals([
    BoundingBoxes,
    BoundingBoxFormat,
])  # torch.load(weights_only=True) may make them
