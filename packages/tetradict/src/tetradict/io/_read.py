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
from tetradict.memmap import MemoryMappedTensor

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


def load_folder(prefix: str | Path, kind: type[C]) -> C:
    """Map a collection that was saved in a folder.

    Args:
        prefix: the folder.
        kind: the class of the collection, and of every node whose own class is not known here.

    Raises:
        FileNotFoundError: there is no collection, or a file of it is missing.
        ValueError: files do not go together; the message says which and how.
    """
    root = Path(os.path.realpath(prefix))
    if not root.exists() and root.with_name(backup_name(root.name)).exists():
        root = root.with_name(backup_name(root.name))  # a save was killed between its two renames
    return _map(_read_node(root, root, kind))


def _map(node: _Node) -> Any:
    entries = {
        key: MemoryMappedTensor.from_filename(value.path, value.dtype, value.size)
        if isinstance(value, _File)
        else _map(value)
        if isinstance(value, _Node)
        else value
        for key, value in node.entries.items()
    }
    td = node.kind.trusted(entries, node.size, torch.device("cpu"))
    td._put_meta(node.size, torch.device("cpu"), node.names)
    return td


def _read_json(path: Path, root: Path) -> dict[str, Any]:
    _inside(path, root)
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected a JSON object, got a {type(found).__name__}")
    return found


def _inside(path: Path, root: Path) -> os.stat_result:
    """The file's facts; refuses a link that leads out of the folder."""
    facts = os.lstat(path)
    if stat.S_ISLNK(facts.st_mode):
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(root):
            raise ValueError(f"{path} is a link that leads out of {root}, to {real}; it is not followed")
        facts = os.stat(path)
    return facts


def _read_node(folder: Path, root: Path, kind: type[Any]) -> _Node:
    if not (folder / META).exists():
        raise FileNotFoundError(f"{folder} holds no saved collection: it has no {META}")
    meta = _read_json(folder / META, root)
    side = _read_json(folder / SIDE, root) if (folder / SIDE).exists() else {}
    name = meta.pop("_type", None)
    if (folder / "_tensordict").is_dir():  # a tensorclass: its fields are the collection below
        _warn_unknown(folder, name)
        return _read_node(folder / "_tensordict", root, kind)
    if name not in KINDS:
        if "stack_dim" in meta:
            raise ValueError(f"{folder} holds a lazy stack ({name}), which this version does not read")
        _warn_unknown(folder, name)
    size = _layout.size_of(meta.pop("shape", None))
    meta.pop("device", None)
    if size is None:
        raise ValueError(f"{folder / META}: 'shape' must be a list of sizes")
    node = _Node(KINDS.get(name, kind), size, _names(folder, side, size))
    for key, about in {**meta, **side.get("entries", {})}.items():
        node.entries[key] = _read_entry(folder, root, kind, key, about, size)
    return node


def _warn_unknown(folder: Path, name: Any) -> None:
    warnings.warn(
        f"{folder} was saved as {name}, a class that is not known here; it is loaded as a plain collection",
        stacklevel=6,
    )


def _names(folder: Path, side: dict[str, Any], size: Size) -> list[str | None] | None:
    names = side.get("names")
    if names is None:
        return None
    if (
        not isinstance(names, list)
        or len(names) != len(size)
        or not all(n is None or type(n) is str for n in names)
    ):
        raise ValueError(
            f"{folder / SIDE}: 'names' must have a string or null for each of {len(size)} dimensions"
        )
    return names


def _read_entry(folder: Path, root: Path, kind: type[Any], key: str, about: Any, size: Size) -> Any:
    where = f"{folder / META}: entry {key!r}"
    if not isinstance(about, dict):
        raise ValueError(f"{where} must be described by an object, got {about!r}")
    if "type" in about:
        below = folder / child_folder(key)
        if not below.is_dir() and (folder / _layout.encoded(key)).is_dir():
            below = folder / _layout.encoded(key)
        if not below.is_dir():
            raise FileNotFoundError(f"{where} lies in the folder {below.name}, which is missing")
        _inside(below, root)
        if about["type"] in {"NonTensorData", "NonTensorStack"}:
            return _read_leaf(below, root, size)
        child = _read_node(below, root, kind)
        if child.size[: len(size)] != size:
            raise ValueError(
                f"{where} has batch size {tuple(child.size)}, which does not begin with {tuple(size)}"
            )
        return child
    if about.get("is_nested"):
        raise ValueError(f"{where} is a nested tensor, which this version does not read")
    dtype, shape = _layout.dtype_of(about.get("dtype")), _layout.size_of(about.get("shape"))
    if dtype is None or shape is None or shape[: len(size)] != size:
        raise ValueError(
            f"{where} must have a dtype of torch and a shape that begins with {list(size)}, "
            f"got {about.get('dtype')!r} and {about.get('shape')!r}"
        )
    path = folder / tensor_file(key)
    need = shape.numel() * dtype.itemsize
    if need:
        try:
            facts = _inside(path, root)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{where} lies in the file {path.name}, which is missing") from error
        if not stat.S_ISREG(facts.st_mode) or facts.st_size < need:
            raise ValueError(f"{where} takes {need} bytes, but {path.name} has {facts.st_size}")
    return _File(str(path), dtype, shape)


def _read_leaf(folder: Path, root: Path, size: Size) -> NonTensorLeaf:
    meta = _read_json(folder / META, root)
    if "data" not in meta:
        raise ValueError(
            f"{folder} holds a value that was pickled ({_layout.PICKLE}); nothing is unpickled here, because that can "
            "run code from the file"
        )
    if meta.get("_type") != _layout.STACK:
        return NonTensorData(meta["data"], size)
    shape: Any = size
    if (folder / SIDE).exists():
        shape = _layout.size_of(_read_json(folder / SIDE, root).get("shape"))
    try:
        leaf = NonTensorStack.from_list(meta["data"], len(shape))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{folder / META}: 'data' must be lists in the form {tuple(size)}") from error
    if leaf.batch_size[: len(size)] != size:
        raise ValueError(
            f"{folder / META}: 'data' has the form {tuple(leaf.batch_size)}, expected {tuple(size)}"
        )
    return leaf
