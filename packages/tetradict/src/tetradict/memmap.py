"""Tensors whose memory is a file."""

import os
from collections.abc import Callable, Sequence
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Self, TypeAlias

import torch
from torch import Size, Tensor
from torch.multiprocessing.reductions import reduce_tensor

from tetradict._files import reserve, temporary_name, write_tensors
from tetradict._torch_compat import nested_layout, nested_view, without_torch_function

__all__ = ["AlreadyExistsError", "MemoryMappedTensor"]

Shape: TypeAlias = Sequence[int] | Tensor


class AlreadyExistsError(FileExistsError, RuntimeError):
    """A file or a collection is there already, and may not be replaced."""


class MemoryMappedTensor(Tensor):
    """A tensor over a file, or over memory that processes share when it has no file name.

    What is written in place reaches the file (a file that may not be written is mapped privately: writes stay in
    this process). An index that gives a view of a tensor gives a mapped view; mathematics gives plain tensors.
    It pickles as its file name, so a process that receives it maps the same bytes, whatever the start method; one
    without a file name goes to another process as shared memory, and anywhere else as a copy.

    To make one, use :meth:`from_tensor`, :meth:`from_filename`, :meth:`empty`, :meth:`zeros`, :meth:`ones`,
    :meth:`full` or their ``_like`` forms.

    Example:
        >>> import tempfile, os
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = os.path.join(folder.name, "x.memmap")
        >>> mapped = MemoryMappedTensor.from_tensor(torch.zeros(3, 2), filename=path)
        >>> mapped[1] = 5.0
        >>> MemoryMappedTensor.from_filename(path, torch.float32, (3, 2)).sum()
        tensor(10.)
        >>> folder.cleanup()
    """

    _path: str | None
    _file: (
        tuple[int, int] | None
    )  # device and inode of the file that was mapped: its name may be another's by now
    _private: bool  # what is written stays in this process

    def __new__(
        cls,
        source: Any,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        filename: str | Path | None = None,
    ) -> Self:
        """A mapped copy of ``source``, a tensor or what ``torch.as_tensor`` takes; see :meth:`from_tensor`."""
        _on_cpu(device)
        return cls.from_tensor(torch.as_tensor(source, dtype=dtype), filename=filename)

    @classmethod
    def _wrap(
        cls, tensor: Tensor, path: str | None, file: tuple[int, int] | None = None, private: bool = False
    ) -> Self:
        self = tensor.as_subclass(cls)
        self._path = path
        self._file = file
        self._private = private
        return self

    # --- making one

    @classmethod
    def from_tensor(
        cls,
        input: Tensor,
        *,
        filename: str | Path | None = None,
        existsok: bool = False,
        copy_existing: bool = False,
        copy_data: bool = True,
        shape: Shape | None = None,
    ) -> Self:
        """A copy of ``input`` in a file, or in shared memory without ``filename``.

        Args:
            input: any dtype and layout, nested tensors included; it is copied to the host and detached.
            filename: where the bytes go, in C order. They are written under another name that is then changed.
            existsok: replace a file that is there.
            copy_existing: copy a tensor that is mapped from another file already.
            copy_data: without it, room is made for ``input`` and left at zero.
            shape: another shape of as many elements; a table of sizes ``[N, D]`` makes a nested tensor.

        Returns:
            The mapped tensor; ``input`` itself when it is what ``filename`` (or no name) asks for.

        Raises:
            AlreadyExistsError: the file is there and ``existsok`` is not set.
            RuntimeError: ``input`` is mapped from another file and ``copy_existing`` is not set.
        """
        if isinstance(input, MemoryMappedTensor) and shape is None:
            if filename is None or input.is_file(filename):
                return input
            if not copy_existing and input._path is not None:
                raise RuntimeError(
                    f"from_tensor: the tensor is mapped from {input._path} already; pass copy_existing=True to copy "
                    f"it to {filename}"
                )
        flat, size = _flat(input)
        size = size if shape is None else _shape(shape)
        if _count(size) != flat.numel():
            raise ValueError(f"from_tensor: shape {shape} has {_count(size)} elements, input {flat.numel()}")
        if filename is not None:
            return cls._create(filename, size, flat.dtype, existsok, flat if copy_data else None)
        if not copy_data:
            return cls.empty(size, dtype=flat.dtype)
        return _shown(cls._wrap(flat.detach().cpu().clone().share_memory_(), None), size)

    @classmethod
    def from_filename(cls, filename: str | Path, dtype: torch.dtype, shape: Shape, index: Any = None) -> Self:
        """Map a file of elements in C order.

        Args:
            filename: the file; for a shape without elements it need not be there.
            dtype: of the elements.
            shape: of the tensor; a table of sizes ``[N, D]`` gives a nested tensor.
            index: show this part of it alone.

        Raises:
            ValueError: the file is too short for ``shape``.
        """
        mapped = _map_file(os.path.abspath(filename), dtype, _shape(shape))
        return mapped if index is None else mapped[index]

    @classmethod
    def from_storage(
        cls,
        storage: torch.UntypedStorage,
        *,
        shape: Shape | None = None,
        dtype: torch.dtype | None = None,
        index: Any = None,
        filename: str | Path | None = None,
    ) -> Self:
        """A mapped tensor over a storage that is shared or mapped already; nothing is copied.

        Args:
            storage: its bytes, on the CPU.
            shape: of the tensor; all elements in one dimension when not given, nested for a table ``[N, D]``.
            dtype: of the elements; torch's default when not given.
            index: show this part of it alone.
            filename: the file that the storage maps; found by itself for storages made by this class.

        Raises:
            ValueError: the storage is too short for ``shape``.
        """
        dtype = torch.get_default_dtype() if dtype is None else dtype
        size = Size((storage.nbytes() // dtype.itemsize,)) if shape is None else _shape(shape)
        count = _count(size)
        if count * dtype.itemsize > storage.nbytes():
            raise ValueError(
                f"from_storage: shape {tuple(size)} and {dtype} take {count * dtype.itemsize} bytes, the storage has "
                f"{storage.nbytes()}"
            )
        path = storage.filename if filename is None else os.path.abspath(filename)
        flat = torch.empty(0, dtype=dtype).set_(storage, 0, (count,), (1,))
        mapped = _shown(cls._wrap(flat, path), size)
        return mapped if index is None else mapped[index]

    @classmethod
    def from_handler(
        cls, handler: torch.UntypedStorage, dtype: torch.dtype, shape: Shape, index: Any = None
    ) -> Self:
        """A mapped tensor over the shared memory of another one, its :attr:`handler`."""
        return cls.from_storage(handler, dtype=dtype, shape=shape, index=index)

    @classmethod
    def empty(
        cls,
        *sizes: Any,
        shape: Shape | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        filename: str | Path | None = None,
        existsok: bool = False,
    ) -> Self:
        """A mapped tensor whose elements mean nothing yet (they are zero); a new file takes no room until written.

        Args:
            sizes: the shape, size by size or as one sequence; a table of sizes ``[N, D]`` makes a nested tensor.
            shape: the same by keyword.
            dtype: torch's default when not given.
            device: the CPU is the only one that maps files.
            filename: the file to make; shared memory without it.
            existsok: replace a file that is there.
        """
        _on_cpu(device)
        if (shape is None) == (not sizes):
            raise TypeError(
                "give the shape once: size by size, as one sequence, or as shape=; () for 0 dimensions"
            )
        size = _shape(
            sizes if shape is None and type(sizes[0]) is int else sizes[0] if shape is None else shape
        )
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if filename is None:
            return _shown(cls._wrap(torch.zeros(_count(size), dtype=dtype).share_memory_(), None), size)
        return cls._create(filename, size, dtype, existsok, None)

    zeros = empty

    @classmethod
    def empty_nested(cls, *sizes: Any, **options: Any) -> Self:
        """:meth:`empty` for a table of sizes ``[N, D]``: a nested tensor of N parts."""
        mapped = cls.empty(*sizes, **options)
        if not mapped.is_nested:
            raise TypeError(
                f"empty_nested: expected a table of sizes [N, D], got the shape {tuple(mapped.shape)}"
            )
        return mapped

    @classmethod
    def ones(cls, *sizes: Any, **options: Any) -> Self:
        """A mapped tensor of ones; see :meth:`empty`."""
        return cls.empty(*sizes, **options).fill_(1)

    @classmethod
    def full(
        cls, *sizes: Any, fill_value: Any = None, dtype: torch.dtype | None = None, **options: Any
    ) -> Self:
        """A mapped tensor of ``fill_value``, in its dtype unless told; see :meth:`empty`.

        The value goes by keyword, or second after a shape that is one sequence.
        """
        if fill_value is None and len(sizes) == 2 and not isinstance(sizes[0], int):
            *sizes, fill_value = sizes
        if fill_value is None:
            raise TypeError("full: give the value, as fill_value=")
        dtype = torch.full((), fill_value).dtype if dtype is None else dtype
        return cls.empty(*sizes, dtype=dtype, **options).fill_(fill_value)

    @classmethod
    def empty_like(cls, input: Tensor, *, filename: str | Path | None = None, existsok: bool = False) -> Self:
        """:meth:`empty` in the shape and dtype of ``input``."""
        return cls.empty(_size_of(input), dtype=input.dtype, filename=filename, existsok=existsok)

    zeros_like = empty_like

    @classmethod
    def ones_like(cls, input: Tensor, *, filename: str | Path | None = None, existsok: bool = False) -> Self:
        """:meth:`ones` in the shape and dtype of ``input``."""
        return cls.empty_like(input, filename=filename, existsok=existsok).fill_(1)

    @classmethod
    def full_like(
        cls, input: Tensor, fill_value: Any, *, filename: str | Path | None = None, existsok: bool = False
    ) -> Self:
        """:meth:`full` in the shape and dtype of ``input``."""
        return cls.empty_like(input, filename=filename, existsok=existsok).fill_(fill_value)

    @classmethod
    def _create(
        cls,
        filename: str | Path,
        size: Size | Tensor,
        dtype: torch.dtype,
        existsok: bool,
        content: Tensor | None,
    ) -> Self:
        target = Path(os.path.abspath(filename))
        if not existsok and target.exists():
            raise AlreadyExistsError(f"{target} already exists; pass existsok=True to replace it")
        if count := _count(size):
            part = temporary_name(target)
            try:
                if content is None:
                    reserve(part, count * dtype.itemsize)
                else:
                    write_tensors([(part, content)], 0, durable=False)
                os.replace(part, target)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        return cls.from_filename(target, dtype, size)

    # --- what it is

    @property
    def filename(self) -> str | None:
        """The absolute path of the file, or ``None`` for shared memory without a name."""
        return self._path

    @property
    def handler(self) -> torch.UntypedStorage | None:
        """The shared memory behind a tensor without a file; see :meth:`from_handler`."""
        return self.untyped_storage() if self._path is None else None

    def is_file(self, filename: str | Path) -> bool:
        """Whether this shows the whole of the file that has this name now."""
        if self._path != os.path.abspath(filename) or self._file is None or self.is_nested:
            return False
        try:
            facts = os.stat(filename)
        except OSError:
            return False
        whole = facts.st_size == self.numel() * self.element_size() and self.is_contiguous()
        whole = whole and not self._private and not self.storage_offset()
        return whole and self._file == (facts.st_dev, facts.st_ino)

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self.is_nested:
            flat, sizes = _flat(self)
            return _shown, (type(self)._wrap(flat, self._path, self._file, self._private), sizes)
        if self._path is None:
            return _wrap_plain, (type(self), self.clone(memory_format=torch.contiguous_format))
        place = (self.dtype, self.shape, self.stride(), self.storage_offset())
        return _map_again, (self._path, *place, self._private)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copy = self.clone()
        memo[id(self)] = copy
        return copy

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        with without_torch_function():
            out = function(*args, **(kwargs or {}))
        if function not in _VIEWS:
            return out
        source = args[0]
        if type(out) is Tensor:
            return _as_view(source, out)
        if isinstance(out, tuple | list):
            return type(out)([_as_view(source, part) for part in out])
        return out


def _as_view(source: Any, out: Any) -> Any:
    """``out`` as a mapped tensor if it shows memory of ``source``."""
    if not isinstance(source, MemoryMappedTensor) or type(out) is not Tensor:
        return out
    with without_torch_function():
        if out.untyped_storage().data_ptr() != source.untyped_storage().data_ptr():
            return out
        return type(source)._wrap(out, source._path, source._file, source._private)


# --- shapes: sizes, or for nested tensors a table of them


def _on_cpu(device: torch.device | str | None) -> None:
    if device is not None and torch.device(device).type != "cpu":
        raise RuntimeError(f"a mapped tensor lies in the memory of the CPU, got device {device}")


def _shape(shape: Any) -> Size | Tensor:
    """Sizes as they are kept: a table of them for a nested tensor."""
    if isinstance(shape, Tensor):
        if shape.ndim == 2:
            return shape.to(torch.int64)
        shape = shape.tolist()
    return Size((shape,) if isinstance(shape, int) else shape)


def _count(size: Size | Tensor) -> int:
    return size.numel() if isinstance(size, Size) else int(size.prod(1).sum())


def _size_of(tensor: Tensor) -> Size | Tensor:
    return nested_layout(tensor)[0] if tensor.is_nested else tensor.shape


def _flat(tensor: Tensor) -> tuple[Tensor, Size | Tensor]:
    """The elements in C order in one dimension, without a copy where memory allows, and the shape."""
    if not tensor.is_nested:
        return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1), tensor.shape
    if tensor.layout is torch.jagged:
        raise ValueError(
            "a jagged tensor has values and offsets, two tensors: map each, or use consolidate()"
        )
    sizes, values = nested_layout(tensor.detach().contiguous())
    return values, sizes


def _shown(flat: Any, size: Size | Tensor) -> MemoryMappedTensor:
    """A mapped tensor of one dimension in another shape."""
    if isinstance(size, Size):
        return flat.view(size)
    with without_torch_function():
        view = nested_view(flat.as_subclass(Tensor), size)
    return type(flat)._wrap(view, flat._path, flat._file, flat._private)


# --- mapping files


def map_known(
    path: str, dtype: torch.dtype, size: Size | Tensor, facts: os.stat_result | None, private: bool = False
) -> MemoryMappedTensor:
    """Map a file whose facts are known to fit; without elements there is nothing to know."""
    if facts is None:
        return _shown(MemoryMappedTensor._wrap(torch.empty(0, dtype=dtype), path), size)
    shared = not private and os.access(path, os.W_OK)
    flat = torch.from_file(path, shared=shared, size=_count(size), dtype=dtype)
    file = (facts.st_dev, facts.st_ino)
    if isinstance(size, Size):
        return MemoryMappedTensor._wrap(flat.view(size), path, file, private)
    return _shown(MemoryMappedTensor._wrap(flat, path, file, private), size)


def map_bytes(path: str, facts: os.stat_result, *, shared: bool) -> MemoryMappedTensor:
    """A whole file as bytes; unless ``shared``, what is written stays in this process."""
    flat = torch.from_file(path, shared=shared, size=facts.st_size, dtype=torch.uint8)
    return MemoryMappedTensor._wrap(flat, path, (facts.st_dev, facts.st_ino), not shared)


def map_part(
    view: Tensor, shape: Sequence[int], offset: int, path: str, file: tuple[int, int], private: bool
) -> MemoryMappedTensor:
    """A tensor of ``shape`` at an offset, in elements, of ``view``: a mapped file that was checked to hold it."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    part = view.as_strided(
        shape, strides[::-1], offset
    ).data  # counts its own versions: others' writes are not its
    return MemoryMappedTensor._wrap(part, path, file, private)


def _map_file(
    path: str, dtype: torch.dtype, size: Size | Tensor, private: bool = False
) -> MemoryMappedTensor:
    need = _count(size) * dtype.itemsize
    facts = os.stat(path) if need else None
    if facts is not None and facts.st_size < need:
        raise ValueError(
            f"{path}: a tensor of shape {tuple(size)} and {dtype} takes {need} bytes, the file has {facts.st_size}"
        )
    return map_known(path, dtype, size, facts, private)


def _map_again(
    path: str, dtype: torch.dtype, size: Size, stride: tuple[int, ...], offset: int, private: bool = False
) -> MemoryMappedTensor:
    """The part of a file that a pickled tensor showed."""
    if size.numel() == 0:
        return map_known(path, dtype, size, None)
    reach = 1 + offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return _map_file(path, dtype, Size((reach,)), private).as_strided(size, stride, offset)


def _wrap_plain(cls: type[MemoryMappedTensor], tensor: Tensor) -> MemoryMappedTensor:
    return cls._wrap(tensor.share_memory_(), None)


def _wrap_shared(
    cls: type[MemoryMappedTensor], rebuild: Callable[..., Tensor], args: Any
) -> MemoryMappedTensor:
    return cls._wrap(rebuild(*args), None)


def _to_process(tensor: MemoryMappedTensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """How it goes to another process: by its file, or by the shared memory that has no name."""
    if tensor._path is not None or tensor.is_nested:
        return tensor.__reduce_ex__(2)
    return _wrap_shared, (type(tensor), *reduce_tensor(tensor.as_subclass(Tensor)))


ForkingPickler.register(MemoryMappedTensor, _to_process)

_VIEWS = frozenset(
    getattr(owner, name)
    for owner in (Tensor, torch)
    for name in (
        *(
            "__getitem__",
            "as_strided",
            "chunk",
            "detach",
            "diagonal",
            "expand",
            "expand_as",
            "flatten",
            "movedim",
        ),
        *(
            "narrow",
            "permute",
            "ravel",
            "reshape",
            "select",
            "split",
            "squeeze",
            "swapaxes",
            "t",
            "tensor_split",
        ),
        *("transpose", "unbind", "unflatten", "unfold", "unsqueeze", "view", "view_as"),
    )
    if hasattr(owner, name)
) | {Tensor.T.__get__, Tensor.mT.__get__, Tensor.data.__get__}
