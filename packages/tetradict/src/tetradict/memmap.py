"""Tensors whose memory is a file."""

import os
from collections.abc import Callable, Sequence
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Self

import torch
from torch import Size, Tensor
from torch.multiprocessing.reductions import reduce_tensor

from tetradict._files import reserve, temporary_name, write_tensors
from tetradict._torch_compat import without_torch_function

__all__ = ["MemoryMappedTensor"]


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

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Not a way to make one."""
        raise TypeError(
            "MemoryMappedTensor is not called; use MemoryMappedTensor.from_tensor(tensor, filename=...), "
            "from_filename(filename, dtype, shape) or empty(shape, dtype=..., filename=...)"
        )

    @classmethod
    def _wrap(cls, tensor: Tensor, path: str | None, file: tuple[int, int] | None = None) -> Self:
        self = tensor.as_subclass(cls)
        self._path = path
        self._file = file
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
    ) -> Self:
        """A copy of ``input`` in a file, or in shared memory without ``filename``.

        Args:
            input: any dtype and layout; it is copied to the host and detached.
            filename: where the bytes go, in C order. They are written under another name that is then changed.
            existsok: replace a file that is there.
            copy_existing: copy a tensor that is mapped from another file already.

        Returns:
            The mapped tensor; ``input`` itself when it is what ``filename`` (or no name) asks for.

        Raises:
            FileExistsError: the file is there and ``existsok`` is not set.
            RuntimeError: ``input`` is mapped from another file and ``copy_existing`` is not set.
        """
        if isinstance(input, MemoryMappedTensor):
            if filename is None or input.is_file(filename):
                return input
            if not copy_existing and input._path is not None:
                raise RuntimeError(
                    f"from_tensor: the tensor is mapped from {input._path} already; pass copy_existing=True to copy "
                    f"it to {filename}"
                )
        if filename is None:
            return cls._wrap(input.detach().cpu().contiguous().clone().share_memory_(), None)
        return cls._create(filename, input.shape, input.dtype, existsok, input)

    @classmethod
    def from_filename(
        cls, filename: str | Path, dtype: torch.dtype, shape: Sequence[int], index: Any = None
    ) -> Self:
        """Map a file of elements in C order.

        Args:
            filename: the file; for a shape without elements it need not be there.
            dtype: of the elements.
            shape: of the tensor.
            index: show this part of it alone.

        Raises:
            ValueError: the file is too short for ``shape``.
        """
        mapped = _map_file(os.path.abspath(filename), dtype, Size(shape))
        return mapped if index is None else mapped[index]

    @classmethod
    def empty(
        cls,
        *shape: int | Sequence[int],
        dtype: torch.dtype | None = None,
        filename: str | Path | None = None,
        existsok: bool = False,
    ) -> Self:
        """A mapped tensor whose elements mean nothing yet (they are zero); a new file takes no room until written.

        Args:
            shape: sizes, one by one or as one sequence.
            dtype: torch's default when not given.
            filename: the file to make; shared memory without it.
            existsok: replace a file that is there.
        """
        size = Size(shape if not shape or isinstance(shape[0], int) else shape[0])
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if filename is None:
            return cls._wrap(torch.zeros(size, dtype=dtype).share_memory_(), None)
        return cls._create(filename, size, dtype, existsok, None)

    zeros = empty

    @classmethod
    def ones(
        cls,
        *shape: int | Sequence[int],
        dtype: torch.dtype | None = None,
        filename: str | Path | None = None,
        existsok: bool = False,
    ) -> Self:
        """A mapped tensor of ones; see :meth:`empty`."""
        return cls.empty(*shape, dtype=dtype, filename=filename, existsok=existsok).fill_(1)

    @classmethod
    def full(
        cls,
        shape: Sequence[int],
        fill_value: Any,
        *,
        dtype: torch.dtype | None = None,
        filename: str | Path | None = None,
        existsok: bool = False,
    ) -> Self:
        """A mapped tensor of ``fill_value``, in its dtype unless told; see :meth:`empty`."""
        dtype = torch.full((), fill_value).dtype if dtype is None else dtype
        return cls.empty(shape, dtype=dtype, filename=filename, existsok=existsok).fill_(fill_value)

    @classmethod
    def empty_like(cls, input: Tensor, *, filename: str | Path | None = None, existsok: bool = False) -> Self:
        """:meth:`empty` in the shape and dtype of ``input``."""
        return cls.empty(input.shape, dtype=input.dtype, filename=filename, existsok=existsok)

    zeros_like = empty_like

    @classmethod
    def ones_like(cls, input: Tensor, *, filename: str | Path | None = None, existsok: bool = False) -> Self:
        """:meth:`ones` in the shape and dtype of ``input``."""
        return cls.ones(input.shape, dtype=input.dtype, filename=filename, existsok=existsok)

    @classmethod
    def full_like(
        cls, input: Tensor, fill_value: Any, *, filename: str | Path | None = None, existsok: bool = False
    ) -> Self:
        """:meth:`full` in the shape and dtype of ``input``."""
        return cls.full(input.shape, fill_value, dtype=input.dtype, filename=filename, existsok=existsok)

    @classmethod
    def _create(
        cls, filename: str | Path, size: Size, dtype: torch.dtype, existsok: bool, content: Tensor | None
    ) -> Self:
        target = Path(os.path.abspath(filename))
        if not existsok and target.exists():
            raise FileExistsError(f"{target} is there already; pass existsok=True to replace it")
        if size.numel():
            part = temporary_name(target)
            try:
                if content is None:
                    reserve(part, size.numel() * dtype.itemsize)
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

    def is_file(self, filename: str | Path) -> bool:
        """Whether this shows the whole of the file that has this name now."""
        if self._path != os.path.abspath(filename) or self._file is None or self.storage_offset():
            return False
        try:
            facts = os.stat(filename)
        except OSError:
            return False
        whole = facts.st_size == self.numel() * self.element_size() and self.is_contiguous()
        return whole and self._file == (facts.st_dev, facts.st_ino)

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self._path is None:
            return _wrap_plain, (type(self), self.clone(memory_format=torch.contiguous_format))
        place = (self.dtype, self.shape, self.stride(), self.storage_offset())
        return _map_again, (self._path, *place)

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
        return type(source)._wrap(out, source._path, source._file)


def map_known(path: str, dtype: torch.dtype, size: Size, facts: os.stat_result | None) -> MemoryMappedTensor:
    """Map a file whose facts are known to fit; without elements there is nothing to know."""
    if facts is None:
        return MemoryMappedTensor._wrap(torch.empty(size, dtype=dtype), path)
    tensor = torch.from_file(path, shared=os.access(path, os.W_OK), size=size.numel(), dtype=dtype).view(size)
    return MemoryMappedTensor._wrap(tensor, path, (facts.st_dev, facts.st_ino))


def _map_file(path: str, dtype: torch.dtype, size: Size) -> MemoryMappedTensor:
    need = size.numel() * dtype.itemsize
    facts = os.stat(path) if need else None
    if facts is not None and facts.st_size < need:
        raise ValueError(
            f"{path}: a tensor of shape {tuple(size)} and {dtype} takes {need} bytes, the file has {facts.st_size}"
        )
    return map_known(path, dtype, size, facts)


def _map_again(
    path: str, dtype: torch.dtype, size: Size, stride: tuple[int, ...], offset: int
) -> MemoryMappedTensor:
    """The part of a file that a pickled tensor showed."""
    if size.numel() == 0:
        return map_known(path, dtype, size, None)
    reach = 1 + offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return _map_file(path, dtype, Size((reach,))).as_strided(size, stride, offset)


def _wrap_plain(cls: type[MemoryMappedTensor], tensor: Tensor) -> MemoryMappedTensor:
    return cls._wrap(tensor.share_memory_(), None)


def _wrap_shared(
    cls: type[MemoryMappedTensor], rebuild: Callable[..., Tensor], args: Any
) -> MemoryMappedTensor:
    return cls._wrap(rebuild(*args), None)


def _to_process(tensor: MemoryMappedTensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """How it goes to another process: by its file, or by the shared memory that has no name."""
    if tensor._path is not None:
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
