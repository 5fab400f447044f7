"""Continuous distributions and parts of them, by the path that users of other libraries know."""

from tetradict.nn._discrete import Delta
from tetradict.nn._normal import AddStateIndependentNormalScale, NormalParamExtractor

__all__ = ["AddStateIndependentNormalScale", "Delta", "NormalParamExtractor"]
