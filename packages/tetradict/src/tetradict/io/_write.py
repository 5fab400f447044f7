"""Writing a collection into a folder, so that at every moment the old one or the new one is there."""

import json
import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from tetradict._files import replace_folder, reserve, sync_folder, temporary_name, write_tensors, write_text
from tetradict._nontensor import NonTensorLeaf, NonTensorStack
from tetradict._protocol import Container
from tetradict.io import _layout
from tetradict.io._layout import COLLECTION, META, SIDE, child_folder, tensor_file
from tetradict.memmap import MemoryMappedTensor, map_known

C = TypeVar("C", bound=Container)


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
            old = replace_folder(part, target)
            if old is not None:
                _carry_over(old, target)  # what others put there meanwhile
                shutil.rmtree(old)
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
                    plan.texts.append((
                        os.path.join(below, SIDE),
                        json.dumps({"shape": list(value.batch_size)}),
                    ))
        if key in _layout.RESERVED:
            side.setdefault("entries", {})[key] = about
        else:
            meta[key] = about
    meta |= {"shape": list(td.batch_size), "device": "cpu", "_type": COLLECTION}
    plan.texts.append((
        os.path.join(folder, META),
        json.dumps(meta, ensure_ascii=False, separators=(",", ":")),
    ))
    if td._names is not None:
        side["names"] = td._names
    if side:
        plan.texts.append((
            os.path.join(folder, SIDE),
            json.dumps(side, ensure_ascii=False, separators=(",", ":")),
        ))


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


def _carry_over(old: Path, new: Path, top: bool = True) -> None:
    """Link into ``new`` whatever lies in ``old`` and is no part of the collection saved there.

    ``top=False`` leaves what lies in ``old`` itself, and goes on to folders whose names both have.
    """
    files, folders = _described(old)
    for entry in os.scandir(old):
        if entry.name in folders and entry.is_dir(follow_symlinks=False):
            _carry_over(old / entry.name, new / entry.name)
        elif entry.name in files or not (top or (new / entry.name).is_dir()):
            continue
        elif entry.is_dir(follow_symlinks=False):
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
    _carry_over(target, part, top=False)
    (target / META).unlink(missing_ok=True)
    names = sorted(os.listdir(part), key=lambda name: name == META)
    for name in {*files, *folders, *names}:
        if (target / name).is_dir() and not (target / name).is_symlink():
            shutil.rmtree(target / name)
        else:
            (target / name).unlink(missing_ok=True)
    for name in names:
        os.rename(part / name, target / name)
    part.rmdir()


# --- mapping what was just written


def mapped(td: C, folder: str) -> C:
    """The collection ``td``, with each tensor mapped from the folder it was saved in."""
    out: dict[str, Any] = {}
    for key, value in td._entries().items():
        if isinstance(value, Tensor):
            path = os.path.join(folder, tensor_file(key))
            out[key] = map_known(path, value.dtype, value.shape, os.stat(path) if value.numel() else None)
        elif isinstance(value, Container):
            out[key] = mapped(value, os.path.join(folder, child_folder(key)))
        else:
            out[key] = value
    new = td._like(out, td.batch_size, td._names)
    new._put_meta(td.batch_size, torch.device("cpu"), td._names)
    return new
