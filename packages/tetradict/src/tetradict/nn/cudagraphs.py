"""CUDA graphs of modules, by the path that users of other libraries know."""

from tetradict.nn._cudagraph import CudaGraphModule

__all__ = ["CudaGraphModule"]
