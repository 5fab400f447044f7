"""Places, pooling and checks, under fbgemm_gpu's path."""

from tetrarec.tbe._split import BoundsCheckMode, EmbeddingLocation, PoolingMode

__all__ = ["BoundsCheckMode", "EmbeddingLocation", "PoolingMode"]
