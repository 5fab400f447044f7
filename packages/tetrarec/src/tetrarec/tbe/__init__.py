"""Table-batched embeddings: many tables in one buffer, updated inside the backward pass."""

from tetrarec.tbe._tbe import TableBatchedEmbeddingBags

__all__ = ["TableBatchedEmbeddingBags"]
