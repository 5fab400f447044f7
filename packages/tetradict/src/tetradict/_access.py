"""One entry at a time, and writes at an index: what users call beside ``get``, ``set`` and ``[]``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from tetradict._entries import MISSING, contains, delete, entries_of, find, missing, path_of, put, shown
from tetradict._index import set_index
from tetradict._keys import update, wanted_below, write_
from tetradict._lock import refuse
from tetradict._nontensor import NonTensorData, NonTensorLeaf
from tetradict._protocol import Container, NestedKey

C = TypeVar("C", bound=Container)


# --- reading


def get_at(td: Container, key: NestedKey, index: Any, default: Any = MISSING) -> Any:
    """The items at ``index`` of the entry at ``key``, or ``default``; ``KeyError`` when there is neither."""
    value = find(td, key, default)
    if value is default:
        return default
    if isinstance(value, NonTensorLeaf):
        size = torch.empty(value.batch_size, device="meta")[index].shape
        return shown(value._map(lambda rows: rows[index], size))
    return value[index]


def get_item_shape(td: Container, key: NestedKey) -> Sequence[int]:
    """The shape of the entry at ``key``: of a collection or a non-tensor value, its batch size."""
    value = find(td, key)
    return value.shape if isinstance(value, Tensor) else value.batch_size


def entry_class(td: Container, key: NestedKey) -> type:
    """The class of the entry at ``key`` as it is stored."""
    return type(find(td, key))


def is_non_tensor_entry(td: Container, key: NestedKey) -> bool:
    """Whether the entry at ``key`` is a non-tensor value."""
    return isinstance(find(td, key), NonTensorLeaf)


# --- putting


def setdefault(td: Container, key: NestedKey, default: Any, inplace: bool = False) -> Any:
    """The entry at ``key``, which is put there first if it is missing."""
    if not contains(td, key):
        put(td, key, default, "setdefault")
    return find(td, key)


def set_non_tensor(td: C, key: NestedKey, value: Any) -> C:
    """Put ``value`` at ``key`` as it is, also if it could become a tensor or one value an item."""
    put(td, key, value if isinstance(value, NonTensorLeaf) else NonTensorData(value), "set_non_tensor")
    return td


def create_nested(td: C, key: NestedKey) -> C:
    """Put an empty collection of the same batch size, device and names at ``key``; what was there is replaced."""
    put(td, key, {}, "create_nested")
    return td


def replace(td: C, *args: Any, **kwargs: Any) -> C:
    """A new tree of the same tensors with some entries replaced; ``td`` itself when nothing is given.

    Args:
        td: the collection.
        args: at most one collection or mapping of the new entries.
        kwargs: more new entries.
    """
    if len(args) > 1:
        raise TypeError(f"replace: expected one collection or mapping and keyword arguments, got {len(args)}")
    source = args[0] if args and args[0] is not None else {}
    if not entries_of(source) and not kwargs:
        return td
    return update(update(fresh(td), source), kwargs)


def fresh(td: C) -> C:
    """New nodes, unlocked, around the same leaves."""
    entries = {k: fresh(v) if isinstance(v, Container) else v for k, v in td._entries().items()}
    return td._like(entries, td.batch_size, td._names)


# --- removing


def popitem(td: Container) -> tuple[str, Any]:
    """Remove the entry that was put last, and return its key and value.

    Raises:
        KeyError: the collection is empty.
    """
    key = next(reversed(list(td._keys())), None)
    if key is None:
        raise KeyError("popitem: the collection is empty")
    value = td._get1(key)
    delete(td, key, "popitem")
    return key, shown(value)


def clear(td: C) -> C:
    """Remove every entry."""
    keys = list(td._keys())
    if td._lock is not None and keys:
        refuse(td, "clear", keys[0])
    for key in keys:
        td._del1(key)
    return td


def filter_empty_(td: C) -> C:
    """Remove nested collections that hold no leaf, in place."""
    for key, value in list(td._entries().items()):
        if isinstance(value, Container):
            filter_empty_(value)
            if not value._keys():
                delete(td, key, "filter_empty_")
    return td


def filter_non_tensor_data(td: C) -> C:
    """The collection without non-tensor values; its tensors are shared."""
    entries = {
        key: filter_non_tensor_data(value) if isinstance(value, Container) else value
        for key, value in td._entries().items()
        if not isinstance(value, NonTensorLeaf)
    }
    return td._like(entries, td.batch_size, td._names)


# --- in place


def copy_(td: C, tensordict: Container, non_blocking: bool = False) -> C:
    """Write the entries of ``tensordict`` into the present ones.

    Args:
        td: the collection.
        tensordict: a collection with entries that are all present in ``td``.
        non_blocking: do not wait for copies from another device.
    """
    return write_(td, tensordict, non_blocking=non_blocking)


def set_at_(td: C, key: NestedKey, value: Any, index: Any, non_blocking: bool = False) -> C:
    """Write ``value`` into the items at ``index`` of the entry at ``key``, in place.

    Raises:
        KeyError: there is no such entry.
    """
    *path, name = path_of(key)
    node = find(td, tuple(path)) if path else td
    present = node._entries().get(name, MISSING) if isinstance(node, Container) else MISSING
    if present is MISSING:
        missing(td, key)
    if isinstance(present, Tensor):
        if isinstance(value, Tensor) and non_blocking and value.device != present.device:
            value = value.to(present.device, non_blocking=True)
        present[index] = value if isinstance(value, Tensor | int | float) else torch.as_tensor(value)
    elif isinstance(present, Container):
        set_index(present, index, value)
    else:
        new = present._with(index, value)
        if new is not present:
            put(node, name, new, "set_at_")
    return td


def update_at_(
    td: C,
    input_dict_or_td: Any,
    idx: Any,
    clone: bool = False,
    *,
    non_blocking: bool = False,
    keys_to_update: Iterable[NestedKey] | None = None,
) -> C:
    """Write the entries of another collection or mapping into the items at ``idx``, in place.

    Args:
        td: the collection.
        input_dict_or_td: entries of the indexed size, all present in ``td``.
        idx: see ``td[idx]``.
        clone: changes nothing, since a write copies; taken for the sake of code that passes it to ``update`` too.
        non_blocking: do not wait for copies from another device.
        keys_to_update: these alone.

    Raises:
        KeyError: there is no such entry.
    """
    wanted = None if keys_to_update is None else [path_of(key) for key in listed(keys_to_update)]
    _update_at(td, input_dict_or_td, idx, non_blocking, wanted)
    return td


def _update_at(td: Container, source: Any, idx: Any, non_blocking: bool, wanted: Any) -> None:
    for key, value in entries_of(source).items():
        path = path_of(key)
        take, below = wanted_below(wanted, path)
        if not take:
            continue
        present = find(td, path)
        if isinstance(present, Container) and isinstance(value, Container | Mapping):
            _update_at(present, value, idx, non_blocking, below)
        else:
            set_at_(td, path, value, idx, non_blocking)


def listed(keys: Any) -> Iterable[NestedKey]:
    """Keys given as one or as several."""
    return [keys] if isinstance(keys, str) else keys
