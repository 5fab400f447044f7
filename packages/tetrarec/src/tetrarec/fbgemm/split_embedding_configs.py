"""Optimizers and precisions, under fbgemm_gpu's path."""

from tetrarec.tbe._split import EmbOptimType, SparseType

__all__ = ["EmbOptimType", "SparseType"]
