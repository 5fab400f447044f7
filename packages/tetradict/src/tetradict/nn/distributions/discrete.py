"""Discrete distributions, by the path that users of other libraries know."""

from tetradict.nn._discrete import OneHotCategorical, rand_one_hot

__all__ = ["OneHotCategorical", "rand_one_hot"]
