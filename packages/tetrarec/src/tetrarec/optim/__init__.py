"""Optimizers for embeddings."""

from tetrarec.optim._fused import FusedOptimizer
from tetrarec.optim._rowwise_adagrad import RowWiseAdagrad

__all__ = ["FusedOptimizer", "RowWiseAdagrad"]
