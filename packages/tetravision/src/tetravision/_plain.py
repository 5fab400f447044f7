"""From tv_tensors to plain ones. Apart from them, so that operators need neither them nor Pillow."""

import torch
from torch import Tensor

from tetravision._torch_compat import DisableTorchFunctionSubclass


def plain_of(tensor: Tensor) -> Tensor:
    """Give a tensor as a plain one sharing its memory: itself, unless it is a tv_tensor."""
    plain = getattr(tensor, "_plain", tensor)
    if plain is not None:
        return plain
    with DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor)
