"""Names that torch keeps private and this library needs, in one place. Checked on torch 2.13.0 and 2.14.1."""

from torch import Tensor
from torch._C import DisableTorchFunctionSubclass
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map

__all__ = ["DisableTorchFunctionSubclass", "collate_tensor_fn", "default_collate_fn_map", "is_view"]


def is_view(tensor: Tensor) -> bool:
    """Whether autograd sees a tensor as a view of another."""
    return tensor._is_view()
