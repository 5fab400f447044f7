"""The verbs that move a collection into files or shared memory, and back."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from tetradict._apply import map_leaves, to
from tetradict._lock import lock_
from tetradict._protocol import Container, real_device
from tetradict.io._read import load_folder
from tetradict.io._write import mapped, save_folder
from tetradict.memmap import MemoryMappedTensor

C = TypeVar("C", bound=Container)
SINGLE_FILES = (".safetensors", ".td")


def memmap(
    td: C,
    prefix: str | Path | None = None,
    copy_existing: bool = False,
    *,
    num_threads: int = 0,
    return_early: bool = False,
    existsok: bool = True,
    durable: bool = False,
) -> C | Future[C]:
    """Save the collection in a folder and return it mapped from there, locked.

    The folder is in the layout that tensordict reads and writes. It is written under another name and renamed, so
    a save that is cut short leaves what was there before.

    Args:
        td: the collection. Non-tensor values are saved as JSON.
        prefix: the folder; without it, tensors are copied to shared memory that has no name.
        copy_existing: copy tensors that are mapped from files elsewhere.
        num_threads: threads that write side by side; 0 writes in the calling one.
        return_early: return a ``concurrent.futures.Future`` of the mapped collection at once and save meanwhile;
            the tensors must not change until it is done.
        existsok: replace a collection that is there.
        durable: wait until the disk has everything, for the sake of power losses.

    Raises:
        RuntimeError: a tensor is mapped from a file elsewhere and ``copy_existing`` is not set.
        TypeError: a non-tensor value is nothing that JSON can hold; the message names the entry.
        FileExistsError: a collection is there and ``existsok`` is not set, or ``prefix`` is a file.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> td = TensorDict({"x": torch.zeros(3, 2)}, [3]).memmap(folder.name)
        >>> td["x"][0] = 1.0
        >>> TensorDict.load_memmap(folder.name)[0]["x"]
        MemoryMappedTensor([1., 1.])
        >>> folder.cleanup()
    """

    def save() -> C:
        if prefix is None:
            return _shared(td)
        save_folder(
            td,
            prefix,
            copy_existing=copy_existing,
            existsok=existsok,
            num_threads=num_threads,
            durable=durable,
        )
        return lock_(mapped(td, os.path.realpath(prefix)))

    return _later(save) if return_early else save()


def _later(save: Callable[[], C]) -> Future[C]:
    pool = ThreadPoolExecutor(1, thread_name_prefix="tetradict-save")
    try:
        return pool.submit(save)
    finally:
        pool.shutdown(wait=False)


def _shared(td: C) -> C:
    return lock_(to(map_leaves(td, lambda leaf: MemoryMappedTensor.from_tensor(leaf)), "cpu"))


def memmap_(
    td: C,
    prefix: str | Path | None = None,
    copy_existing: bool = False,
    *,
    num_threads: int = 0,
    existsok: bool = True,
    durable: bool = False,
) -> C:
    """As :func:`memmap`, but ``td`` itself becomes the mapped collection."""
    new = memmap(td, prefix, copy_existing, num_threads=num_threads, existsok=existsok, durable=durable)
    _become(td, new)
    return lock_(td)


def _become(td: Container, new: Container) -> None:
    for key, value in new._entries().items():
        if isinstance(value, Tensor):
            td._set1(key, value)
        elif isinstance(value, Container):
            _become(td._get1(key), value)
    td._put_meta(td.batch_size, torch.device("cpu"), td._names)


def memmap_like(
    td: C,
    prefix: str | Path | None = None,
    copy_existing: bool = False,
    *,
    existsok: bool = True,
) -> C:
    """A mapped collection with the keys, shapes and dtypes of ``td`` and zeros for content, locked.

    Nothing is copied, and the files take no room on the disk until they are written, so that a large store can
    be made from one item: ``item.expand(1_000_000).memmap_like(folder)``.

    Args:
        td: the collection; its non-tensor values are kept.
        prefix: the folder; without it, shared memory that has no name.
        copy_existing: allow tensors of ``td`` to be mapped from files elsewhere.
        existsok: replace a collection that is there.
    """
    if prefix is None:
        return lock_(to(map_leaves(td, lambda leaf: MemoryMappedTensor.empty_like(leaf)), "cpu"))
    save_folder(td, prefix, copy_existing=copy_existing, existsok=existsok, content=False)
    return lock_(mapped(td, os.path.realpath(prefix)))


def load_memmap(cls: type[C], prefix: str | Path, device: torch.device | str | None = None) -> C:
    """Map a collection that was saved in a folder, here or by tensordict, locked; nothing is read until it is used.

    Args:
        cls: the class to load as.
        prefix: the folder.
        device: copy the tensors there; ``"meta"`` gives the structure alone.

    Raises:
        FileNotFoundError: there is no collection, or a file of it is missing.
        ValueError: files do not go together, lead out of the folder, or would have to be unpickled.
    """
    td = load_folder(prefix, cls)
    place = real_device(device)
    if place is not None and place.type != "cpu":
        td = to(td, place)
    return lock_(td)


def save(
    td: C,
    prefix: str | Path,
    copy_existing: bool = False,
    *,
    num_threads: int = 0,
    existsok: bool = True,
    durable: bool = False,
) -> C:
    """Save the collection in a folder; see :func:`memmap`.

    Raises:
        ValueError: ``prefix`` ends like a single file (``.safetensors``, ``.td``), which this version does not write.
    """
    if Path(prefix).suffix in SINGLE_FILES:
        raise ValueError(
            f"save: {str(prefix)!r} names a single file, which this version does not write; name a folder"
        )
    return memmap(td, prefix, copy_existing, num_threads=num_threads, existsok=existsok, durable=durable)


def load(cls: type[C], prefix: str | Path, device: torch.device | str | None = None) -> C:
    """Load what :func:`save` wrote; see :func:`load_memmap`."""
    return load_memmap(cls, prefix, device)


def is_memmap(td: Container) -> bool:
    """Whether every tensor is memory-mapped."""
    leaves: list[Any] = td._leaves()
    return bool(leaves) and all(isinstance(leaf, MemoryMappedTensor) for leaf in leaves)
