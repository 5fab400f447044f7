"""Names of the ways to interpolate between pixels."""

from enum import Enum

import PIL.Image


class InterpolationMode(Enum):
    """How a value between pixels is made from its neighbours.

    Tensors know the first four. ``BOX``, ``HAMMING`` and ``LANCZOS`` are filters of Pillow, for Pillow pictures.
    """

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_TO_PIL = {
    InterpolationMode.NEAREST: PIL.Image.Resampling.NEAREST,
    InterpolationMode.NEAREST_EXACT: PIL.Image.Resampling.NEAREST,  # Pillow's is the exact one
    InterpolationMode.BILINEAR: PIL.Image.Resampling.BILINEAR,
    InterpolationMode.BICUBIC: PIL.Image.Resampling.BICUBIC,
    InterpolationMode.BOX: PIL.Image.Resampling.BOX,
    InterpolationMode.HAMMING: PIL.Image.Resampling.HAMMING,
    InterpolationMode.LANCZOS: PIL.Image.Resampling.LANCZOS,
}
_FROM_PIL = {
    int(filter): mode for mode, filter in _TO_PIL.items() if mode is not InterpolationMode.NEAREST_EXACT
}


def parse_interpolation(given: InterpolationMode | str | int) -> InterpolationMode:
    """Turn the name of a mode, or the number of one of Pillow's filters, into the mode."""
    if isinstance(given, InterpolationMode):
        return given
    if isinstance(given, str):
        for mode in InterpolationMode:
            if given.lower() == mode.value:
                return mode
    elif given in _FROM_PIL:
        return _FROM_PIL[int(given)]
    known = ", ".join(mode.value for mode in InterpolationMode)
    raise ValueError(
        f"interpolation must be an InterpolationMode, one of {known}, or a Pillow filter, got {given!r}"
    )


def pil_filter(mode: InterpolationMode) -> PIL.Image.Resampling:
    """Pillow's filter for a mode."""
    return _TO_PIL[mode]
