"""Transforms of pictures and of what lies on them."""

from tetravision.transforms import v2
from tetravision.transforms._interpolation import InterpolationMode

__all__ = ["InterpolationMode", "v2"]
