"""Modules that take their parameters as an argument."""

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from tetradict._base import TensorDictBase
from tetradict._td import TensorDict


def is_functional(module: nn.Module) -> bool:
    """Whether the module takes its parameters as an argument, see make_functional."""
    return "_functional" in module.__dict__


def make_functional(
    module: nn.Module,
    funs_to_decorate: Iterable[str] | None = None,
    keep_params: bool = False,
    return_params: bool = True,
) -> TensorDict | None:
    """Let methods of a module take its parameters by the keyword ``params``, in place.

    Args:
        module: the module.
        funs_to_decorate: names of the methods; ``["forward"]`` when left out.
        keep_params: leave the module its own parameters, for calls without ``params``. If not, tensors without memory
            (on the ``meta`` device) stand in their places.
        return_params: return the parameters.

    Example:
        >>> linear = torch.nn.Linear(2, 2)
        >>> params = make_functional(linear)
        >>> linear(torch.ones(1, 2), params=params).shape
        torch.Size([1, 2])
    """
    parameters = TensorDict.from_module(module)
    _decorate(module, funs_to_decorate)
    if not keep_params:
        meta = [
            nn.Parameter(leaf.to("meta"), leaf.requires_grad)
            if isinstance(leaf, nn.Parameter)
            else leaf.to("meta")
            for leaf in parameters._leaves()
        ]
        parameters._rebuild(iter(meta)).to_module(module, return_swap=False)
    return parameters if return_params else None


def get_functional(module: nn.Module, funs_to_decorate: Iterable[str] | None = None) -> nn.Module:
    """A copy of a module whose methods take its parameters by the keyword ``params``, see make_functional."""
    functional = copy.deepcopy(module)
    _decorate(functional, funs_to_decorate)
    return functional


def repopulate_module(model: nn.Module, tensordict: TensorDictBase) -> nn.Module:
    """Put parameters into a module for good, and return it."""
    tensordict.to_module(model, return_swap=False)
    return model


def _decorate(module: nn.Module, names: Iterable[str] | None) -> None:
    for name in ["forward"] if names is None else names:
        setattr(module, name, _Functional(module, getattr(type(module), name)))
    module._functional = True  # noqa: SLF001  (our own mark)


class _Functional:
    """A method that takes parameters. A class, so that it is copied with its module."""

    def __init__(self, module: nn.Module, function: Callable[..., Any]) -> None:
        self.module, self.function = [module], function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, params: TensorDictBase | None = None, **kwargs: Any) -> Any:
        (module,) = self.module
        if params is None:
            return self.function(module, *args, **kwargs)
        with params.to_module(module):
            return self.function(module, *args, **kwargs)
