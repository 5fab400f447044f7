"""A dict of tensors that acts as one tensor, with memory-mapped tensors and safe files."""

from tetradict._version import __version__

__all__ = ["__version__"]
