"""The keys of a tree: listing them, and rebuilding the tree by them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from tetradict._entries import (
    MISSING,
    child,
    delete,
    entries_of,
    find,
    missing,
    path_of,
    put,
    set_,
    set_batch_size,
    set_names,
    unravel_key,
)
from tetradict._lock import refuse
from tetradict._nontensor import NonTensorData
from tetradict._protocol import Container, NestedKey, real_device

C = TypeVar("C", bound=Container)
IsLeaf = Callable[[type], bool]


def walk(
    td: Container, leaves_only: bool = False, is_leaf: IsLeaf | None = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[NestedKey, Any]]:
    """Every entry of the tree with its plainest key, those of a node before the node itself."""
    for key, value in td._entries().items():
        here = (*path, key)
        name = here if path else key
        if isinstance(value, Container):
            if is_leaf is not None and is_leaf(type(value)):
                yield name, value
                continue
            yield from walk(value, leaves_only, is_leaf, here)
            if not leaves_only:
                yield name, value
        elif not leaves_only or isinstance(value, Tensor) or (is_leaf is not None and is_leaf(type(value))):
            yield name, value


def items(
    td: Container,
    include_nested: bool = False,
    leaves_only: bool = False,
    is_leaf: IsLeaf | None = None,
    *,
    sort: bool = False,
) -> Iterable[tuple[NestedKey, Any]]:
    """Keys and entries.

    Args:
        td: the collection.
        include_nested: also those of nested collections, with tuples for keys.
        leaves_only: tensors alone; neither nested collections nor non-tensor values.
        is_leaf: says of a type whether it counts as a leaf, beside tensors.
        sort: in the order of the joined keys.
    """
    if include_nested:
        found = walk(td, leaves_only, is_leaf)
    else:
        found = td._entries().items()
        if leaves_only:
            found = ((k, v) for k, v in found if isinstance(v, Tensor) or (is_leaf and is_leaf(type(v))))
    if sort:
        return sorted(found, key=lambda item: ".".join(path_of(item[0])))
    return found if type(found) is type({}.items()) else list(found)


def keys(
    td: Container,
    include_nested: bool = False,
    leaves_only: bool = False,
    is_leaf: IsLeaf | None = None,
    *,
    sort: bool = False,
) -> Iterable[NestedKey]:
    """Keys; see :func:`items`."""
    if not (include_nested or leaves_only or sort):
        return td._keys()
    return [key for key, _ in items(td, include_nested, leaves_only, is_leaf, sort=sort)]


def values(
    td: Container,
    include_nested: bool = False,
    leaves_only: bool = False,
    is_leaf: IsLeaf | None = None,
    *,
    sort: bool = False,
) -> Iterable[Any]:
    """Entries; see :func:`items`."""
    if not (include_nested or leaves_only or sort):
        return td._entries().values()
    if include_nested and leaves_only and is_leaf is None and not sort:
        return td._leaves()
    return [value for _, value in items(td, include_nested, leaves_only, is_leaf, sort=sort)]


def is_empty(td: Container) -> bool:
    """Whether the tree holds no leaf at all."""
    return all(isinstance(value, Container) and is_empty(value) for value in td._entries().values())


# --- some of the entries


def select(td: C, *keys: NestedKey, inplace: bool = False, strict: bool = True) -> C:
    """The collection with these entries alone; the entries themselves are shared.

    Args:
        td: the collection.
        keys: entries to keep; a nested collection is kept whole, or in part by longer keys.
        inplace: drop the others from ``td`` itself.
        strict: raise ``KeyError`` for a key that is not there, rather than pass over it.
    """
    out: dict[str, Any] = {}
    parts: dict[str, list[NestedKey]] = {}
    entries = td._entries()
    for key in keys:
        name, rest = (key, ()) if type(key) is str else _halves(key)
        value = entries.get(name)
        if value is None or (rest and not isinstance(value, Container)):
            if strict:
                missing(td, key)
        elif not rest:
            out[name] = value
        elif name in parts:
            parts[name].append(rest)
        else:
            out.setdefault(name)
            parts[name] = [rest]
    for name, below in parts.items():
        if out[name] is None:
            out[name] = select(entries[name], *below, inplace=inplace, strict=strict)
    if not inplace:
        return td._like(out, td.batch_size, td._names)
    for name in [name for name in td._keys() if name not in out]:
        delete(td, name, "select")
    return td


def _halves(key: NestedKey) -> tuple[str, tuple[str, ...]]:
    """The first name of a key, and the others."""
    path = path_of(key)
    return path[0], path[1:]


def exclude(td: C, *keys: NestedKey, inplace: bool = False) -> C:
    """The collection without these entries (keys that are not there are passed over); the others are shared."""
    gone = {key for key in keys if type(key) is str}
    parts: dict[str, list[NestedKey]] = {}
    if len(gone) < len(keys):
        for key in keys:
            name, rest = _halves(key)
            if rest:
                parts.setdefault(name, []).append(rest)
            else:
                gone.add(name)
    entries = td._entries()
    out = {name: value for name, value in entries.items() if name not in gone}
    for name, below in parts.items():
        if isinstance(out.get(name), Container):
            out[name] = exclude(out[name], *below, inplace=inplace)
    if not inplace:
        return td._like(out, td.batch_size, td._names)
    for name in gone & entries.keys():
        delete(td, name, "exclude")
    return td


def empty(
    td: C,
    recurse: bool = False,
    *,
    batch_size: Sequence[int] | None = None,
    device: torch.device | str | int | None = MISSING,
    names: Sequence[str | None] | None = None,
) -> C:
    """The collection without its entries.

    Args:
        td: the collection.
        recurse: keep its nested collections, emptied too.
        batch_size: of the result, if another.
        device: of the result, if another; ``None`` is "mixed, not checked".
        names: of its dimensions, if others.
    """
    entries = td._entries().items() if recurse else ()
    nodes = {k: empty(v, True, device=device) for k, v in entries if isinstance(v, Container)}
    out = td._like(nodes, td.batch_size, td._names)
    if device is not MISSING:
        out._put_meta(out.batch_size, real_device(device), out._names)
    if batch_size is not None:
        set_batch_size(out, batch_size)
    if names is not None:
        set_names(out, names)
    return out


# --- other keys


def rename_key_(td: C, old_key: NestedKey, new_key: NestedKey, safe: bool = False) -> C:
    """Give an entry another key, in place.

    Raises:
        KeyError: there is no ``old_key``; or ``safe`` is set and ``new_key`` is there already.
    """
    value = find(td, old_key)
    if unravel_key(old_key) == unravel_key(new_key):
        return td
    if safe and find(td, new_key, None) is not None:
        raise KeyError(f"rename_key_: there is an entry {new_key!r} already; pass safe=False to replace it")
    delete(td, old_key, "rename_key_")
    try:
        put(td, new_key, value, "rename_key_")
    except (KeyError, RuntimeError):  # it cannot go there
        put(td, old_key, value, "rename_key_")
        raise
    return td


def flatten_keys(td: C, separator: str = ".", inplace: bool = False, is_leaf: IsLeaf | None = None) -> C:
    """One level, with nested keys joined by ``separator``; empty nested collections are gone.

    Raises:
        KeyError: two entries would get one key.
    """
    flat: dict[str, Any] = {}
    for key, value in walk(td, is_leaf=is_leaf):
        if isinstance(value, Container) and not (is_leaf is not None and is_leaf(type(value))):
            continue
        name = key if isinstance(key, str) else separator.join(key)
        if name in flat:
            raise KeyError(f"flatten_keys: two entries would get the key {name!r}; choose another separator")
        flat[name] = value
    return _refill(td, flat, "flatten_keys") if inplace else td._like(flat, td.batch_size, td._names)


def unflatten_keys(td: C, separator: str = ".", inplace: bool = False) -> C:
    """Nested collections from keys that hold ``separator``: what undoes :func:`flatten_keys`.

    Raises:
        KeyError: an entry would be both a value and a nested collection, or is there already.
    """
    out = td._like({}, td.batch_size, td._names)
    for key, value in td._entries().items():
        if isinstance(value, Container):
            value = unflatten_keys(value, separator)
        *path, name = key.split(separator)
        node = out
        for step in path:
            node = child(node, step, "unflatten_keys")
        present = node._entries().get(name)
        if isinstance(present, Container) and isinstance(value, Container):
            _merge(present, value, key)
        elif present is not None:
            raise KeyError(f"unflatten_keys: the key {key!r} collides with an entry that is there")
        else:
            node._set1(name, value)
    return _refill(td, dict(out._entries()), "unflatten_keys") if inplace else out


def _merge(into: Container, other: Container, key: str) -> None:
    for name, value in other._entries().items():
        present = into._entries().get(name)
        if isinstance(present, Container) and isinstance(value, Container):
            _merge(present, value, key)
        elif present is not None:
            raise KeyError(f"unflatten_keys: the key {key!r} collides with an entry that is there")
        else:
            into._set1(name, value)


def _refill(td: C, entries: dict[str, Any], verb: str) -> C:
    if td._lock is not None:
        refuse(td, verb, next(iter(entries), None))
    for name in list(td._keys()):
        td._del1(name)
    for name, value in entries.items():
        td._set1(name, value)
    return td


# --- many at once


def update(
    td: C,
    input_dict_or_td: Any = None,
    clone: bool = False,
    inplace: bool = False,
    *,
    non_blocking: bool = False,
    keys_to_update: Sequence[NestedKey] | None = None,
    is_leaf: IsLeaf | None = None,
    update_batch_size: bool = False,
    ignore_lock: bool = False,
    **kwargs: Any,
) -> C:
    """Put the entries of another collection or mapping; nested collections are merged.

    Args:
        td: the collection.
        input_dict_or_td: where the entries come from.
        clone: put copies of its tensors.
        inplace: write into the entries that are there, rather than replace them.
        non_blocking: do not wait for copies from another device.
        keys_to_update: these alone.
        is_leaf: says of a type of nested collection whether it replaces the present one, rather than is merged.
        update_batch_size: take over the batch sizes of ``input_dict_or_td`` too, node by node; entries that it
            lacks must fit. The nodes of ``td`` stay the same objects.
        ignore_lock: write into a locked collection in place, whatever ``inplace`` says; new keys are still refused.
        kwargs: more entries, which win over those of ``input_dict_or_td``.

    Raises:
        RuntimeError: the batch sizes do not go together and ``update_batch_size`` is not set; or an entry does not fit.
    """
    if update_batch_size:
        if inplace or keys_to_update is not None:
            wrong = "inplace" if inplace else "keys_to_update"
            raise RuntimeError(f"update: update_batch_size replaces entries, so it cannot go with {wrong}")
        _adopt(td, input_dict_or_td, clone, is_leaf)
        return update(td, **kwargs) if kwargs else td
    wanted = None if keys_to_update is None else [path_of(key) for key in _listed(keys_to_update)]
    inplace = inplace or (ignore_lock and td._lock is not None)
    for source in (input_dict_or_td, kwargs):
        if source is not None:
            check_sizes(td, source)
            _update(td, source, clone, inplace, wanted, is_leaf, non_blocking)
    return td


def check_sizes(td: Container, source: Any) -> None:
    """Refuse a collection whose batch size does not go with that of ``td``."""
    if isinstance(source, Container):
        size, theirs = td.batch_size, source.batch_size
        shared = min(len(size), len(theirs))
        if size[:shared] != theirs[:shared]:
            raise RuntimeError(
                f"update: a collection of batch size {tuple(theirs)} does not go into one of {tuple(size)}; "
                "pass update_batch_size=True to take over its batch size"
            )


def _adopt(td: Container, source: Any, clone: bool, is_leaf: IsLeaf | None) -> None:
    """Entries and batch size of ``source``, checked as a whole before anything changes."""
    if not isinstance(source, Container):
        raise TypeError(
            f"update: update_batch_size needs a collection to take batch sizes from, got a {type(source).__name__}"
        )
    if td._lock is not None:
        refuse(td, "update", next(iter(source._keys()), None))
    size = source.batch_size
    theirs = source._entries()
    for key, value in td._entries().items():
        if key not in theirs and not isinstance(value, NonTensorData):
            shape = value.shape if isinstance(value, Tensor) else value.batch_size
            if shape[: len(size)] != size:
                raise RuntimeError(
                    f"update: entry {key!r} of shape {tuple(shape)} is not replaced and does not begin with the new "
                    f"batch size {tuple(size)}"
                )
    names = td._names
    if len(size) != len(td.batch_size):
        names = None
    td._put_meta(size, td.device, names)
    for key, value in theirs.items():
        present = td._entries().get(key)
        merged = isinstance(present, Container) and isinstance(value, Container)
        if merged and not (is_leaf is not None and is_leaf(type(value))):
            _adopt(present, value, clone, is_leaf)
        else:
            put(td, key, _copied(value) if clone else value, "update")


def wanted_below(
    wanted: list[tuple[str, ...]] | None, path: tuple[str, ...]
) -> tuple[bool, list[tuple[str, ...]] | None]:
    """Whether the entry at ``path`` is among the ``wanted`` keys, and which of those below it are (``None``: all)."""
    if wanted is None:
        return True, None
    below = [want[len(path) :] for want in wanted if want[: len(path)] == path]
    return bool(below), None if () in below else below


def _listed(keys: Any) -> Iterable[NestedKey]:
    return [keys] if isinstance(keys, str) else keys


def _update(
    td: Container,
    source: Any,
    clone: bool,
    inplace: bool,
    wanted: list[tuple[str, ...]] | None,
    is_leaf: IsLeaf | None = None,
    non_blocking: bool = False,
) -> None:
    for key, value in entries_of(source).items():
        if (
            type(key) is str
            and isinstance(value, Tensor)
            and wanted is None
            and not (inplace or non_blocking)
        ):
            put(td, key, value.clone() if clone else value, "update")
            continue
        path = path_of(key)
        take, below = wanted_below(wanted, path)
        if not take:
            continue
        if isinstance(value, Container | Mapping) and not (is_leaf is not None and is_leaf(type(value))):
            present = find(td, path, None)
            if isinstance(present, Container):
                _update(present, value, clone, inplace, below, is_leaf, non_blocking)
                continue
            if below is not None:
                present = td._like({}, td.batch_size, td._names)
                _update(present, value, clone, inplace, below, is_leaf, non_blocking)
                value = present
        if inplace and find(td, path, None) is not None:
            set_(td, path, value, non_blocking=non_blocking)
            continue
        if non_blocking and isinstance(value, Tensor) and td.device is not None:
            value = value.to(td.device, non_blocking=True)
        put(td, path, _copied(value) if clone else value, "update")


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, Container):
        return value._rebuild(iter([leaf.clone() for leaf in value._leaves()]))
    return value


def update_(
    td: C,
    input_dict_or_td: Any = None,
    clone: bool = False,
    *,
    non_blocking: bool = False,
    keys_to_update: Sequence[NestedKey] | None = None,
    **kwargs: Any,
) -> C:
    """Write the entries of another collection or mapping into the present ones, in place.

    Args:
        td: the collection.
        input_dict_or_td: where the values come from.
        clone: changes nothing, since a write copies; taken for the sake of code that passes it to ``update`` too.
        non_blocking: do not wait for copies from another device.
        keys_to_update: these alone.
        kwargs: more entries.

    Raises:
        KeyError: there is no such entry; in-place writes make none.
    """
    wanted = None if keys_to_update is None else [path_of(key) for key in _listed(keys_to_update)]
    for source in (input_dict_or_td, kwargs):
        if source is not None:
            write_(td, source, non_blocking=non_blocking, wanted=wanted)
    return td


def write_(
    td: C, source: Any, *, non_blocking: bool = False, wanted: list[tuple[str, ...]] | None = None
) -> C:
    """Write the entries of ``source`` that are ``wanted`` into the present ones."""
    for key, value in entries_of(source).items():
        path = path_of(key)
        take, below = wanted_below(wanted, path)
        if not take:
            continue
        present = find(td, path)
        if isinstance(present, Container) and isinstance(value, Container | Mapping):
            write_(present, value, non_blocking=non_blocking, wanted=below)
        else:
            set_(td, path, value, non_blocking=non_blocking)
    return td
