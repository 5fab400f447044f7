"""Storages, under the path that users know."""

from tetrarl.data._storages import ListStorage, Storage
from tetrarl.data._tensor_storages import LazyMemmapStorage, LazyTensorStorage, TensorStorage

__all__ = ["LazyMemmapStorage", "LazyTensorStorage", "ListStorage", "Storage", "TensorStorage"]
