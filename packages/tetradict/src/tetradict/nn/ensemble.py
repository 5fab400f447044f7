"""Ensembles of modules, by the path that users of other libraries know."""

from tetradict.nn._ensemble import EnsembleModule

__all__ = ["EnsembleModule"]
