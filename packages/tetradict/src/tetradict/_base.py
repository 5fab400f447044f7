"""The methods that every container has: each verb of the other modules under its name."""

from collections.abc import Callable, Iterator, Sequence
from types import GenericAlias
from typing import Any, Self

from torch import Size

from tetradict import (
    _access,
    _apply,
    _disk,
    _entries,
    _index,
    _keys,
    _lock,
    _modules,
    _mp,
    _pointwise,
    _reduce,
    _repr,
    _shape,
    _stack,
)
from tetradict._functions import call
from tetradict._protocol import Container, NestedKey


class TensorDictBase(Container):
    """A tree of tensors that share leading dimensions and act as one tensor of that shape.

    The base of every collection, for ``isinstance``; to make one, use :class:`TensorDict`.
    """

    __slots__ = ("__weakref__", "_undo")
    _undo: str | Callable[[], Any] | None

    # --- entries
    _coerce = _entries.coerce  # a kind of collection may have casts of its own
    get = _entries.get
    get_non_tensor = _entries.get_non_tensor
    set_ = _entries.set_
    pop = _entries.pop
    keys = _keys.keys
    values = _keys.values
    items = _keys.items
    is_empty = _keys.is_empty
    select = _keys.select
    exclude = _keys.exclude
    empty = _keys.empty
    rename_key_ = _keys.rename_key_
    flatten_keys = _keys.flatten_keys
    unflatten_keys = _keys.unflatten_keys
    update = _keys.update
    update_ = _keys.update_
    get_at = _access.get_at
    get_item_shape = _access.get_item_shape
    entry_class = _access.entry_class
    is_non_tensor = _access.is_non_tensor_entry
    setdefault = _access.setdefault
    set_non_tensor = _access.set_non_tensor
    create_nested = _access.create_nested
    replace = _access.replace
    popitem = _access.popitem
    clear = _access.clear
    filter_empty_ = _access.filter_empty_
    filter_non_tensor_data = _access.filter_non_tensor_data
    set_at_ = _access.set_at_
    update_at_ = _access.update_at_
    copy_ = _access.copy_
    # --- batch dimensions
    view = _shape.view
    reshape = _shape.reshape
    flatten = _shape.flatten
    unflatten = _shape.unflatten
    permute = _shape.permute
    transpose = _shape.transpose
    squeeze = _shape.squeeze
    unsqueeze = _shape.unsqueeze
    expand = _shape.expand
    contiguous = _shape.contiguous
    is_contiguous = _shape.is_contiguous
    unbind = _shape.unbind
    split = _shape.split
    chunk = _shape.chunk
    gather = _shape.gather
    numel = _shape.numel
    stack = staticmethod(_stack.stack)
    cat = staticmethod(_stack.cat)
    # --- every leaf
    apply = _apply.apply
    named_apply = _apply.named_apply
    clone = _apply.clone
    to = _apply.to
    cpu = _apply.cpu
    cuda = _apply.cuda
    detach = _apply.detach
    requires_grad_ = _apply.requires_grad_
    zero_ = _apply.zero_
    fill_ = _apply.fill_
    share_memory_ = _apply.share_memory_
    is_shared = _apply.is_shared
    # --- worker processes
    map = _mp.map_
    map_iter = _mp.map_iter
    # --- files
    memmap = _disk.memmap
    memmap_ = _disk.memmap_
    memmap_like = _disk.memmap_like
    load_memmap = classmethod(_disk.load_memmap)
    save = _disk.save
    load = classmethod(_disk.load)
    is_memmap = _disk.is_memmap
    # --- modules
    from_module = classmethod(_modules.from_module)
    from_modules = classmethod(_modules.from_modules)
    to_module = _modules.to_module
    # --- reductions
    all = _reduce.all_
    any = _reduce.any_
    # --- locks
    lock_ = _lock.lock_
    unlock_ = _lock.unlock_
    is_locked = property(_lock.is_locked)
    __repr__ = _repr.show
    __hash__ = None

    # --- item access

    def __getitem__(self, key: Any) -> Any:
        if _entries.is_key(key):
            return _entries.shown(_entries.find(self, key))
        return _index.index(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if _entries.is_key(key):
            _entries.put(self, key, value)
        else:
            _index.set_index(self, key, value)

    def __delitem__(self, key: NestedKey) -> None:
        _entries.delete(self, key)

    def del_(self, key: NestedKey) -> Self:
        """Remove the entry at ``key``."""
        _entries.delete(self, key)
        return self

    def __contains__(self, key: NestedKey) -> bool:
        return _entries.contains(self, key)

    def set(self, key: NestedKey, item: Any, inplace: bool = False) -> Self:
        """Put ``item`` at ``key``; with ``inplace``, write it into the present value if there is one."""
        if inplace and key in self:
            return _entries.set_(self, key, item)
        _entries.put(self, key, item)
        return self

    def __len__(self) -> int:
        return self.batch_size[0] if self.batch_size else 0

    def __iter__(self) -> Iterator[Self]:
        if not self.batch_size:
            raise TypeError(
                "iter: a collection with batch size [] has no items; iterate over keys() or items()"
            )
        return iter(_shape.unbind(self))

    def __bool__(self) -> bool:
        raise RuntimeError("a collection has no single truth value; ask is_empty(), all() or any()")

    # --- what it is

    @property
    def batch_size(self) -> Size:
        """The leading dimensions that all entries share; may be set to any that they all begin with."""
        return super().batch_size

    @batch_size.setter
    def batch_size(self, size: Sequence[int]) -> None:
        _entries.set_batch_size(self, size)

    @property
    def shape(self) -> Size:
        """The batch size."""
        return self.batch_size

    def size(self, dim: int | None = None) -> Size | int:
        """The batch size, or that of one dimension."""
        return self.batch_size if dim is None else self.batch_size[dim]

    @property
    def batch_dims(self) -> int:
        """How many batch dimensions there are."""
        return len(self.batch_size)

    ndim = batch_dims

    def dim(self) -> int:
        """How many batch dimensions there are."""
        return len(self.batch_size)

    @property
    def names(self) -> list[str | None]:
        """A name, or ``None``, for each batch dimension; may be set."""
        return [None] * len(self.batch_size) if self._names is None else list(self._names)

    @names.setter
    def names(self, names: Sequence[str | None] | None) -> None:
        _entries.set_names(self, names)

    def auto_batch_size_(self, batch_dims: int | None = None) -> Self:
        """Make the batch size as long as all tensors allow, at most ``batch_dims`` dimensions."""
        shapes = [leaf.shape for leaf in self._leaves()]
        size: list[int] = []
        for sizes in zip(*shapes, strict=False):
            if len(set(sizes)) > 1 or len(size) == batch_dims:
                break
            size.append(sizes[0])
        self.batch_size = size
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dicts of the same tensors and values."""
        return {
            key: value.to_dict() if isinstance(value, Container) else _entries.shown(value)
            for key, value in self._entries().items()
        }

    # --- protocols of Python and torch

    __class_getitem__ = classmethod(GenericAlias)  # ``TensorDict[str, Tensor]`` in annotations

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        undo = getattr(self, "_undo", None)
        if undo is not None:
            undo() if callable(undo) else getattr(self, undo)()

    def copy(self) -> Self:
        """A new tree of the same tensors."""
        return self.clone(recurse=False)

    __copy__ = copy

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return call(function, args, kwargs or {})


for _name, _verb in _pointwise.VERBS.items():
    setattr(TensorDictBase, _name, _verb)


def is_tensor_collection(datatype: Any) -> bool:
    """Whether ``datatype`` is a collection of tensors, or the class of one."""
    return issubclass(datatype if isinstance(datatype, type) else type(datatype), TensorDictBase)
