"""Sequences of modules, by the path that users of other libraries know."""

from tetradict.nn._sequential import TensorDictSequential

__all__ = ["TensorDictSequential"]
