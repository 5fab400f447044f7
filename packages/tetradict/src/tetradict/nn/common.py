"""Modules on entries, by the path that users of other libraries know."""

from tetradict.nn._dispatch import dispatch
from tetradict.nn._module import TensorDictModule, TensorDictModuleBase

__all__ = ["TensorDictModule", "TensorDictModuleBase", "dispatch"]
