"""Bytes on disk: positioned writes, and names that change to a new file or folder at once."""

import ctypes
import errno
import os
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_PIECE = 16 << 20  # bytes of one positioned write: enough to be fast, small enough to share out among threads
_GROUP = 8 << 20  # bytes of small tensors that one call writes
_GROUP_COUNT = 1000  # how many of them: a system takes 1,024
_IN_NUMPY = frozenset({
    *(
        torch.float64,
        torch.float32,
        torch.float16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
    ),
    *(torch.bool, torch.complex64, torch.complex128),
})
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_AT_FDCWD = -100


def raw_bytes(tensor: Tensor) -> memoryview:
    """The elements of ``tensor`` in C order, one byte after the other, without a copy where memory allows."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    flat = plain.as_strided((plain.numel(),), (1,))  # one element may have any stride and count as contiguous
    return memoryview(flat.view(torch.uint8).numpy())


def temporary_name(target: Path) -> Path:
    """A name beside ``target`` that nothing else uses."""
    return target.with_name(f".{target.name}.{os.urandom(6).hex()}.tmp")


def write_tensors(files: Iterable[tuple[Path, Tensor]], num_threads: int, durable: bool) -> None:
    """Write each tensor to a new file of its own.

    Args:
        files: path and tensor; no such file may be there. A tensor without elements makes no file.
        num_threads: how many threads write pieces side by side; 0 writes in the calling thread.
        durable: also wait until the disk has the bytes.
    """
    files = [(path, tensor) for path, tensor in files if tensor.numel()]
    if num_threads <= 1:
        for path, tensor in files:
            _write_one(path, tensor, durable)
        return
    with ThreadPoolExecutor(num_threads, thread_name_prefix="tetradict-write") as pool:
        for job in [pool.submit(_write_one, path, tensor, durable) for path, tensor in files]:
            job.result()


def _write_one(path: Path, tensor: Tensor, durable: bool) -> None:
    data = raw_bytes(tensor)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        at = 0
        while at < len(data):
            at += os.pwrite(fd, data[at : at + _PIECE], at)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True)
class Piece:
    """The bytes of one tensor to write; those of a tensor that is not in C order on the host are made in its turn."""

    tensor: Tensor
    size_bytes: int
    ready: Any  # a buffer, where the memory of the tensor is one already

    @classmethod
    def of(cls, tensor: Tensor) -> "Piece":
        """The bytes of ``tensor``."""
        size = tensor.numel() * tensor.element_size()
        ready = None
        if (
            tensor.device.type == "cpu"
            and tensor.is_contiguous()
            and not (tensor.is_conj() or tensor.is_neg())
        ):
            plain = tensor.detach() if tensor.requires_grad else tensor
            number = plain.dtype in _IN_NUMPY
            ready = plain.numpy() if number and type(plain) is Tensor else raw_bytes(plain)
        return cls(tensor, size, ready)

    def content(self) -> Any:
        """A buffer with the bytes."""
        return raw_bytes(self.tensor) if self.ready is None else self.ready


def write_pieces(fd: int, pieces: Sequence[Piece], offsets: Sequence[int], num_threads: int) -> None:
    """Write each piece at its offset, which follow one another; small ones go together in one call.

    Args:
        fd: of an open file.
        pieces: the bytes.
        offsets: where each begins.
        num_threads: how many threads write side by side; with 1 or less, or little to write, the calling one does.
    """
    jobs: list[tuple[int, list[Piece]]] = []
    open_bytes = 0
    for piece, offset in zip(pieces, offsets, strict=True):
        if not piece.size_bytes:
            continue
        joins = jobs and piece.ready is not None and jobs[-1][1][-1].ready is not None
        if joins and open_bytes + piece.size_bytes <= _GROUP and len(jobs[-1][1]) < _GROUP_COUNT:
            jobs[-1][1].append(piece)
            open_bytes += piece.size_bytes
        else:
            jobs.append((offset, [piece]))
            open_bytes = piece.size_bytes
    total = sum(piece.size_bytes for piece in pieces)
    if num_threads <= 1 or total < _GROUP or len(jobs) == 1:
        for offset, group in jobs:
            _write_group(fd, offset, group)
        return
    with ThreadPoolExecutor(num_threads, thread_name_prefix="tetradict-write") as pool:
        for job in [pool.submit(_write_group, fd, offset, group) for offset, group in jobs]:
            job.result()


def _write_group(fd: int, offset: int, group: Sequence[Piece]) -> None:
    want = sum(piece.size_bytes for piece in group)
    if want <= _PIECE:
        done = os.pwritev(fd, [piece.content() for piece in group], offset)
        if done == want:
            return
    for piece in group:  # too large for one call, or the system took a part of it
        data = raw_bytes(piece.tensor)
        at = 0
        while at < piece.size_bytes:
            at += os.pwrite(fd, data[at : at + _PIECE], offset + at)
        offset += piece.size_bytes


def reserve(path: Path, size_bytes: int) -> None:
    """A new file of zeros that takes no room on the disk until it is written."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        os.truncate(fd, size_bytes)
    finally:
        os.close(fd)


def write_text(path: Path, text: str, durable: bool) -> None:
    """Write a small new file."""
    write_bytes(path, text.encode(), durable)


def write_bytes(path: Path, content: bytes, durable: bool) -> None:
    """Write a small new file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(fd)


def sync_folder(path: Path) -> None:
    """Wait until the disk has the names in a folder."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_folder(new: Path, target: Path) -> Path | None:
    """Give the folder ``new`` the name ``target``; at every moment the old one or the new one is there.

    Returns:
        Where the old folder is now, or ``None`` when there was none, or an empty one.
    """
    try:
        os.rename(new, target)
        return None
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
    if _exchange(new, target):
        return new
    old = target.with_name(backup_name(target.name))
    shutil.rmtree(old, ignore_errors=True)
    os.rename(target, old)
    os.rename(new, target)
    return old


def backup_name(name: str) -> str:
    """What the old folder is called for the moment between two renames, where names cannot be exchanged."""
    return f".{name}.old"


def _exchange(left: Path, right: Path) -> bool:
    """Swap two names at once; ``False`` where the system or the file system cannot."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(left), _AT_FDCWD, os.fsencode(right), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}:
        return False
    raise OSError(code, os.strerror(code), str(left), None, str(right))
