"""Modules on entries, by the path that users of other libraries know."""

from tetradict.nn._dispatch import dispatch
from tetradict.nn._module import TensorDictModule, TensorDictModuleBase
from tetradict.nn._wrap import TensorDictModuleWrapper, WrapModule, as_tensordict_module

__all__ = [
    "TensorDictModule",
    "TensorDictModuleBase",
    "TensorDictModuleWrapper",
    "WrapModule",
    "as_tensordict_module",
    "dispatch",
]
