"""Modules around other modules and functions of collections."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from tetradict._base import TensorDictBase
from tetradict._protocol import NestedKey
from tetradict.nn._keys import as_keys
from tetradict.nn._module import TensorDictModule, TensorDictModuleBase


class TensorDictModuleWrapper(TensorDictModuleBase):
    """A module that stands for another: to be subclassed, with what the subclass changes.

    Args:
        td_module: the other one. It is called, its keys are shown, and what else is asked of the wrapper, it answers.
    """

    def __init__(self, td_module: TensorDictModuleBase) -> None:
        super().__init__()
        self.td_module = td_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "td_module" or name.startswith("_"):
                raise
            return getattr(self.td_module, name)

    @property
    def in_keys(self) -> list[NestedKey]:
        """The entries that are read; may be set."""
        return self.td_module.in_keys

    @in_keys.setter
    def in_keys(self, keys: NestedKey | Iterable[NestedKey]) -> None:
        self.td_module.in_keys = keys

    @property
    def out_keys(self) -> list[NestedKey]:
        """The entries that are written; may be set."""
        return self.td_module.out_keys

    @out_keys.setter
    def out_keys(self, keys: NestedKey | Iterable[NestedKey]) -> None:
        self.td_module.out_keys = keys

    @property
    def out_keys_source(self) -> list[NestedKey]:
        """All entries that can be written."""
        return self.td_module.out_keys_source

    def select_out_keys(self, *out_keys: NestedKey) -> "TensorDictModuleWrapper":
        """Write these of the entries alone, until reset_out_keys."""
        self.td_module.select_out_keys(*out_keys)
        return self

    def reset_out_keys(self) -> "TensorDictModuleWrapper":
        """Undo select_out_keys."""
        self.td_module.reset_out_keys()
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.td_module(*args, **kwargs)


class WrapModule(TensorDictModuleBase):
    """A function from collection to collection as a module.

    Args:
        func: takes a collection and returns one.
        inplace: write the entries of what ``func`` returns into the collection that came in, and return that.
        in_keys: the entries that ``func`` reads, if that is of interest.
        out_keys: the entries it writes.
    """

    def __init__(
        self,
        func: Callable[[TensorDictBase], TensorDictBase],
        inplace: bool = False,
        *,
        in_keys: NestedKey | Iterable[NestedKey] | None = None,
        out_keys: NestedKey | Iterable[NestedKey] | None = None,
    ) -> None:
        if not callable(func) or isinstance(func, type):
            raise TypeError(f"WrapModule: func must be a function of a collection, got {func!r}")
        super().__init__()
        self.func = func
        self.inplace = inplace
        self.in_keys = [] if in_keys is None else in_keys
        self.out_keys = [] if out_keys is None else out_keys

    def forward(self, data: TensorDictBase) -> TensorDictBase:
        """Call the function."""
        out = self.func(data)
        return data.update(out) if self.inplace and out is not data else out

    def _fields(self) -> dict[str, str]:
        own = {} if isinstance(self.func, nn.Module) else {"func": repr(self.func)}
        return own | super()._fields()


def as_tensordict_module(
    in_keys: NestedKey | Iterable[NestedKey], out_keys: NestedKey | Iterable[NestedKey]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function or method of tensors read and write the entries of a collection.

    Args:
        in_keys: the entries passed to it, in order.
        out_keys: the entries that its outputs are written to.

    Example:
        >>> @as_tensordict_module(in_keys="x", out_keys="y")
        ... def double(x):
        ...     return 2 * x
        >>> double(TensorDict(x=torch.ones(1)))["y"]
        tensor([2.])
    """
    in_keys, out_keys = as_keys(in_keys, "in_keys"), as_keys(out_keys, "out_keys")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.isfunction(function) and not callable(function):
            raise TypeError(f"as_tensordict_module: expected a function, got a {type(function).__name__}")

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            *own, tensordict = args  # a method gets itself first
            module = TensorDictModule(functools.partial(function, *own), in_keys, out_keys)
            return module(tensordict)

        return call

    return decorate
