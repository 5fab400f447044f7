"""A whole collection in one safetensors file: any reader of the format opens its tensors, ours the tree as well.

The tree stands as JSON in the file's ``__metadata__`` under ``tetradict``. A node is ``{"size", "names", "entries"}``;
an entry is ``0`` (a tensor under its path, joined by dots), or an object: ``{"tensor": name}``, with ``"dtype"`` where
the format lacks it, ``{"node": ...}``, ``{"value": ...}`` for one non-tensor value, ``{"rows": [...], "size"}`` for one
value an item, ``{"strings": [bytes, offsets], "size"}`` for text an item.
"""

import json
import math
import mmap
import os
import stat
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Size, Tensor

from tetradict._files import Piece, sync_folder, temporary_name, write_pieces
from tetradict._nontensor import NonTensorData, NonTensorLeaf, NonTensorStack, flat_values, stack_of
from tetradict._protocol import Container
from tetradict.io import _header, _values
from tetradict.io._header import Header
from tetradict.memmap import map_part

C = TypeVar("C", bound=Container)
TREE = "tetradict"
SUMS = "tetradict.crc32"
_CPU = torch.device("cpu")
_NOTHING = torch.empty(0, dtype=torch.uint8)


# --- writing


class _Writer:
    """What a file will hold: the tree, and tensors under names of which no two are equal."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def node(self, td: Container, path: str) -> dict[str, Any]:
        """The description of ``td``; its tensors are noted on the way."""
        entries: dict[str, Any] = {}
        for key, value in td._entries().items():
            here = f"{path}.{key}" if path else key
            if isinstance(value, Tensor):
                entries[key] = self.tensor(value, here)
            elif isinstance(value, Container):
                entries[key] = {"node": self.node(value, here)}
            else:
                entries[key] = self.leaf(value, here)
        out: dict[str, Any] = {"size": list(td.batch_size), "entries": entries}
        if td._names is not None:
            out["names"] = td._names
        return out

    def tensor(self, value: Tensor, path: str) -> Any:
        if value.layout is not torch.strided or value.is_quantized or value.device.type == "meta":
            kind = "quantized" if value.is_quantized else f"{value.layout} on {value.device.type}"
            raise TypeError(
                f"save: entry {path!r} is {kind}; a file holds strided tensors that have their content"
            )
        name = self.name(path)
        self.tensors[name] = value
        noted = value.dtype not in _header.CODES
        if name == path and not noted:
            return 0
        return (
            {"tensor": name, "dtype": str(value.dtype).removeprefix("torch.")} if noted else {"tensor": name}
        )

    def name(self, path: str) -> str:
        name, count = path, 1
        while name in self.tensors or name == _header.METADATA:
            count += 1
            name = f"{path}#{count}"
        return name

    def leaf(self, value: NonTensorLeaf, path: str) -> dict[str, Any]:
        try:
            if not isinstance(value, NonTensorStack):
                return {"value": _values.coded(value.data)}
            rows, size = flat_values(value), list(value.batch_size)
            if rows and all([type(row) is str for row in rows]):
                return {"strings": self.strings(rows, path), "size": size}
            return {"rows": _values.coded(rows), "size": size}
        except _values.Unsaved as error:
            part = error.args[0]
            raise TypeError(
                f"save: entry {path!r} holds a {type(part).__name__}, which no file can hold safely; keep it elsewhere, "
                "or turn it into numbers, text, bytes, lists, tuples, sets and dicts"
            ) from None

    def strings(self, rows: list[str], path: str) -> list[str]:
        data, offsets = _values.joined(rows)
        names = []
        for part, content in (
            ("bytes", torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else _NOTHING),
            ("offsets", torch.tensor(offsets)),
        ):
            name = self.name(f"{path}.{part}")
            self.tensors[name] = content
            names.append(name)
        return names


def save_file(
    td: Container,
    path: str | Path,
    *,
    existsok: bool = True,
    num_threads: int | None = None,
    durable: bool = False,
    checksum: bool = False,
) -> None:
    """Write a collection into one file, in place of what had its name.

    Args:
        td: the collection; tensors of any dtype, from any device, are written in C order.
        path: the file. It is written under another name and renamed: a save cut short leaves the old one.
        existsok: replace a file that is there.
        num_threads: threads that write side by side; as many as torch uses when not given.
        durable: wait until the disk has everything, for the sake of power losses.
        checksum: keep a CRC-32 of each tensor and of the description, for :func:`verify`.

    Raises:
        TypeError: an entry is nothing that the file can hold; the message names it.
        FileExistsError: the file is there and ``existsok`` is not set, or it is a folder.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise FileExistsError(f"{target} is a folder; remove it, or name a file")
    if not existsok and target.exists():
        raise FileExistsError(f"{target} is there already; pass existsok=True to replace it")
    writer = _Writer()
    tree = writer.node(td, "")
    # the largest elements first, so that each tensor lies on a boundary of its own without holes between them
    tensors = dict(sorted(writer.tensors.items(), key=lambda item: -item[1].element_size()))
    pieces = [Piece.of(tensor) for tensor in tensors.values()]
    blobs = (
        (name, *_header.form_of(tensor.dtype, list(tensor.shape))[:2], piece.size_bytes)
        for (name, tensor), piece in zip(tensors.items(), pieces, strict=True)
    )
    about, offsets, total = _header.layout(blobs)
    metadata = {TREE: _values.dumped(tree)}
    threads = torch.get_num_threads() if num_threads is None else num_threads
    if checksum:
        metadata[SUMS] = json.dumps(_sums(metadata, about, list(tensors), pieces, threads))
    head = _header.rendered(metadata, about)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = temporary_name(target)
    try:
        _write(part, head, pieces, offsets, total, threads, durable)
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(target.parent)


