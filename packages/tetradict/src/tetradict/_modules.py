"""The parameters and buffers of an ``nn.Module`` as a collection, and back into the module."""

from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch import Size, Tensor, nn

from tetradict._lock import lock_
from tetradict._protocol import Container
from tetradict._stack import stack
from tetradict._torch_compat import is_wrapped_by_functorch

C = TypeVar("C", bound=Container)

AS_MODULE: list[type] = []
"""The class of collections that are modules; it puts itself here, since it knows this module and not the reverse."""


# --- from a module


def from_module(
    cls: type[C],
    module: nn.Module,
    as_module: bool = False,
    lock: bool = True,
    use_state_dict: bool = False,
) -> C:
    """The parameters and buffers of a module, nested as its submodules are; the tensors are the module's own.

    Args:
        cls: the kind of the collection.
        module: the module.
        as_module: give a TensorDictParams, which can stand in another module.
        lock: lock the result.
        use_state_dict: take ``module.state_dict()``, with its hooks, rather than the attributes.

    Example:
        >>> sorted(TensorDict.from_module(torch.nn.Linear(2, 3)).keys())
        ['bias', 'weight']
    """
    empty = cls({}, ())
    if use_state_dict:
        out = empty
        for name, value in module.state_dict().items():
            out.set(tuple(name.split(".")), value)
    else:
        out = _tree(empty, module)
    if as_module:
        return AS_MODULE[0](out, no_convert=True, lock=lock)
    return lock_(out) if lock else out


def _tree(like: C, module: nn.Module) -> C:
    if isinstance(module, Container):
        return _plain(like, module)
    entries: dict[str, Any] = {}
    for tensors in (module._parameters, module._buffers):  # noqa: SLF001  (without the walk over all submodules)
        entries.update((name, value) for name, value in tensors.items() if value is not None)
    for name, child in module._modules.items():  # noqa: SLF001
        if child is not None:
            node = _tree(like, child)
            if node._keys():
                entries[name] = node
    return like._like(entries, Size())


def _plain(like: C, td: Container) -> C:
    """The entries of any container in one of the kind of ``like``."""
    entries = {k: _plain(like, v) if isinstance(v, Container) else v for k, v in td._entries().items()}
    return like._like(entries, td.batch_size, td._names)


def from_modules(
    cls: type[C],
    *modules: nn.Module,
    as_module: bool = False,
    lock: bool = True,
    use_state_dict: bool = False,
    lazy_stack: bool = False,
    expand_identical: bool = False,
) -> C:
    """The parameters and buffers of several modules, stacked: for an ensemble, by ``torch.vmap``.

    Args:
        cls: the kind of the collection.
        modules: modules of one structure, or with ``lazy_stack`` of any.
        as_module: give a TensorDictParams.
        lock: lock the result.
        use_state_dict: see from_module.
        lazy_stack: keep the tensors of the modules themselves, and stack when they are read. If not, the stacks are new
            parameters, and it is them that an optimizer should be given.
        expand_identical: where all modules share a tensor, expand it rather than stack copies.

    Raises:
        ValueError: no module was given; or ``as_module`` and ``lazy_stack`` both.
        RuntimeError: the structures differ.
    """
    if not modules or (as_module and lazy_stack):
        raise ValueError(
            "from_modules: expected at least one module, got none"
            if not modules
            else "from_modules: as_module makes new parameters and lazy_stack keeps those of the modules; choose one"
        )
    trees = [from_module(cls, module, lock=False, use_state_dict=use_state_dict) for module in modules]
    if lazy_stack:
        out = cls.lazy_stack(trees)
    else:
        with torch.no_grad():
            out = stack(trees, 0)
        heads = [tree._leaves() for tree in trees]
        shared = [
            expand_identical and all(x is column[0] for x in column) for column in zip(*heads, strict=True)
        ]
        leaves = zip(heads[0], out._leaves(), shared, strict=True)
        out = out._rebuild(iter([_stacked(len(modules), *leaf) for leaf in leaves]))
    if as_module:
        return AS_MODULE[0](out, no_convert=True, lock=lock)
    return lock_(out) if lock else out


def _stacked(count: int, head: Tensor, column: Tensor, shared: bool) -> Tensor:
    if shared:
        return head.expand(count, *head.shape)
    return nn.Parameter(column, head.requires_grad) if isinstance(head, nn.Parameter) else nn.Buffer(column)


# --- into a module


def to_module(
    td: C,
    module: nn.Module,
    *,
    inplace: bool | None = None,
    return_swap: bool = True,
    swap_dest: Container | None = None,
    use_state_dict: bool = False,
    non_blocking: bool = False,
    preserve_module_state: bool | None = True,
    memo: Any = None,
) -> C | None:
    """Put the entries into a module as its parameters and buffers. As a context manager, only while a block runs.

    Args:
        td: of the structure that from_module gives.
        module: the module.
        inplace: write into the tensors that the module has, rather than replace them.
        return_swap: return what the module had before.
        swap_dest: write what the module had before into this collection, and return it.
        use_state_dict: go through ``module.load_state_dict``, with its hooks.
        non_blocking: for in-place copies between devices.
        preserve_module_state: a tensor that is no parameter becomes one (with the ``requires_grad`` of the old one)
            where the module had one, and a parameter becomes a plain tensor where it had a buffer; a tensor that needs
            a gradient, or that vmap or another transform tracks, takes the place as it is. ``False`` replaces the
            attribute by what is in ``td``: a parameter of the module may then cease to be one.
        memo: not needed; accepted for older code.

    Raises:
        KeyError: the module has no such parameter, buffer or submodule.

    Example:
        >>> linear = torch.nn.Linear(2, 3)
        >>> zeros = TensorDict.from_module(linear).data * 0
        >>> with zeros.to_module(linear):
        ...     print(linear(torch.ones(2)))
        tensor([0., 0., 0.])
    """
    swap = _Swap(bool(inplace), non_blocking, preserve_module_state is not False)
    old = swap.load(td, module) if use_state_dict else swap.write(td, module)
    if swap_dest is not None:
        old = swap_dest.update(old)
    if not return_swap:
        return None
    old._undo = swap.undo
    return old


