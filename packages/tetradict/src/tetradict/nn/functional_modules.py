"""Functional modules, by the path that users of other libraries know."""

from tetradict.nn._functional import get_functional, is_functional, make_functional, repopulate_module

__all__ = ["get_functional", "is_functional", "make_functional", "repopulate_module"]
