"""Functions over every leaf: the caller's, and the casts and copies that torch has."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Size, Tensor

from tetradict._entries import MISSING, coerce, find, set_names, write
from tetradict._lock import lock_
from tetradict._nontensor import NonTensorLeaf
from tetradict._protocol import Container, NestedKey, real_device

C = TypeVar("C", bound=Container)


def map_leaves(td: C, verb: Callable[[Tensor], Tensor]) -> C:
    """The same tree with ``verb`` applied to each tensor; ``verb`` keeps the batch dimensions and the device."""
    entries = {
        key: verb(value)
        if isinstance(value, Tensor)
        else map_leaves(value, verb)
        if isinstance(value, Container)
        else value
        for key, value in td._entries().items()
    }
    return td._like(entries, td.batch_size, td._names)


def apply(
    td: C,
    fn: Callable[..., Any],
    *others: Any,
    batch_size: Sequence[int] | None = None,
    device: torch.device | str | None = MISSING,
    names: Sequence[str | None] | None = MISSING,
    inplace: bool = False,
    default: Any = MISSING,
    filter_empty: bool | None = None,
    call_on_nested: bool = False,
) -> C | None:
    """A collection of what ``fn`` gives for each tensor.

    Args:
        td: the collection. Non-tensor values are kept as they are.
        fn: called with a tensor, and with those of ``others`` at the same key. Returning ``None`` drops the entry.
        others: collections with the entries of ``td``.
        batch_size: of the result, when ``fn`` changes the leading dimensions.
        device: of the result, when ``fn`` changes it.
        names: of the result's batch dimensions.
        inplace: write what ``fn`` gives into the present tensors and return ``td``; drops nothing.
        default: stands for an entry that one of ``others`` lacks.
        filter_empty: ``True`` drops empty nested collections, ``False`` keeps them, ``None`` drops those that
            ``fn`` emptied. When not ``False`` and nothing is left, the result is ``None``.
        call_on_nested: call ``fn`` with nested collections too, rather than go into them.

    Raises:
        KeyError: one of ``others`` lacks an entry, and there is no ``default``.
        RuntimeError: what ``fn`` gives does not begin with the batch size.
    """
    return _Apply(lambda _, *xs: fn(*xs), inplace, default, filter_empty, call_on_nested, False).run(
        td, others, batch_size, device, names
    )


def named_apply(
    td: C,
    fn: Callable[..., Any],
    *others: Any,
    nested_keys: bool = False,
    batch_size: Sequence[int] | None = None,
    device: torch.device | str | None = MISSING,
    names: Sequence[str | None] | None = MISSING,
    inplace: bool = False,
    default: Any = MISSING,
    filter_empty: bool | None = None,
    call_on_nested: bool = False,
) -> C | None:
    """As :func:`apply`, with ``fn`` called with the key first: the last name, or the path with ``nested_keys``."""
    return _Apply(fn, inplace, default, filter_empty, call_on_nested, nested_keys).run(
        td, others, batch_size, device, names
    )


class _Apply:
    """What stays the same while a function goes over a tree."""

    def __init__(
        self,
        fn: Callable[..., Any],
        inplace: bool,
        default: Any,
        filter_empty: bool | None,
        call_on_nested: bool,
        nested_keys: bool,
    ) -> None:
        self.fn, self.inplace, self.default = fn, inplace, default
        self.filter_empty, self.call_on_nested, self.nested_keys = filter_empty, call_on_nested, nested_keys

    def run(
        self,
        td: Any,
        others: tuple[Any, ...],
        batch_size: Sequence[int] | None,
        device: Any,
        names: Any,
    ) -> Any:
        if self.inplace:
            if batch_size is not None or device is not MISSING or names is not MISSING:
                raise ValueError(
                    "apply: in place nothing but values can change; leave out batch_size, device and names"
                )
            self.write(td, others, ())
            return td
        size = None if batch_size is None else Size(batch_size)
        out = self.build(td, others, (), size, td.device if device is MISSING else real_device(device))
        if out is None:
            return None
        if names is not MISSING:
            set_names(out, names)
        return out

    def calls(self, td: Container, others: tuple[Any, ...], path: tuple[str, ...]) -> Any:
        """Each entry with its path and those of ``others`` at the same key."""
        for key, value in td._entries().items():
            beside = tuple(
                find(other, key, self.default) if other is not self.default else other for other in others
            )
            yield key, (*path, key), value, beside

    def write(self, td: Container, others: tuple[Any, ...], path: tuple[str, ...]) -> None:
        for key, here, value, beside in self.calls(td, others, path):
            if isinstance(value, Container) and not self.call_on_nested:
                self.write(value, beside, here)
            elif not isinstance(value, NonTensorLeaf):
                result = self.fn(self.name(here), value, *beside)
                if result is not None and result is not value:
                    if isinstance(value, Tensor):
                        value.copy_(result)
                    else:
                        td._set1(key, coerce(td, key, result))

    def name(self, path: tuple[str, ...]) -> NestedKey:
        return path if self.nested_keys and len(path) > 1 else path[-1]

    def build(
        self,
        td: Any,
        others: tuple[Any, ...],
        path: tuple[str, ...],
        size: Size | None,
        device: torch.device | None,
    ) -> Any:
        """The tree of results, or ``None`` when it is empty and should be dropped."""
        out = td._like({}, td.batch_size if size is None else size, td._names if size is None else None)
        if device != td.device:
            out._put_meta(out.batch_size, device, out._names)
        for key, here, value, beside in self.calls(td, others, path):
            if isinstance(value, Container) and not self.call_on_nested:
                result = self.build(value, beside, here, size, device)
            elif isinstance(value, NonTensorLeaf):
                result = value
            else:
                result = self.fn(self.name(here), value, *beside)
            if result is not None:
                out._set1(key, coerce(out, key, result))
        drop = self.filter_empty or (self.filter_empty is None and len(td._keys()))
        return None if drop and not out._keys() else out


def clone(td: C, recurse: bool = True) -> C:
    """A copy of the tree; its tensors are copied too unless ``recurse`` is ``False``."""
    return map_leaves(td, Tensor.clone if recurse else _same)


def _same(value: Tensor) -> Tensor:
    return value


def to(td: C, *args: Any, **kwargs: Any) -> C:
    """The collection on another device or in another dtype, as :meth:`torch.Tensor.to` takes them.

    ``to(device)``, ``to(dtype)``, ``to(device, dtype)`` or ``to(other)`` with another tensor or collection; keyword
    arguments ``device``, ``dtype``, ``non_blocking``. A collection that is known to be on ``device`` is returned as
    it is when no dtype is asked for.
    """
    device, dtype, non_blocking = _parse_to(args, kwargs)
    if dtype is None and device is not None:
        if device == td.device:
            return td
        if all([leaf.device == device for leaf in td._leaves()]):
            return _marked(td, device)
    return _to(td, device, dtype, non_blocking)


def _parse_to(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.device | None, torch.dtype | None, bool]:
    kwargs = dict(kwargs)
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    non_blocking = kwargs.pop("non_blocking", False)
    if kwargs:
        raise TypeError(f"to: unknown arguments {sorted(kwargs)}; expected device, dtype or non_blocking")
    for arg in args:
        if isinstance(arg, torch.dtype):
            dtype = arg
        elif isinstance(arg, Tensor):
            device, dtype = arg.device, arg.dtype
        elif isinstance(arg, Container):
            device = arg.device
        elif isinstance(arg, str | int | torch.device) and not isinstance(arg, bool):
            device = arg
        elif isinstance(arg, bool):
            non_blocking = arg
        elif arg is not None:
            raise TypeError(
                f"to: expected a device, a dtype, a tensor or a collection, got {type(arg).__name__}"
            )
    return real_device(device), dtype, non_blocking


def _to(td: C, device: torch.device | None, dtype: torch.dtype | None, non_blocking: bool) -> C:
    entries = {
        key: value.to(device=device, dtype=dtype, non_blocking=non_blocking)
        if isinstance(value, Tensor)
        else _to(value, device, dtype, non_blocking)
        if isinstance(value, Container)
        else value
        for key, value in td._entries().items()
    }
    out = td._like(entries, td.batch_size, td._names)
    if device is not None:
        out._put_meta(td.batch_size, device, td._names)
    return out


def _marked(td: C, device: torch.device) -> C:
    """The same tree, known to be on ``device``."""
    entries = {k: _marked(v, device) if isinstance(v, Container) else v for k, v in td._entries().items()}
    out = td._like(entries, td.batch_size, td._names)
    out._put_meta(td.batch_size, device, td._names)
    return out


def cpu(td: C) -> C:
    """The collection in host memory."""
    return to(td, "cpu")


def cuda(td: C, device: int | None = None) -> C:
    """The collection on a CUDA device, the current one unless told."""
    return to(td, torch.device("cuda", device) if device is not None else "cuda")


def detach(td: C) -> C:
    """The same values outside the autograd graph; memory is shared."""
    return map_leaves(td, Tensor.detach)


def requires_grad_(td: C, requires_grad: bool = True) -> C:
    """Let autograd record what is done with each tensor, or stop it; in place."""
    for leaf in td._leaves():
        leaf.requires_grad_(requires_grad)
    return td


def zero_(td: C) -> C:
    """Write zero into every tensor."""
    for leaf in td._leaves():
        leaf.zero_()
    return td


def fill_(td: C, key: NestedKey, value: float | bool) -> C:
    """Write ``value`` into the entry at ``key``, or into all entries of a nested collection there."""
    entry = find(td, key)
    for leaf in entry._leaves() if isinstance(entry, Container) else [entry]:
        leaf.fill_(value)
    return td


def copy_(td: C, tensordict: Container) -> C:
    """Write the entries of ``tensordict`` into the present ones."""
    write(td, tensordict)
    return td


def like(function: Callable[..., Tensor]) -> Callable[..., Any]:
    """``torch.zeros_like`` and its kin, for a collection."""

    def verb(td: Any, *args: Any, **kwargs: Any) -> Any:
        device = real_device(kwargs.get("device"))
        out = map_leaves(td, lambda leaf: function(leaf, *args, **kwargs))
        return out if device is None or device == td.device else to(out, device)

    return verb


def share_memory_(td: C) -> C:
    """Move every tensor to memory that child processes share, and lock the collection."""
    for leaf in td._leaves():
        leaf.share_memory_()
    return lock_(td)


def is_shared(td: Container) -> bool:
    """Whether every tensor lies in memory that child processes share."""
    leaves = [leaf for leaf in td._leaves() if leaf.numel()]
    return bool(leaves) and all(leaf.is_shared() for leaf in leaves)
