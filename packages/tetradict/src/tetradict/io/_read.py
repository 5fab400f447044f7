"""Reading a collection from a folder: everything is checked against the files before the first is mapped."""

import json
import os
import stat
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Size

from tetradict._files import backup_name
from tetradict._nontensor import NonTensorData, NonTensorLeaf, NonTensorStack
from tetradict._protocol import Container
from tetradict.io import _layout
from tetradict.io._layout import META, SIDE, child_folder, tensor_file
from tetradict.memmap import map_known

_CPU = torch.device("cpu")
C = TypeVar("C", bound=Container)

KINDS: dict[str, type[Any]] = {}
"""Which class stands for a ``_type``; a class that can be saved enters itself."""


@dataclass
class _Node:
    """What a folder says it holds, checked against its files, before anything is mapped."""

    kind: type[Any]
    size: Size
    names: list[str | None] | None
    entries: dict[str, Any] = field(default_factory=dict)  # _File, _Node or a leaf


@dataclass
class _File:
    path: str
    dtype: torch.dtype
    size: Size
    facts: os.stat_result | None


def load_folder(prefix: str | Path, kind: type[C]) -> C:
    """Map a collection that was saved in a folder.

    Args:
        prefix: the folder.
        kind: the class of the collection, and of every node whose own class is not known here.

    Raises:
        FileNotFoundError: there is no collection, or a file of it is missing.
        ValueError: files do not go together; the message says which and how.
    """
    root = os.path.realpath(prefix)
    if not os.path.exists(root):  # a save was killed between its two renames, or there is nothing
        old = os.path.join(os.path.dirname(root), backup_name(os.path.basename(root)))
        root = old if os.path.exists(old) else root
    return _map(_read_node(root, root, kind))


def _map(node: _Node) -> Any:
    entries = {
        key: map_known(value.path, value.dtype, value.size, value.facts)
        if isinstance(value, _File)
        else _map(value)
        if isinstance(value, _Node)
        else value
        for key, value in node.entries.items()
    }
    td = node.kind.trusted(entries, node.size, _CPU)
    td._put_meta(node.size, _CPU, node.names)
    return td


def _read_json(folder: str, name: str, root: str) -> dict[str, Any] | None:
    """The object in a file, or ``None`` when there is no such file."""
    path = os.path.join(folder, name)
    try:
        _inside(path, root)
        with open(path, "rb") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        if str(error).startswith(path):
            raise
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected a JSON object, got a {type(found).__name__}")
    return found


def _inside(path: str, root: str) -> os.stat_result:
    """The file's facts; refuses a link that leads out of the folder."""
    facts = os.lstat(path)
    if stat.S_ISLNK(facts.st_mode):
        real = os.path.realpath(path)
        if not Path(real).is_relative_to(root):
            raise ValueError(f"{path} is a link that leads out of {root}, to {real}; it is not followed")
        facts = os.stat(path)
    return facts


def _read_node(folder: str, root: str, kind: type[Any]) -> _Node:
    meta = _read_json(folder, META, root)
    if meta is None:
        raise FileNotFoundError(f"{folder} holds no saved collection: it has no {META}")
    side = _read_json(folder, SIDE, root) or {}
    name = meta.pop("_type", None)
    if name not in KINDS:
        if "stack_dim" in meta:
            raise ValueError(f"{folder} holds a lazy stack ({name}), which this version does not read")
        warnings.warn(
            f"{folder} was saved as {name}, a class that is not known here; it is loaded as a plain collection",
            stacklevel=6,
        )
        fields = os.path.join(folder, "_tensordict")
        if _is_folder(fields):  # a tensorclass: its fields are the collection below
            return _read_node(fields, root, kind)
    size = _layout.size_of(meta.pop("shape", None))
    meta.pop("device", None)
    if size is None:
        raise ValueError(f"{os.path.join(folder, META)}: 'shape' must be a list of sizes")
    node = _Node(KINDS.get(name, kind), size, _names(folder, side, size))
    more = side.get("entries", {})
    for key, about in {**meta, **(more if isinstance(more, dict) else {})}.items():
        try:
            node.entries[key] = _read_entry(folder, root, kind, key, about, size)
        except _Unfit as error:
            raise ValueError(f"{os.path.join(folder, META)}: entry {key!r} {error}") from None
        except FileNotFoundError as error:
            if error.filename is None:
                raise
            name = os.path.basename(error.filename)
            raise FileNotFoundError(
                f"{os.path.join(folder, META)}: entry {key!r} lies in {name!r}, which is missing"
            ) from error
    return node


