"""One entry: how a path leads to it, how a value becomes one, and reading, putting and removing it."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor

from tetradict._lock import refuse
from tetradict._nontensor import NonTensorData, NonTensorLeaf, NonTensorStack
from tetradict._protocol import Container, NestedKey

C = TypeVar("C", bound=Container)
MISSING: Any = object()  # stands for "no default given", where None is a default like any other


# --- paths


def path_of(key: NestedKey) -> tuple[str, ...]:
    """The names that lead to an entry, one for each level.

    Raises:
        TypeError: ``key`` is neither a string nor a (nested) tuple of strings.
    """
    if isinstance(key, str):
        return (key,)
    if isinstance(key, tuple) and key:
        for part in key:
            if type(part) is not str:
                break
        else:
            return key
        return tuple(name for part in key for name in path_of(part))
    raise TypeError(f"a key is a string or a tuple of strings, got {key!r}")


def unravel_key(key: NestedKey) -> NestedKey:
    """The plainest form of a key: a string for one level, else a flat tuple of strings.

    Example:
        >>> unravel_key(("a", ("b", "c"))), unravel_key(("a",))
        (('a', 'b', 'c'), 'a')
    """
    path = path_of(key)
    return path if len(path) > 1 else path[0]


def unravel_key_list(keys: Sequence[NestedKey]) -> list[NestedKey]:
    """The plainest form of each key; see :func:`unravel_key`."""
    if isinstance(keys, str):
        raise TypeError(f"unravel_key_list takes a list of keys, got the string {keys!r}; use unravel_key")
    return [unravel_key(key) for key in keys]


def is_key(key: object) -> bool:
    """Whether ``key`` names an entry, rather than being an index."""
    while type(key) is tuple and key:
        key = key[0]
    return isinstance(key, str)


def missing(td: Container, key: NestedKey) -> NoReturn:
    """Raise the ``KeyError`` of an entry that is not there, with the nearest ones that are."""
    node, path = td, list(path_of(key))
    while len(path) > 1 and isinstance(below := node._entries().get(path[0]), Container):
        node = below
        path.pop(0)
    known = list(node._keys())
    near = difflib.get_close_matches(path[0], known, n=3) or sorted(known)[:8]
    where = "" if node is td else f" below {path_of(key)[: -len(path)]}"
    shown_keys = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
    raise KeyError(
        f"key {key!r} was not found in {type(td).__name__} with keys [{shown_keys}]{where}; nearest: {near}"
    )


# --- reading


def find(td: Container, key: NestedKey, default: Any = MISSING) -> Any:
    """The entry at ``key`` as it is stored, or ``default``; ``KeyError`` when there is neither."""
    node: Any = td
    for name in path_of(key):
        try:
            node = node._get1(name) if isinstance(node, Container) else MISSING
        except KeyError:
            node = MISSING
        if node is MISSING:
            return missing(td, key) if default is MISSING else default
    return node


def get(td: Container, key: NestedKey, default: Any = None) -> Any:
    """The entry at ``key`` as it is stored (a non-tensor value in its leaf), or ``default``."""
    return find(td, key, default)


def contains(td: Container, key: NestedKey) -> bool:
    """Whether there is an entry at ``key``."""
    return find(td, key, None) is not None


def shown(value: Any) -> Any:
    """What ``td[key]`` gives for a stored value: a non-tensor leaf shows what it holds."""
    return value._value() if isinstance(value, NonTensorLeaf) else value


def get_non_tensor(td: Container, key: NestedKey, default: Any = MISSING) -> Any:
    """What the non-tensor entry at ``key`` holds, or ``default``; ``KeyError`` when there is neither."""
    return shown(find(td, key, default))


# --- a value becomes an entry


def coerce(td: Container, key: str, value: Any) -> Any:
    """``value`` as an entry of ``td``: a tensor on its device, a container of its batch size, or a leaf.

    Numbers, arrays and lists of numbers become tensors, mappings become containers of the kind of ``td``, any
    other list gives one value an item of the batch, and any other object is kept as it is for the whole batch.

    Raises:
        RuntimeError: the leading dimensions are not those of ``td``.
    """
    if isinstance(value, Tensor):
        return _fit_tensor(td, key, value)
    if type(value) is str:
        return NonTensorData(value, td.batch_size)
    if isinstance(value, Container):
        return _fit_container(td, value)
    if isinstance(value, NonTensorLeaf):
        return _fit_leaf(td, key, value)
    if isinstance(value, Mapping):
        node = td._nested()
        for name, item in value.items():
            put(node, name, item)
        return node
    tensor = to_tensor(value)
    if tensor is not None:
        return _fit_tensor(td, key, tensor)
    if isinstance(value, list) and td.batch_size:
        return _fit_leaf(td, key, _rows_of(td, key, value))
    return NonTensorData(value, td.batch_size)


def to_tensor(value: Any) -> Tensor | None:
    """A tensor of a number, an array or lists of numbers; ``None`` when ``value`` is nothing of the kind."""
    if isinstance(value, bool | int | float | complex):
        return torch.tensor(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return torch.as_tensor(value) if value.dtype.kind in "biufc" else None
    if isinstance(value, list | tuple) and value and _numeric(value):
        if any(isinstance(item, (Tensor, np.ndarray)) for item in value):
            return torch.stack([torch.as_tensor(item) for item in value])
        return torch.tensor(value)
    return None


def _numeric(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_numeric(item) for item in value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biufc"
    return isinstance(value, bool | int | float | complex | Tensor)


def _fit_tensor(td: Container, key: str, value: Tensor) -> Tensor:
    size = td.batch_size
    if size and value.shape[: len(size)] != size:
        misfit(td, key, value.shape)
    device = td.device
    if device is not None and value.device != device:
        return value.to(device)
    return value


def misfit(td: Container, key: object, shape: Sequence[int]) -> NoReturn:
    """Raise the error of an entry whose leading dimensions are not the batch size."""
    size = tuple(td.batch_size)
    raise RuntimeError(
        f"batch dimension mismatch: entry {key!r} must have a shape that begins with the batch size {size}, "
        f"got {tuple(shape)}"
    )


def _fit_container(td: Container, value: Container) -> Container:
    size, device, names = td.batch_size, td.device, td._names
    fits = value.batch_size[: len(size)] == size
    if not fits or (names is not None and value._names is None):
        value = _branch(value)  # the caller's stays as it is
        if not fits:
            set_batch_size(value, size)
        if names is not None:
            set_names(value, [*names, *[None] * (len(value.batch_size) - len(names))])
    elif names is not None and value._names[: len(names)] != names:
        raise RuntimeError(
            f"a nested collection must have the names {names} of its parent, got {value._names}"
        )
    return value if device is None or value.device == device else to_device(value, device)


def _branch(td: C) -> C:
    """A tree of new nodes around the same leaves."""
    entries = {k: _branch(v) if isinstance(v, Container) else v for k, v in td._entries().items()}
    return td._like(entries, td.batch_size, td._names)


def _fit_leaf(td: Container, key: str, value: NonTensorLeaf) -> NonTensorLeaf:
    size = td.batch_size
    if value.batch_size[: len(size)] == size:
        return value
    if isinstance(value, NonTensorData):
        return type(value)(value.data, size)
    misfit(td, key, value.batch_size)


def _rows_of(td: Container, key: str, value: list[Any]) -> NonTensorStack:
    """One value an item of the batch, from lists nested as deep as the batch has dimensions."""
    size = td.batch_size
    shape: list[int] = []
    part: Any = value
    while isinstance(part, list) and len(shape) < len(size):
        shape.append(len(part))
        part = part[0] if part else None
    if tuple(shape) != tuple(size):
        raise RuntimeError(
            f"entry {key!r} is a list, which must have one value for each item of the batch {tuple(size)}, "
            f"got the form {tuple(shape)}; to keep the list as one value, set NonTensorData(the_list)"
        )
    return NonTensorStack.from_list(value, len(size))


def to_device(td: C, device: torch.device) -> C:
    """The same tree with every tensor on ``device``."""
    entries = {
        key: value.to(device)
        if isinstance(value, Tensor)
        else to_device(value, device)
        if isinstance(value, Container)
        else value
        for key, value in td._entries().items()
    }
    out = td._like(entries, td.batch_size, td._names)
    out._put_meta(td.batch_size, device, td._names)
    return out


# --- putting and removing


def put(td: Container, key: Any, value: Any, verb: str = "set") -> None:
    """Check ``value`` and put it at ``key``; nodes missing on the way are made."""
    node, name = td, key
    if type(key) is not str:
        *path, name = path_of(key)
        for step in path:
            node = child(node, step, verb)
    if node._lock is not None:
        refuse(node, verb, name)
    node._set1(name, node._coerce(name, value))


def child(td: Container, name: str, verb: str) -> Container:
    """The node ``name`` of ``td``, made when missing."""
    try:
        node = td._get1(name)
    except KeyError:
        if td._lock is not None:
            refuse(td, verb, name)
        td._set1(name, td._nested())
        node = td._get1(name)  # some kinds keep another one
    if not isinstance(node, Container):
        raise KeyError(f"{verb}: entry {name!r} is a {type(node).__name__}, nothing can be put below it")
    return node


def set_(td: C, key: NestedKey, item: Any, *, non_blocking: bool = False) -> C:
    """Write ``item`` into the present value at ``key``, in place; tensors of a locked collection may be written.

    Args:
        td: the collection.
        key: of an entry that is there.
        item: a value that goes with it; see ``td[key] = item``.
        non_blocking: do not wait for a copy from another device.

    Raises:
        KeyError: there is no such entry; in-place writes make none.
        ValueError: a tensor does not fit into the present one.
        RuntimeError: the entry is a non-tensor value, which can only be replaced, and the collection is locked.
    """
    *path, name = path_of(key)
    node = find(td, tuple(path)) if path else td
    present = node._entries().get(name, MISSING) if isinstance(node, Container) else MISSING
    if present is MISSING:
        missing(td, key)
    if isinstance(present, Tensor):
        item = item if isinstance(item, Tensor) else torch.as_tensor(item)
        try:
            present.copy_(item, non_blocking)
        except RuntimeError as error:
            raise ValueError(
                f"set_: Failed to update {name!r} of shape {tuple(present.shape)} in place by a value of shape "
                f"{tuple(item.shape)}: {error}"
            ) from error
    elif isinstance(present, Container):
        write(present, item)
    elif (new := coerce(node, name, item)) != present:
        put(node, name, new, "set_")
    return td


def write(td: Container, source: Any) -> None:
    """Write the entries of a collection or mapping into the present ones, in place."""
    for key, value in entries_of(source).items():
        set_(td, key, value)


def entries_of(source: Any) -> Mapping[Any, Any]:
    """The entries of one level of a container or mapping."""
    if isinstance(source, Container):
        return source._entries()
    if isinstance(source, Mapping):
        return source
    raise TypeError(f"expected a collection or a mapping, got {type(source).__name__}")


def pop(td: Container, key: NestedKey, default: Any = MISSING) -> Any:
    """Remove the entry at ``key`` and return it, or ``default``; ``KeyError`` when there is neither."""
    value = find(td, key, default)
    if value is not default:
        delete(td, key, "pop")
    return shown(value)


def delete(td: Container, key: NestedKey, verb: str = "del_") -> None:
    """Remove the entry at ``key``; ``KeyError`` when it is not there."""
    *path, name = path_of(key)
    node = find(td, tuple(path)) if path else td
    if not isinstance(node, Container) or name not in node._keys():
        missing(td, key)
    if node._lock is not None:
        refuse(node, verb, name)
    node._del1(name)


# --- batch size and names of a tree


def set_batch_size(td: Container, size: Sequence[int]) -> None:
    """Give ``td`` another batch size, once every entry has been checked to begin with it.

    Raises:
        RuntimeError: an entry does not; nothing has changed then.
    """
    new = torch.Size(size)
    _check_batch_size(td, new)
    _put_batch_size(td, new)


def _check_batch_size(td: Container, new: torch.Size) -> None:
    for key, value in td._entries().items():
        shape = value.shape if isinstance(value, Tensor) else value.batch_size
        if shape[: len(new)] == new or isinstance(value, NonTensorData):
            continue
        if isinstance(value, Container):
            _check_batch_size(value, new)
        else:
            raise RuntimeError(
                f"batch_size: entry {key!r} of shape {tuple(shape)} does not begin with the new batch size "
                f"{tuple(new)}"
            )


def _put_batch_size(td: Container, new: torch.Size) -> None:
    for key, value in td._entries().items():
        if isinstance(value, Container) and value.batch_size[: len(new)] != new:
            _put_batch_size(value, new)
        elif isinstance(value, NonTensorData):
            td._set1(key, type(value)(value.data, new))
    names = td._names
    td._put_meta(new, td.device, None if names is None else [*names, *[None] * len(new)][: len(new)])


def set_names(td: Container, names: Sequence[str | None] | None) -> None:
    """Name the batch dimensions of ``td``, and the same dimensions of the containers below."""
    if names is not None:
        names = list(names)
        given = [name for name in names if name is not None]
        if len(names) != len(td.batch_size) or len(set(given)) != len(given):
            raise ValueError(
                f"names: expected {len(td.batch_size)} different names (or None), one a batch dimension, got {names}"
            )
        if not given:
            names = None
    td._put_meta(td.batch_size, td.device, names)
    for value in td._entries().values():
        if isinstance(value, Container):
            extra = len(value.batch_size) - len(td.batch_size)
            below = value._names[-extra:] if extra and value._names else [None] * extra
            set_names(
                value,
                None
                if names is None and not any(below)
                else [*(names or [None] * len(td.batch_size)), *below],
            )
