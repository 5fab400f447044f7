"""A function recorded once on a GPU and replayed."""

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tetradict._base import TensorDictBase
from tetradict._protocol import NestedKey
from tetradict._torch_compat import tree_flatten, tree_unflatten
from tetradict.nn._dispatch import gather, spread
from tetradict.nn._keys import as_keys


class CudaGraphModule:
    """Record the kernels that a function launches, and launch them all at once at later calls.

    Inputs are copied into the tensors that the graph was recorded with, and outputs are copied out of it. What is not a
    tensor must be the same at every call, and so must shapes. Without a CUDA device the function is just called.

    Args:
        module: a function of tensors or collections, or a module; its output needs no gradient.
        warmup: number of plain calls before the recording, at least 1.
        in_keys: the entries that it reads, for a function of a collection; those of the module when left out.
        out_keys: the entries that it writes, likewise.
        device: the CUDA device; the current one when left out.

    Raises:
        ValueError: an input differs from that of the recording in shape, or is another value and no tensor.

    A module that returns the collection that came in does so here, too.
    """

    def __init__(
        self,
        module: Callable[..., Any],
        warmup: int = 2,
        in_keys: Iterable[NestedKey] | None = None,
        out_keys: Iterable[NestedKey] | None = None,
        device: torch.device | None = None,
    ) -> None:
        if not callable(module):
            raise TypeError(f"CudaGraphModule: module must be callable, got a {type(module).__name__}")
        if warmup < 1:
            raise ValueError(f"CudaGraphModule: warmup must be at least 1, got {warmup}")
        functools.update_wrapper(self, module)
        self._module, self._warmup = module, warmup
        self.in_keys = as_keys(getattr(module, "in_keys", None) or [] if in_keys is None else list(in_keys))
        self.out_keys = as_keys(
            getattr(module, "out_keys", None) or [] if out_keys is None else list(out_keys)
        )
        keyed = hasattr(module, "in_keys") and hasattr(module, "out_keys")
        self._is_tensordict_module = keyed or in_keys is not None or out_keys is not None
        self._has_cuda = torch.cuda.is_available()
        if not self._has_cuda:
            warnings.warn(
                "CudaGraphModule: there is no CUDA device; the function is just called", stacklevel=2
            )
        self._device = device
        self._calls = 0
        self._graph: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._has_cuda:
            return self._module(*args, **kwargs)
        if self._is_tensordict_module and not (args and isinstance(args[0], TensorDictBase)):
            data = gather(self._module, self.in_keys, args, kwargs)
            return spread(self(data), self.out_keys)
        if self._graph is None:
            return self._warm_up(args, kwargs)
        return self._replay(args, kwargs)

    def _warm_up(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        self._calls += 1
        if self._calls <= self._warmup:
            stream = torch.cuda.Stream(self._device)
            stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(stream):
                out = self._module(*args, **kwargs)
            torch.cuda.current_stream(self._device).wait_stream(stream)
            return out
        self._record(args, kwargs)
        return self._replay(args, kwargs)

    def _record(self, args: tuple, kwargs: dict[str, Any]) -> None:
        leaves, self._spec = tree_flatten((args, kwargs))
        self._inputs = [leaf.detach().clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        inner_args, inner_kwargs = tree_unflatten(self._inputs, self._spec)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self._module(*inner_args, **inner_kwargs)
        self._returns_input = bool(inner_args) and out is inner_args[0]
        self._returns_out = out is not None and out is inner_kwargs.get("tensordict_out")
        self._outputs, self._out_spec = tree_flatten(out)
        self._graph = graph

    def _replay(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self._spec:
            raise ValueError(
                f"CudaGraphModule: the structure of the inputs must be that of the recording, {self._spec}, got {spec}"
            )
        for held, leaf in zip(self._inputs, leaves, strict=True):
            if isinstance(held, Tensor):
                if not isinstance(leaf, Tensor) or leaf.shape != held.shape:
                    shape = tuple(leaf.shape) if isinstance(leaf, Tensor) else type(leaf).__name__
                    raise ValueError(
                        f"CudaGraphModule: recorded with an input of {tuple(held.shape)}, got {shape}"
                    )
                held.copy_(leaf, non_blocking=True)
            elif held != leaf:
                raise ValueError(
                    f"CudaGraphModule: recorded with the value {held!r}, got {leaf!r}; "
                    "Varying inputs must be torch.Tensor subclasses."
                )
        self._graph.replay()
        copies = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in self._outputs]
        out = tree_unflatten(copies, self._out_spec)
        if self._returns_input:
            return args[0].update(out)
        return kwargs["tensordict_out"].update(out) if self._returns_out else out

    def state_dict(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """That of the module; empty for a function."""
        return self._module.state_dict(*args, **kwargs) if isinstance(self._module, nn.Module) else {}

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Load a state dict of the module, into the tensors that the graph uses."""
        if not isinstance(self._module, nn.Module):
            raise TypeError("CudaGraphModule: a function has no state to load; wrap a module")
        return self._module.load_state_dict(state_dict, *args, **kwargs)
