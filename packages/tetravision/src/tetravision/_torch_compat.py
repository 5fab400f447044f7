"""Names that torch keeps private and this library needs, in one place. Checked on torch 2.13.0 and 2.14.1."""

from torch import Tensor, nn
from torch._C import DisableTorchFunctionSubclass
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map

__all__ = [
    "DisableTorchFunctionSubclass",
    "TreeSpec",
    "collate_tensor_fn",
    "default_collate_fn_map",
    "has_hooks",
    "is_view",
    "tree_flatten",
    "tree_unflatten",
]


def is_view(tensor: Tensor) -> bool:
    """Whether autograd sees a tensor as a view of another."""
    return tensor._is_view()


def has_hooks(module: nn.Module) -> bool:
    """Whether calling a module does more than calling its ``forward``."""
    return bool(module._forward_hooks or module._forward_pre_hooks)
