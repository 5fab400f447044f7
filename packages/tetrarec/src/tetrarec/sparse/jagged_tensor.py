"""Jagged and keyed batches, under the path that users know."""

from tetrarec.sparse._equal import jt_is_equal, kjt_is_equal
from tetrarec.sparse._jagged import JaggedTensor
from tetrarec.sparse._keyed import KeyedTensor
from tetrarec.sparse._keyed_jagged import KeyedJaggedTensor

__all__ = ["JaggedTensor", "KeyedJaggedTensor", "KeyedTensor", "jt_is_equal", "kjt_is_equal"]