def _write(
    part: Path, head: bytes, pieces: list[Piece], offsets: list[int], total: int, threads: int, durable: bool
) -> None:
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        os.truncate(fd, len(head) + total)
        write_pieces(fd, pieces, [len(head) + offset for offset in offsets], threads)
        os.pwrite(fd, head, 0)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def _sums(
    metadata: dict[str, str], about: dict[str, Any], names: list[str], pieces: list[Piece], threads: int
) -> dict[str, int]:
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        sums = dict(zip(names, pool.map(lambda piece: zlib.crc32(piece.content()), pieces), strict=True))
    return {_header.METADATA: _description_sum(metadata, about), **sums}


def _description_sum(metadata: dict[str, str], about: dict[str, Any]) -> int:
    rest = {name: text for name, text in metadata.items() if name != SUMS}
    return zlib.crc32(json.dumps([rest, about], sort_keys=True).encode())


# --- reading


def is_onefile(path: str | Path) -> bool:
    """Whether ``path`` is a file, and none that begins as an archive does."""
    try:
        with open(path, "rb") as file:
            return file.read(2) != b"PK"
    except OSError:
        return False


def load_file(path: str | Path, kind: type[C]) -> C:
    """Map a collection from one file; nothing of it is read until it is used.

    A safetensors file that others wrote is a collection of batch size ``[]`` with one entry a tensor.

    Args:
        path: the file. Where it may be written, what is written in place reaches it.
        kind: the class of the collection and its nodes.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no such file, or its parts do not go together; the message says which and how.
    """
    name = os.path.realpath(path)
    header, whole, facts = _opened(name)
    try:
        td = _Reader(name, header, whole, facts, kind).collection()
    except RecursionError:
        raise ValueError(f"{name}: its tree is nested too deeply") from None
    td._put_meta(td.batch_size, _CPU, td._names)
    return td


def _opened(path: str) -> tuple[Header, Tensor, os.stat_result]:
    """The header of a file, checked, the bytes of the whole file, mapped, and what the system knows of it."""
    writable = os.access(path, os.W_OK)
    fd = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(f"{path} is no regular file")
        length = _header.length_of(os.pread(fd, 8, 0), facts.st_size, path)
        raw = os.pread(fd, length, 8)
        header = _header.parsed(raw, facts.st_size - 8 - length, path)
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_COPY
        return header, torch.frombuffer(mmap.mmap(fd, 0, access=access), dtype=torch.uint8), facts
    finally:
        os.close(fd)


