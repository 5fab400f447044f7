"""Batches of sparse features."""

from tetrarec.sparse import _pytree  # noqa: F401  (registers the containers)
from tetrarec.sparse._equal import jt_is_equal, kjt_is_equal
from tetrarec.sparse._jagged import JaggedTensor
from tetrarec.sparse._keyed import KeyedTensor
from tetrarec.sparse._keyed_jagged import KeyedJaggedTensor
from tetrarec.sparse._validate import validate_keyed_jagged_tensor

__all__ = [
    "JaggedTensor",
    "KeyedJaggedTensor",
    "KeyedTensor",
    "jt_is_equal",
    "kjt_is_equal",
    "validate_keyed_jagged_tensor",
]
