"""What torch's own functions and operators mean when a collection is among their arguments."""

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from tetradict import _apply, _pointwise, _reduce, _shape, _stack
from tetradict._protocol import Container
from tetradict._torch_compat import HigherOrderOperator, without_torch_function

Function = Callable[..., Any]


def _either(name: str) -> Function:
    """A function of two with the collection on either side."""
    verb, from_the_right = _pointwise.VERBS[name], _pointwise.swapped(name, getattr(torch, name))

    def function(left: Any, right: Any) -> Any:
        return verb(left, right) if isinstance(left, Container) else from_the_right(right, left)

    return function


def _operators() -> Iterator[tuple[Function, Function]]:
    """What ``tensor + collection`` calls, and (compiled) ``collection + tensor`` as ``Tensor.__radd__``."""
    verbs = _pointwise.VERBS  # and not Python's operators, which would come back here when compiled
    for symbol, name in _pointwise.OPERATORS.items():
        forward, back = verbs[f"__{symbol}__"], verbs[f"__r{symbol}__"]
        for methods, function in (
            ({name, f"__{symbol}__"}, _ordered(forward, back)),
            ({f"__r{symbol}__", f"__r{name}__"}, _ordered(back, forward)),
        ):
            for method in methods:
                if hasattr(Tensor, method):
                    yield getattr(Tensor, method), function
    for symbol, mirrored in _pointwise.MIRRORED.items():
        function = _ordered(verbs[f"__{symbol}__"], verbs[f"__{mirrored}__"])
        for owner, method in ((Tensor, symbol), (Tensor, f"__{symbol}__"), (torch, symbol)):
            yield getattr(owner, method), function


def _ordered(forward: Function, back: Function) -> Function:
    """``forward(left, right)`` if the left is the collection, else ``back(right, left)``."""

    def function(left: Any, right: Any) -> Any:
        return forward(left, right) if isinstance(left, Container) else back(right, left)

    return function


HANDLED: dict[Function, Function] = {
    torch.stack: _stack.stack,
    torch.cat: _stack.cat,
    torch.concat: _stack.cat,
    torch.concatenate: _stack.cat,
    torch.unbind: _shape.unbind,
    torch.split: _shape.split,
    torch.chunk: _shape.chunk,
    torch.gather: _shape.gather,
    torch.reshape: _shape.reshape,
    torch.flatten: _shape.flatten,
    torch.unflatten: _shape.unflatten,
    torch.permute: _shape.permute,
    torch.transpose: _shape.transpose,
    torch.squeeze: _shape.squeeze,
    torch.unsqueeze: _shape.unsqueeze,
    torch.clone: _apply.clone,
    torch.detach: _apply.detach,
    torch.all: _reduce.all_,
    torch.any: _reduce.any_,
    **{
        function: _apply.like(function)
        for function in (
            torch.zeros_like,
            torch.ones_like,
            torch.empty_like,
            torch.full_like,
            torch.rand_like,
            torch.randn_like,
        )
    },
    **{getattr(torch, name): _pointwise.VERBS[name] for name in _pointwise.UNARY},
    **{getattr(torch, name): _either(name) for name in _pointwise.BINARY if hasattr(torch, name)},
    **dict(_operators()),
}


_IN_PYTHON = {
    function.__name__: verb for function, verb in _operators() if isinstance(function, FunctionType)
}
"""Operators that torch wrote in Python: Dynamo cannot look these up in a dict by themselves."""


def call(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``function`` for a collection, or ``NotImplemented``."""
    verb = _IN_PYTHON.get(getattr(function, "__name__", "")) or HANDLED.get(function)
    if verb is not None:
        return verb(*args, **kwargs)
    if isinstance(function, HigherOrderOperator):  # takes trees: a collection is one
        with without_torch_function():
            return function(*args, **kwargs)
    return NotImplemented
