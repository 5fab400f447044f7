"""The keys of a tree: listing them, and rebuilding the tree by them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from torch import Tensor

from tetradict._entries import (
    child,
    delete,
    entries_of,
    find,
    missing,
    path_of,
    put,
    set_,
    unravel_key,
)
from tetradict._lock import refuse
from tetradict._protocol import Container, NestedKey

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


def empty(td: C, recurse: bool = False, *, batch_size: Sequence[int] | None = None) -> C:
    """The collection without its entries; with ``recurse``, with its nested collections, emptied too."""
    nodes = (
        {k: empty(v, True) for k, v in td._entries().items() if isinstance(v, Container)} if recurse else {}
    )
    out = td._like(nodes, td.batch_size, td._names)
    if batch_size is not None:
        out._put_meta(type(td.batch_size)(batch_size), td.device, None)
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
    keys_to_update: Sequence[NestedKey] | None = None,
    **kwargs: Any,
) -> C:
    """Put the entries of another collection or mapping; nested collections are merged.

    Args:
        td: the collection.
        input_dict_or_td: where the entries come from.
        clone: put copies of its tensors.
        inplace: write into the entries that are there, rather than replace them.
        keys_to_update: these alone.
        kwargs: more entries.
    """
    wanted = None if keys_to_update is None else [path_of(key) for key in _listed(keys_to_update)]
    for source in (input_dict_or_td, kwargs):
        if source is not None:
            _update(td, source, clone, inplace, wanted)
    return td


def _listed(keys: Any) -> Iterable[NestedKey]:
    return [keys] if isinstance(keys, str) else keys


def _update(
    td: Container, source: Any, clone: bool, inplace: bool, wanted: list[tuple[str, ...]] | None
) -> None:
    for key, value in entries_of(source).items():
        if type(key) is str and isinstance(value, Tensor) and wanted is None and not inplace:
            put(td, key, value.clone() if clone else value, "update")
            continue
        path = path_of(key)
        below = None
        if wanted is not None:
            below = [want[len(path) :] for want in wanted if want[: len(path)] == path]
            if not below:
                continue
            below = None if () in below else below
        if isinstance(value, Container | dict):
            present = find(td, path, None)
            if isinstance(present, Container):
                _update(present, value, clone, inplace, below)
                continue
            if below is not None:
                present = td._like({}, td.batch_size, td._names)
                _update(present, value, clone, inplace, below)
                value = present
        if inplace and find(td, path, None) is not None:
            set_(td, path, value)
            continue
        put(td, path, _copied(value) if clone else value, "update")


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, Container):
        return value._rebuild(iter([leaf.clone() for leaf in value._leaves()]))
    return value


def update_(
    td: C, input_dict_or_td: Any = None, *, keys_to_update: Sequence[NestedKey] | None = None, **kwargs: Any
) -> C:
    """Write the entries of another collection or mapping into the present ones, in place.

    Raises:
        KeyError: there is no such entry; in-place writes make none.
    """
    wanted = None if keys_to_update is None else {unravel_key(key) for key in _listed(keys_to_update)}
    for source in (input_dict_or_td, kwargs):
        for key, value in entries_of({} if source is None else source).items():
            if wanted is None or unravel_key(key) in wanted:
                set_(td, key, value)
    return td
