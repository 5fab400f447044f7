"""Modules on tensorclasses, by the path that users of other libraries know."""

from tetradict.nn._tensorclass_module import TensorClassModuleBase, TensorClassModuleWrapper

__all__ = ["TensorClassModuleBase", "TensorClassModuleWrapper"]
