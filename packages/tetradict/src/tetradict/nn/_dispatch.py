"""Call a module of entries with the tensors themselves."""

import functools
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Size, Tensor

from tetradict._base import TensorDictBase
from tetradict._protocol import NestedKey
from tetradict._td import TensorDict
from tetradict.nn._keys import DROPPED, as_keys, describe, path
from tetradict.nn._settings import settings


class dispatch:
    """Let a ``forward(self, tensordict)`` also take tensors, by position or by keyword, and give tensors back.

    Tensors given by position go to the source keys in order; a keyword is a key, its levels joined by ``separator``.
    Further values by position, and keywords that are no key, are passed on to ``forward``. The result is then the entry
    under the one destination key, or a tuple of them. A call with a ``TensorDict`` goes straight through. Use it bare
    (``@dispatch``) or with arguments.

    Args:
        separator: what joins the levels of a nested key in a keyword.
        source: the attribute that lists the keys to be filled, or the keys.
        dest: the attribute that lists the keys to be given back, or the keys.
        auto_batch_size: give the collection all leading dimensions that the tensors share; if not, none.

    Raises:
        TypeError: a key was given twice.

    Example:
        >>> class Halve(TensorDictModuleBase):
        ...     in_keys, out_keys = ["a"], ["b"]
        ...     @dispatch
        ...     def forward(self, tensordict):
        ...         return tensordict.set("b", tensordict["a"] / 2)
        >>> Halve()(torch.tensor([2.0, 4.0]))
        tensor([1., 2.])
    """

    DEFAULT_SEPARATOR = "_"
    DEFAULT_SOURCE = "in_keys"
    DEFAULT_DEST = "out_keys"

    def __new__(cls, separator: str | Callable = DEFAULT_SEPARATOR, *args: Any, **options: Any) -> Any:
        if callable(separator):
            return cls(*args, **options)(separator)
        return super().__new__(cls)

    def __init__(
        self,
        separator: str | Callable = DEFAULT_SEPARATOR,
        source: str | list = DEFAULT_SOURCE,
        dest: str | list = DEFAULT_DEST,
        auto_batch_size: bool = True,
    ) -> None:
        self.separator, self.source, self.dest = separator, source, dest
        self.auto_batch_size = auto_batch_size

    def get_source(self, func: Callable, self_func: Any) -> list[NestedKey]:
        """The keys that a call of ``func``, a method of ``self_func``, fills."""
        return _listed(self_func, self.source)

    def __call__(self, forward: Callable) -> Callable:
        options: Self = self

        @functools.wraps(forward)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if (
                isinstance(args[0] if args else kwargs.get("tensordict"), TensorDictBase)
                or not settings.dispatch
            ):
                return forward(self, *args, **kwargs)
            keys, separator = _listed(self, options.source), options.separator
            data = gather(self, keys, args, kwargs, separator, options.auto_batch_size)
            rest = {name: value for name, value in kwargs.items() if name not in _names(keys, separator)}
            return spread(forward(self, data, *args[len(keys) :], **rest), _listed(self, options.dest))

        return call


def with_tensors(module: Any, first: Any, others: tuple, kwargs: dict[str, Any]) -> Any:
    """Call ``module`` with tensors for its ``in_keys`` and give back those of its ``out_keys``.

    The modules here call this themselves: a wrapper around ``forward`` would be one code object for all of them, and
    torch.compile keeps but a few compilations for each.
    """
    if not settings.dispatch:
        raise TypeError(
            f"{describe(module)}: missing 1 required positional argument: 'tensordict', a collection; calls with "
            "tensors are switched off by set_dispatch"
        )
    args, keys = others if first is None else (first, *others), module.in_keys
    data = gather(module, keys, args, kwargs)
    rest = {name: value for name, value in kwargs.items() if name not in _names(keys, "_")}
    return spread(module(data, *args[len(keys) :], **rest), module.out_keys)


def gather(
    module: Any,
    keys: list[NestedKey],
    args: tuple,
    kwargs: dict[str, Any],
    separator: str = "_",
    auto_batch_size: bool = False,
) -> TensorDict:
    """A collection of the values meant for ``keys``."""
    entries = _match(module, keys, args, kwargs, separator)
    tensors = [value for value in entries.values() if isinstance(value, Tensor)]
    data = TensorDict({}, _shared(tensors) if auto_batch_size else [])
    for key, value in entries.items():
        data.set(key, value)
    return data


def spread(tensordict: TensorDictBase, keys: list[NestedKey]) -> Any:
    """The entry under the one key, or a tuple of several."""
    out = tuple(tensordict[key] for key in keys if key != DROPPED)
    return out[0] if len(out) == 1 else out


def _listed(module: Any, keys: str | list) -> list:
    return getattr(module, keys) if isinstance(keys, str) else as_keys(keys)


def _names(keys: list[NestedKey], separator: str) -> dict[str, NestedKey]:
    """The keyword for each key."""
    return {separator.join(path(key)): key for key in keys}


def _match(
    module: Any, keys: list[NestedKey], args: tuple, kwargs: dict[str, Any], separator: str
) -> dict[NestedKey, Any]:
    """Each key with the value meant for it."""
    entries = dict(zip(keys, args, strict=False))
    for name, key in _names(keys, separator).items():
        if name in kwargs:
            if key in entries:
                raise TypeError(f"{describe(module)}: {name!r} was given twice, by position and by keyword")
            entries[key] = kwargs[name]
    return entries


def _shared(tensors: list[Tensor]) -> Size:
    """The leading dimensions that all tensors share."""
    shared = []
    for sizes in zip(*(tensor.shape for tensor in tensors), strict=False):
        if any(size != sizes[0] for size in sizes):
            break
        shared.append(sizes[0])
    return torch.Size(shared)
