"""A collection in a folder of memory-mapped tensors, in the layout that tensordict reads and writes too.

A save is written under another name and then renamed, so that at every moment the folder holds the old collection or
the new one. A load checks what the files say of themselves and their sizes before it maps the first one, never
unpickles, and leaves the folder for no key and no link.
"""

import json
import os
import shutil
import stat
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Size, Tensor

from tetradict._files import (
    backup_name,
    replace_folder,
    reserve,
    sync_folder,
    temporary_name,
    write_tensors,
    write_text,
)
from tetradict._nontensor import NonTensorData, NonTensorLeaf, NonTensorStack
from tetradict._protocol import Container
from tetradict.io import _layout
from tetradict.io._layout import COLLECTION, META, SIDE, child_folder, tensor_file
from tetradict.memmap import MemoryMappedTensor

__all__ = ["load_folder", "save_folder"]

C = TypeVar("C", bound=Container)

# --- writing


@dataclass
class _Plan:
    """Everything a folder will hold, under paths relative to it."""

    folders: list[str] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    tensors: list[tuple[str, Tensor]] = field(default_factory=list)


def save_folder(
    td: Container,
    prefix: str | Path,
    *,
    copy_existing: bool = False,
    existsok: bool = True,
    num_threads: int = 0,
    durable: bool = False,
    content: bool = True,
) -> None:
    """Write a collection into a folder, in place of what was saved there.

    Args:
        td: the collection; tensors are written in C order, from any device.
        prefix: the folder. Files in it that are no part of a saved collection stay.
        copy_existing: copy tensors that are mapped from files elsewhere.
        existsok: replace a collection that is there.
        num_threads: threads that write side by side; 0 writes in the calling one.
        durable: wait until the disk has everything, for the sake of power losses.
        content: without it, files are made but not written: they read as zeros and take no room yet.

    Raises:
        RuntimeError: a tensor is mapped from a file elsewhere and ``copy_existing`` is not set.
        TypeError: a non-tensor value is nothing that JSON can hold; the message names the entry.
        FileExistsError: a collection is there and ``existsok`` is not set, or ``prefix`` is a file.
    """
    target = Path(os.path.realpath(prefix))
    if target.exists() and not target.is_dir():
        raise FileExistsError(f"{target} is a file; give the name of a folder")
    if not existsok and (target / META).exists():
        raise FileExistsError(f"{target} holds a collection already; pass existsok=True to replace it")
    plan = _Plan()
    _lay_out(td, "", (), plan)
    if not copy_existing:
        _refuse_mapped_elsewhere(plan, target)
    inside = os.path.ismount(target) or not os.access(_nearest(target.parent), os.W_OK)
    if inside:  # no other name beside it can be had
        target.mkdir(exist_ok=True)
        part = temporary_name(target / target.name)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = temporary_name(target)
    part.mkdir()
    try:
        _write(plan, part, target, num_threads, durable, content)
        if inside:
            _move_into(part, target)
        else:
            if target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
                _carry_over(target, part)
            replace_folder(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    if durable:
        sync_folder(target.parent)


def _lay_out(td: Container, folder: str, path: tuple[str, ...], plan: _Plan) -> None:
    """Add the node ``td`` and everything below it to the plan."""
    meta: dict[str, Any] = {}
    side: dict[str, Any] = {}
    for key, value in td._entries().items():
        here = (*path, key)
        if isinstance(value, Tensor):
            plan.tensors.append((os.path.join(folder, tensor_file(key)), value))
            about: dict[str, Any] = {"device": "cpu", "shape": list(value.shape), "dtype": str(value.dtype)}
            about["is_nested"] = False
        else:
            below = os.path.join(folder, child_folder(key))
            plan.folders.append(below)
            if isinstance(value, Container):
                about = {"type": "TensorDict"}
                _lay_out(value, below, here, plan)
            else:
                about = {"type": "NonTensorStack" if isinstance(value, NonTensorStack) else "NonTensorData"}
                plan.texts.append((os.path.join(below, META), _leaf_text(value, here)))
                if isinstance(value, NonTensorStack) and value.batch_size != td.batch_size:
                    plan.texts.append((os.path.join(below, SIDE), json.dumps({"shape": list(value.batch_size)})))
        if key in _layout.RESERVED:
            side.setdefault("entries", {})[key] = about
        else:
            meta[key] = about
    meta |= {"shape": list(td.batch_size), "device": "cpu", "_type": COLLECTION}
    plan.texts.append((os.path.join(folder, META), json.dumps(meta, ensure_ascii=False, separators=(",", ":"))))
    if td._names is not None:
        side["names"] = td._names
    if side:
        plan.texts.append((os.path.join(folder, SIDE), json.dumps(side, ensure_ascii=False, separators=(",", ":"))))


def _leaf_text(leaf: NonTensorLeaf, path: tuple[str, ...]) -> str:
    where = f"save: entry {path if len(path) > 1 else path[0]!r}"
    if isinstance(leaf, NonTensorStack):
        data = _layout.as_json(leaf.tolist(), where)
        return f'{{"_type":"{_layout.STACK}","stack_dim":0,"device":null,"data":{data}}}'
    data = _layout.as_json(leaf.data, where)
    return f'{{"_type":"{_layout.DATA}","data":{data},"_is_non_tensor":true,"_metadata":null}}'


def _refuse_mapped_elsewhere(plan: _Plan, target: Path) -> None:
    for name, tensor in plan.tensors:
        if isinstance(tensor, MemoryMappedTensor) and tensor.filename not in {None, str(target / name)}:
            raise RuntimeError(
                f"save: the tensor for {name} is mapped from {tensor.filename} already; pass copy_existing=True to "
                f"copy it into {target}"
            )


def _write(plan: _Plan, part: Path, target: Path, num_threads: int, durable: bool, content: bool) -> None:
    for folder in plan.folders:
        (part / folder).mkdir()
    fresh = []
    for name, tensor in plan.tensors:
        if isinstance(tensor, MemoryMappedTensor) and tensor.is_file(target / name) and content:
            _link(target / name, part / name)  # the same file, so that whoever maps it still does
        elif content:
            fresh.append((part / name, tensor))
        elif tensor.numel():
            reserve(part / name, tensor.numel() * tensor.element_size())
    write_tensors(fresh, num_threads, durable)
    for name, text in plan.texts:
        write_text(part / name, text, durable)
    if durable:
        for folder in (*plan.folders, "."):
            sync_folder(part / folder)


def _nearest(folder: Path) -> Path:
    """The folder itself, or the nearest above it that exists."""
    while not folder.exists():
        folder = folder.parent
    return folder


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # no hard links on this file system
        shutil.copy2(source, target, follow_symlinks=False)


def _carry_over(old: Path, new: Path) -> None:
    """Link into ``new`` whatever lies in ``old`` and is no part of the collection saved there."""
    files, folders = _described(old)
    for entry in os.scandir(old):
        if entry.name in files or entry.name == new.name:
            continue
        if entry.is_dir(follow_symlinks=False):
            if entry.name in folders:
                _carry_over(old / entry.name, new / entry.name)
            else:
                _link_tree(old / entry.name, new / entry.name)
        elif not os.path.lexists(new / entry.name):
            new.mkdir(exist_ok=True)
            _link(old / entry.name, new / entry.name)


def _link_tree(old: Path, new: Path) -> None:
    new.mkdir(parents=True, exist_ok=True)
    shutil.copystat(old, new)
    for entry in os.scandir(old):
        if entry.is_dir(follow_symlinks=False):
            _link_tree(old / entry.name, new / entry.name)
        elif not os.path.lexists(new / entry.name):
            _link(old / entry.name, new / entry.name)


def _described(folder: Path) -> tuple[set[str], set[str]]:
    """Names of the files and of the folders that belong to the collection saved in ``folder``."""
    try:
        meta = json.loads((folder / META).read_bytes())
        side = json.loads((folder / SIDE).read_bytes()) if (folder / SIDE).exists() else {}
        abouts = {**meta, **side.get("entries", {})}
    except (OSError, ValueError, AttributeError, TypeError):
        return set(), set()
    abouts = {key: about for key, about in abouts.items() if isinstance(about, dict)}
    files = {META, SIDE} | {tensor_file(key) for key, about in abouts.items() if "type" not in about}
    return files, {child_folder(key) for key, about in abouts.items() if "type" in about}


def _move_into(part: Path, target: Path) -> None:
    """Move a finished save into a folder that cannot be renamed. Killed in between, it leaves no ``meta.json``,
    which a load refuses, so that even then nothing mixed is read."""
    files, folders = _described(target)
    (target / META).unlink(missing_ok=True)
    for name in files - {META}:
        (target / name).unlink(missing_ok=True)
    for name in folders:
        shutil.rmtree(target / name, ignore_errors=True)
    for entry in sorted(os.scandir(part), key=lambda entry: entry.name == META):
        os.rename(part / entry.name, target / entry.name)
    part.rmdir()


# --- mapping what was just written


def mapped(td: C, folder: str) -> C:
    """The collection ``td``, with each tensor mapped from the folder it was saved in."""
    out: dict[str, Any] = {}
    for key, value in td._entries().items():
        if isinstance(value, Tensor):
            out[key] = MemoryMappedTensor.from_filename(os.path.join(folder, tensor_file(key)), value.dtype, value.shape)
        elif isinstance(value, Container):
            out[key] = mapped(value, os.path.join(folder, child_folder(key)))
        else:
            out[key] = value
    new = td._like(out, td.batch_size, td._names)
    new._put_meta(td.batch_size, torch.device("cpu"), td._names)
    return new


# --- reading

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
    if not isinstance(names, list) or len(names) != len(size) or not all(n is None or type(n) is str for n in names):
        raise ValueError(f"{folder / SIDE}: 'names' must have a string or null for each of {len(size)} dimensions")
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
            raise ValueError(f"{where} has batch size {tuple(child.size)}, which does not begin with {tuple(size)}")
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
        raise ValueError(f"{folder / META}: 'data' has the form {tuple(leaf.batch_size)}, expected {tuple(size)}")
    return leaf
