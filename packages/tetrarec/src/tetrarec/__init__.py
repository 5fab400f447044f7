"""Sparse features and table-batched embeddings for recommender models, on CPU and GPU."""

from tetrarec._version import __version__

__all__ = ["__version__"]
