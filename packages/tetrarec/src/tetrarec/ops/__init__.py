"""Operators on jagged batches and embedding tables."""

from tetrarec.ops import _rowwise_adagrad, _run_sums, _sample_weights  # noqa: F401  (registers torch.ops.tetrarec)
from tetrarec.ops._embedding_bags import table_batched_embedding_bags
from tetrarec.ops._lengths import lengths_to_offsets

__all__ = ["lengths_to_offsets", "table_batched_embedding_bags"]
