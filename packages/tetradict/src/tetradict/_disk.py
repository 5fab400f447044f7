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
from tetradict.io._onefile import is_onefile, load_file, save_file
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
    num_threads: int | None = None,
    return_early: bool = False,
    existsok: bool = True,
    durable: bool = False,
    checksum: bool = False,
) -> C | Future[C]:
    """Save the collection, and return it mapped from there, locked.

    A path that ends in ``.safetensors`` or ``.td`` is one file, which any reader of safetensors opens; the tree, its
    batch sizes, names and non-tensor values are in the metadata. Any other path is a folder; see :func:`memmap`.
    Both are written under another name and renamed, so a save that is cut short leaves what was there before.

    Args:
        td: the collection.
        prefix: the file or folder.
        copy_existing: allow tensors that are mapped from files elsewhere (one file always takes copies of them).
        num_threads: threads that write side by side; for a file as many as torch uses when not given.
        return_early: return a ``concurrent.futures.Future`` of the mapped collection at once and save meanwhile.
        existsok: replace what is there.
        durable: wait until the disk has everything, for the sake of power losses.
        checksum: keep a checksum of each tensor, for :func:`verify`; one file only.

    Raises:
        TypeError: an entry is nothing that a file can hold; the message names it.
        FileExistsError: something is there and ``existsok`` is not set, or it is of the other kind.

    Example:
        >>> import tempfile, os
        >>> from tetradict import verify
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = os.path.join(folder.name, "x.safetensors")
        >>> saved = TensorDict({"x": torch.zeros(3, 2), "source": "camera 2"}, [3]).save(path, checksum=True)
        >>> TensorDict.load(path)[0]["source"], verify(path)
        ('camera 2', 1)
        >>> folder.cleanup()
    """
    if Path(prefix).suffix not in SINGLE_FILES:
        if checksum:
            raise ValueError(
                f"save: checksums are kept in one file; give {str(prefix)!r} a suffix {' or '.join(SINGLE_FILES)}"
            )
        return memmap(
            td,
            prefix,
            copy_existing,
            num_threads=num_threads or 0,
            return_early=return_early,
            existsok=existsok,
            durable=durable,
        )

    def write() -> C:
        save_file(td, prefix, existsok=existsok, num_threads=num_threads, durable=durable, checksum=checksum)
        return lock_(load_file(prefix, type(td)))

    return _later(write) if return_early else write()


def load(cls: type[C], prefix: str | Path, device: torch.device | str | None = None) -> C:
    """Load what :func:`save` wrote, or a safetensors file of others; see :func:`load_memmap`.

    What lies at ``prefix`` decides, not its name.
    """
    if not is_onefile(prefix):
        return load_memmap(cls, prefix, device)
    td = load_file(prefix, cls)
    place = real_device(device)
    return lock_(to(td, place) if place is not None and place.type != "cpu" else td)


def is_memmap(td: Container) -> bool:
    """Whether every tensor is memory-mapped."""
    leaves: list[Any] = td._leaves()
    return bool(leaves) and all(isinstance(leaf, MemoryMappedTensor) for leaf in leaves)