class _Reader:
    """Builds the tree of a file around its mapped tensors."""

    def __init__(
        self, path: str, header: Header, whole: Tensor, facts: os.stat_result, kind: type[Any]
    ) -> None:
        self.path, self.header, self.whole, self.kind = path, header, whole, kind
        self.file = (facts.st_dev, facts.st_ino)
        self.private = not os.access(path, os.W_OK)
        self.views: dict[torch.dtype, Tensor] = {}

    def collection(self) -> Any:
        text = self.header.metadata.get(TREE)
        if text is None:
            entries = {name: self.tensor(name, None, ()) for name in self.header.places}
            return self.kind.trusted(entries, Size(()), _CPU)
        return self.node(_header.json_of(text, f"{self.path}: the tree"), (), ())

    def node(self, about: Any, path: tuple[str, ...], outer: tuple[int, ...]) -> Any:
        match about:
            case {"size": list() as size, "entries": dict() as entries}:
                pass
            case _:
                self.unfit(path, about)
        names = about.get("names")
        if not _sizes(size) or tuple(size[: len(outer)]) != outer or not _names(names, len(size)):
            self.unfit(path, {"size": size, "names": names})
        batch = tuple(size)
        td = self.kind.trusted(
            {key: self.entry(key, value, (*path, key), batch) for key, value in entries.items()},
            Size(batch),
            _CPU,
        )
        td._put_meta(td.batch_size, _CPU, names)
        return td

    def entry(self, key: str, about: Any, path: tuple[str, ...], batch: tuple[int, ...]) -> Any:
        match about:
            case 0:
                return self.tensor(".".join(path), None, batch)
            case {"tensor": str() as name}:
                return self.tensor(name, about.get("dtype"), batch)
            case {"node": node}:
                return self.node(node, path, batch)
            case {"value": value}:
                return NonTensorData(_values.decoded(value), Size(batch))
            case {"rows": list() as rows, "size": list() as size}:
                return self.rows(_values.decoded(rows), size, path, batch)
            case {"strings": [str() as data, str() as offsets], "size": list() as size}:
                text = bytes(memoryview(self.tensor(data, None, ()).numpy()))
                return self.rows(
                    _values.parted(text, self.tensor(offsets, None, ()).tolist()), size, path, batch
                )
        return self.unfit(path, about)

    def rows(
        self, rows: list[Any], size: list[int], path: tuple[str, ...], batch: tuple[int, ...]
    ) -> NonTensorStack:
        if not _sizes(size) or tuple(size[: len(batch)]) != batch or math.prod(size) != len(rows):
            self.unfit(path, {"rows": len(rows), "size": size})
        return stack_of(rows, size)

    def tensor(self, name: str, noted: Any, batch: tuple[int, ...]) -> Tensor:
        place = self.header.places.get(name)
        if place is None:
            raise ValueError(f"{self.path}: its tree names a tensor {name!r}, which the file does not hold")
        dtype, shape = _header.DTYPES[place.code], place.shape
        if noted is not None:
            dtype = getattr(torch, noted, None) if type(noted) is str else None
            found = _header.shape_in(dtype, place) if isinstance(dtype, torch.dtype) else None
            if found is None:
                raise ValueError(f"{self.path}: tensor {name!r} cannot be of dtype {noted!r}")
            shape = found
        if tuple(shape[: len(batch)]) != batch:
            raise ValueError(
                f"{self.path}: tensor {name!r} of shape {shape} does not begin with {list(batch)}"
            )
        return self.mapped(dtype, shape, self.header.start + place.begin, place.end - place.begin)

    def mapped(self, dtype: torch.dtype, shape: list[int], begin: int, size_bytes: int) -> Tensor:
        item = dtype.itemsize
        if begin % item:  # a file of others: only a copy can lie on the boundary that its elements need
            return self.whole[begin : begin + size_bytes].clone().view(dtype).view(shape)
        view = self.views.get(dtype)
        if view is None:
            view = self.views[dtype] = self.whole[: self.whole.shape[0] // item * item].view(dtype)
        return map_part(view, shape, begin // item, self.path, self.file, self.private)

    def unfit(self, path: tuple[str, ...], about: Any) -> Any:
        raise ValueError(
            f"{self.path}: entry {path!r} of its tree is described by {str(about)[:200]}, which is nothing that a "
            "collection can hold there"
        )


def _sizes(size: list[Any]) -> bool:
    return all(type(n) is int and 0 <= n < 2**62 for n in size)


def _names(names: Any, count: int) -> bool:
    if names is None:
        return True
    return type(names) is list and len(names) == count and all(n is None or type(n) is str for n in names)


# --- checksums


def verify(path: str | Path, *, pbar: bool = False) -> int:
    """Compare every checksum that a file was saved with to its content.

    Args:
        path: a file that was saved with ``checksum=True``.
        pbar: show a progress bar, where there is a terminal.

    Returns:
        How many tensors were compared.

    Raises:
        ValueError: a tensor or the description is not what was saved, or there are no checksums.
    """
    from tqdm.auto import tqdm  # noqa: PLC0415  (heavy, and of use to nobody who verifies nothing)

    name = os.path.realpath(path)
    header, whole, _ = _opened(name)
    text = header.metadata.get(SUMS)
    if text is None:
        raise ValueError(
            f"{name} was saved without checksums; save it with checksum=True to be able to verify it"
        )
    sums = _header.json_of(text, f"{name}: its checksums")
    about = {
        key: {"dtype": place.code, "shape": place.shape, "data_offsets": [place.begin, place.end]}
        for key, place in header.places.items()
    }
    if not isinstance(sums, dict) or sums.pop(_header.METADATA, None) != _description_sum(
        header.metadata, about
    ):
        raise ValueError(f"{name}: its description is not what was saved")
    if sums.keys() != about.keys():
        raise ValueError(f"{name}: its checksums are those of other tensors")
    data = memoryview(whole.numpy())[header.start :]
    for key, place in tqdm(
        header.places.items(), desc="verify", unit="tensor", disable=None if pbar else True
    ):
        if zlib.crc32(data[place.begin : place.end]) != sums[key]:
            raise ValueError(f"{name}: tensor {key!r} is not what was saved")
    return len(sums)


def described(path: str | Path) -> Iterator[tuple[str, str, list[int], int]]:
    """Name, dtype, shape and bytes of each tensor of a file, in the order of its names."""
    header, _, _ = _opened(os.path.realpath(path))
    for name, place in sorted(header.places.items()):
        dtype = str(_header.DTYPES[place.code]).removeprefix("torch.")
        yield name, dtype, place.shape, place.end - place.begin
