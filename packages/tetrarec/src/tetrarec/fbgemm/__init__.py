"""The paths of fbgemm_gpu: doors to the table-batched embeddings here."""
