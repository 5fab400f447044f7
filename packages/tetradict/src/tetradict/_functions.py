"""What torch's own functions mean for a collection."""

from collections.abc import Callable
from typing import Any

import torch

from tetradict import _apply, _pointwise, _reduce, _shape, _stack

HANDLED: dict[Callable[..., Any], Callable[..., Any]] = {
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
    **{getattr(torch, name): _pointwise.VERBS[name] for name in _pointwise.FUNCTIONS},
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
}
