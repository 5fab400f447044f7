"""Whether two jagged batches are the same."""

import torch
from torch import Tensor

from tetrarec.sparse._jagged import JaggedTensor
from tetrarec.sparse._keyed_jagged import KeyedJaggedTensor


def jt_is_equal(jt_1: JaggedTensor, jt_2: JaggedTensor) -> bool:
    """Whether both are jagged tensors of the same bags, values and weights."""
    if not isinstance(jt_1, JaggedTensor) or not isinstance(jt_2, JaggedTensor):
        return False
    return _same(jt_1.lengths(), jt_2.lengths()) and _contents(jt_1, jt_2)


def kjt_is_equal(kjt_1: KeyedJaggedTensor, kjt_2: KeyedJaggedTensor) -> bool:
    """Whether both are keyed jagged tensors of the same keys, strides, bags, values and weights."""
    if not isinstance(kjt_1, KeyedJaggedTensor) or not isinstance(kjt_2, KeyedJaggedTensor):
        return False
    if kjt_1.keys() != kjt_2.keys() or kjt_1.stride_per_key() != kjt_2.stride_per_key():
        return False
    return _same(kjt_1.lengths(), kjt_2.lengths()) and _contents(kjt_1, kjt_2)


def _contents(one: JaggedTensor | KeyedJaggedTensor, other: JaggedTensor | KeyedJaggedTensor) -> bool:
    weights = one.weights_or_none(), other.weights_or_none()
    if (weights[0] is None) != (weights[1] is None):
        return False
    return _same(one.values(), other.values()) and (weights[0] is None or _same(*weights))


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.to(other.dtype), other)