class _Swap:
    """What a module had, and how to put it back."""

    def __init__(self, inplace: bool, non_blocking: bool, preserve: bool) -> None:
        self.inplace, self.non_blocking, self.preserve = inplace, non_blocking, preserve
        self.seen: list[tuple[nn.Module, Any]] = []
        self.steps: list[tuple[nn.Module, str, str, Any]] = []

    def write(self, td: Any, module: nn.Module) -> Any:
        """Put entries into ``module`` and return what stood there."""
        old: dict[str, Any] = {}
        children = module._modules  # noqa: SLF001  (as torch's own functional_call reaches them)
        for key, value in td._entries().items():
            if isinstance(value, Container) and key in children:
                old[key] = self.write(value, children[key])
            elif isinstance(value, Tensor):
                old[key] = self.put(module, key, value)
            elif isinstance(value, Container):
                if key not in module._buffers:  # noqa: SLF001
                    _unknown(module, key)
                old[key] = self.put(module, key, value)
            else:
                old[key] = value
        out = td._like(old, Size())
        for other, first in self.seen:
            if other is module:  # it stands in two places: what it had is what it had at first
                return first
        self.seen.append((module, out))
        return out

    def put(self, module: nn.Module, key: str, value: Any) -> Any:
        """Put one tensor into its place, and return what stood there."""
        parameters, buffers = module._parameters, module._buffers  # noqa: SLF001
        if key in parameters:
            kind, present = "parameter", parameters[key]
        elif key in buffers:
            kind, present = "buffer", buffers[key]
        else:
            present = getattr(module, key, None)
            if not isinstance(present, Tensor):
                _unknown(module, key)
            kind = "attribute"
        if self.inplace:
            before = present.detach().clone()
            with torch.no_grad():
                present.copy_(value, non_blocking=self.non_blocking)
            self.steps.append((module, key, "inplace", (present, before)))
            return before
        self.steps.append((module, key, kind, (present, list(parameters))))
        _place(module, key, kind, _fitting(present, value, kind) if self.preserve else value)
        return present

    def undo(self) -> None:
        """Put everything back."""
        for module, key, kind, (present, other) in reversed(self.steps):
            if kind == "inplace":
                with torch.no_grad():
                    present.copy_(other)
            else:
                _place(module, key, kind, present)
        for module, _, kind, (_, order) in reversed(self.steps):  # the first one knows the order there was
            if kind == "parameter":
                _reorder(module._parameters, order)  # noqa: SLF001
        self.steps = []

    def load(self, td: Any, module: nn.Module) -> Any:
        """Load ``td`` as a state dict; what stood there is loaded again by undo."""
        before = {name: value.detach().clone() for name, value in module.state_dict().items()}
        flat = dict(_flat(td))
        module.load_state_dict(flat, assign=not self.inplace)
        self.undo = lambda: module.load_state_dict(before)
        out = td._like({}, Size())
        for name, value in before.items():
            out.set(tuple(name.split(".")), value)
        return out


def _flat(td: Container, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in td._entries().items():
        if isinstance(value, Container):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _unknown(module: nn.Module, key: str) -> None:
    raise KeyError(
        f"to_module: a {type(module).__name__} has no parameter, buffer or submodule {key!r}; it has "
        f"{[*module._parameters, *module._buffers, *module._modules]}"  # noqa: SLF001
    )


def _fitting(present: Any, value: Any, kind: str) -> Any:
    """``value`` as it can stand where ``present`` does."""
    if kind == "parameter" and not isinstance(value, nn.Parameter):
        if value.requires_grad or _is_tracked(value):
            return value
        return nn.Parameter(value, present.requires_grad)
    if kind == "buffer" and isinstance(value, nn.Parameter):
        return value.detach()
    return value


def _is_tracked(value: Tensor) -> bool:
    """Whether something is recorded of ``value`` that a new parameter would lose."""
    return torch.compiler.is_compiling() or is_wrapped_by_functorch(value)


def _place(module: nn.Module, key: str, kind: str, value: Any) -> None:
    """Make ``value`` what ``module.key`` gives."""
    parameters, buffers = module._parameters, module._buffers  # noqa: SLF001
    own = type(module).__setattr__ is not nn.Module.__setattr__ and not isinstance(module, Container)
    plain = kind == "parameter" and not isinstance(value, nn.Parameter)
    if own:  # it keeps track of its attributes itself, as recurrent layers do
        delattr(module, key)
        setattr(module, key, value)
    elif isinstance(value, nn.Parameter) and kind != "attribute":
        if key in module.__dict__:
            delattr(module, key)
        buffers.pop(key, None)
        parameters[key] = value
    elif kind == "buffer":
        parameters.pop(key, None)
        buffers[key] = value
    elif plain and (isinstance(module, Container) or _is_tracked(value)):
        parameters[key] = value
    elif key in parameters:
        del parameters[key]
        setattr(module, key, value)
    else:
        setattr(module, key, value)


def _reorder(parameters: dict[str, Any], order: list[str]) -> None:
    """Bring parameters that were taken out and put in again to their places."""
    if list(parameters) != order and sorted(parameters) == sorted(order):
        for name in order:
            parameters[name] = parameters.pop(name)
