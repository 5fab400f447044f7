"""The private names of torch that this library uses, in one place, with the versions they were checked on.

Checked on torch 2.13.0 and 2.14.1.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import HigherOrderOperator  # noqa: PLC2701  (what checkpoint, while_loop and their kin are)
from torch.utils import _pytree  # noqa: PLC2701  (its registry has no public name)


def foreach(name: str) -> Callable[..., Any]:
    """``torch._foreach_<name>``: one call over a list of tensors."""
    return getattr(torch, f"_foreach_{name}")


__all__ = [
    "HigherOrderOperator",
    "MappingKey",
    "foreach",
    "is_batched",
    "is_wrapped_by_functorch",
    "nested_layout",
    "nested_view",
    "register_pytree_node",
    "tree_flatten",
    "tree_unflatten",
    "without_torch_function",
]

register_pytree_node = _pytree.register_pytree_node
MappingKey = _pytree.MappingKey
tree_flatten = _pytree.tree_flatten
tree_unflatten = _pytree.tree_unflatten
without_torch_function = torch._C.DisableTorchFunctionSubclass  # noqa: SLF001  (what torch's own subclasses use)


def hook_fsdp_outputs(module: torch.nn.Module, outputs: list[torch.Tensor]) -> None:
    """Show ``fully_shard`` the outputs of ``module``: it looks for them in dicts, lists and tuples alone.

    Without this the backward pass of a sharded module that returns a collection would leave the gradients unreduced.
    """
    module._get_fsdp_state()._register_pre_backward_hook(outputs)  # noqa: SLF001  (FSDP2 has no public way)


def nested_layout(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The table of sizes ``[N, D]`` of a strided nested tensor, and its values end to end."""
    with without_torch_function():
        return tensor._nested_tensor_size(), tensor.values()  # noqa: SLF001  (no public name)


def nested_view(values: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """The strided nested tensor of these sizes ``[N, D]`` over ``values``, without a copy."""
    strides, offsets = torch._nested_compute_contiguous_strides_offsets(sizes)  # noqa: SLF001
    return torch._nested_view_from_buffer(values, sizes, strides, offsets)  # noqa: SLF001


is_batched = torch._C._functorch.is_batchedtensor  # noqa: SLF001  (by vmap; Dynamo knows it)
unwrapped = torch._C._functorch.get_unwrapped  # noqa: SLF001
batched_dim = torch._C._functorch.maybe_get_bdim  # noqa: SLF001
is_wrapped_by_functorch = torch._C._functorch.is_functorch_wrapped_tensor  # noqa: SLF001  (vmap, grad, jvp: no public name)
