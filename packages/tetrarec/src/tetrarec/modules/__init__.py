"""Embedding modules and their configurations."""

from tetrarec.modules._bag_collection import EmbeddingBagCollection
from tetrarec.modules._collection import EmbeddingCollection
from tetrarec.modules._configs import (
    BaseEmbeddingConfig,
    DataType,
    EmbeddingBagConfig,
    EmbeddingConfig,
    PoolingType,
    data_type_to_dtype,
)
from tetrarec.modules._fused_bag_collection import FusedEmbeddingBagCollection

__all__ = [
    "BaseEmbeddingConfig",
    "DataType",
    "EmbeddingBagCollection",
    "EmbeddingBagConfig",
    "EmbeddingCollection",
    "EmbeddingConfig",
    "FusedEmbeddingBagCollection",
    "PoolingType",
    "data_type_to_dtype",
]