class _Unfit(Exception):
    """What is wrong with an entry."""


def _names(folder: str, side: dict[str, Any], size: Size) -> list[str | None] | None:
    names = side.get("names")
    if names is None:
        return None
    right = isinstance(names, list) and len(names) == len(size)
    if not right or not all(n is None or type(n) is str for n in names):
        raise ValueError(
            f"{os.path.join(folder, SIDE)}: 'names' must have a string or null for each of {len(size)} dimensions"
        )
    return names


def _read_entry(folder: str, root: str, kind: type[Any], key: str, about: Any, size: Size) -> Any:
    if not isinstance(about, dict):
        raise _Unfit(f"must be described by an object, got {about!r}")
    if "type" in about:
        return _read_child(folder, root, kind, key, about["type"], size)
    if about.get("is_nested"):
        raise _Unfit("is a nested tensor, which this version does not read")
    dtype, shape = _layout.dtype_of(about.get("dtype")), _layout.size_of(about.get("shape"))
    if dtype is None or shape is None or shape[: len(size)] != size:
        raise _Unfit(
            f"must have a dtype of torch and a shape that begins with {list(size)}, "
            f"got {about.get('dtype')!r} and {about.get('shape')!r}"
        )
    path = os.path.join(folder, tensor_file(key))
    need = shape.numel() * dtype.itemsize
    if not need:
        return _File(path, dtype, shape, None)
    facts = _inside(path, root)
    if not stat.S_ISREG(facts.st_mode) or facts.st_size < need:
        raise _Unfit(f"takes {need} bytes, but {os.path.basename(path)!r} has {facts.st_size}")
    return _File(path, dtype, shape, facts)


def _read_child(folder: str, root: str, kind: type[Any], key: str, type_name: Any, size: Size) -> Any:
    below = os.path.join(folder, child_folder(key))
    plain = os.path.join(folder, _layout.encoded(key))  # what tensordict calls it
    if not os.path.lexists(below) and os.path.lexists(plain):
        below = plain
    if stat.S_ISLNK(os.lstat(below).st_mode):
        raise _Unfit(
            f"lies in {os.path.basename(below)!r}, which is a link; links to folders are not followed"
        )
    if type_name in {"NonTensorData", "NonTensorStack"}:
        return _read_leaf(below, root, size)
    child = _read_node(below, root, kind)
    if child.size[: len(size)] != size:
        raise _Unfit(f"has batch size {tuple(child.size)}, which does not begin with {tuple(size)}")
    return child


def _is_folder(path: str) -> bool:
    return os.path.lexists(path) and stat.S_ISDIR(os.lstat(path).st_mode)


def _read_leaf(folder: str, root: str, size: Size) -> NonTensorLeaf:
    meta = _read_json(folder, META, root)
    if meta is None or "data" not in meta:
        raise _Unfit(
            f"is a value that was pickled ({os.path.join(folder, _layout.PICKLE)}); nothing is unpickled here, "
            "because that can run code from the file"
        )
    if meta.get("_type") != _layout.STACK:
        return NonTensorData(meta["data"], size)
    side = _read_json(folder, SIDE, root)
    shape = size if side is None else _layout.size_of(side.get("shape"))
    try:
        leaf = NonTensorStack.from_list(meta["data"], len(shape))
    except (TypeError, ValueError) as error:
        raise _Unfit(f"must have 'data' that is lists in the form {tuple(size)}") from error
    if leaf.batch_size[: len(size)] != size:
        raise _Unfit(f"has 'data' of the form {tuple(leaf.batch_size)}, expected {tuple(size)}")
    return leaf
