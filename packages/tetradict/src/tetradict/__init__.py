"""A dict of tensors that acts as one tensor, with memory-mapped tensors and safe files."""

from tetradict._base import TensorDictBase, is_tensor_collection
from tetradict._entries import unravel_key, unravel_key_list
from tetradict._nontensor import NonTensorData, NonTensorStack
from tetradict._params import TensorDictParams, from_module, from_modules
from tetradict._protocol import NestedKey
from tetradict._stack import cat, stack
from tetradict._td import TensorDict, load, load_memmap
from tetradict._torch_compat import is_batched as is_batchedtensor
from tetradict._version import __version__
from tetradict.io import verify
from tetradict.memmap import MemoryMappedTensor

__all__ = [
    "MemoryMappedTensor",
    "NestedKey",
    "NonTensorData",
    "NonTensorStack",
    "TensorDict",
    "TensorDictBase",
    "TensorDictParams",
    "__version__",
    "cat",
    "from_module",
    "from_modules",
    "is_batchedtensor",
    "is_tensor_collection",
    "load",
    "load_memmap",
    "stack",
    "unravel_key",
    "unravel_key_list",
    "verify",
]


def __getattr__(name: str) -> object:
    """Names of ``tetradict.nn`` that users also import from here; it is loaded when one of them is asked for."""
    if name in {"TensorClassModuleBase", "TensorClassModuleWrapper", "as_tensordict_module"}:
        from tetradict import nn  # noqa: PLC0415  (importing tetradict stays light)

        return getattr(nn, name)
    raise AttributeError(f"module 'tetradict' has no attribute {name!r}")
