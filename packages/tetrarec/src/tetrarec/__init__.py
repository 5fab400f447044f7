"""Sparse features and table-batched embeddings for recommender models, on CPU and GPU."""

from tetrarec._version import __version__
from tetrarec.modules import (
    DataType,
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    FusedEmbeddingBagCollection,
    PoolingType,
)
from tetrarec.sparse import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from tetrarec.tbe import TableBatchedEmbeddingBags

__all__ = [
    "DataType",
    "EmbeddingBagCollection",
    "EmbeddingBagConfig",
    "EmbeddingCollection",
    "EmbeddingConfig",
    "FusedEmbeddingBagCollection",
    "JaggedTensor",
    "KeyedJaggedTensor",
    "KeyedTensor",
    "PoolingType",
    "TableBatchedEmbeddingBags",
    "__version__",
]
