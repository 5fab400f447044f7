"""The training module, under fbgemm_gpu's path."""

from tetrarec.tbe._split import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen

__all__ = ["ComputeDevice", "SplitTableBatchedEmbeddingBagsCodegen"]
