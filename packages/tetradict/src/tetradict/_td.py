"""The collection in memory: one plain dict, and faster forms of the verbs that are called most."""

from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Self

import torch
from torch import Size, Tensor

from tetradict import _entries, _keys
from tetradict._base import TensorDictBase
from tetradict._lock import is_root
from tetradict._nontensor import NonTensorLeaf
from tetradict._protocol import NestedKey, real_device
from tetradict._pytree import depth_of, fixed, resized
from tetradict._torch_compat import MappingKey, register_pytree_node
from tetradict.io._layout import COLLECTION
from tetradict.io._read import KINDS

_new = object.__new__


class TensorDict(TensorDictBase):
    """A dict of tensors that acts as one tensor of the leading dimensions they share.

    Args:
        source: entries by key (strings, or tuples of strings for nested ones): tensors whose shapes begin with
            ``batch_size``; nested mappings and collections; numbers, arrays and lists of numbers, which become
            tensors; any other object, kept as it is. Keyword arguments are entries too.
        batch_size: the leading dimensions that all entries share; ``[]`` when not given.
        device: where tensors are moved as they come in; ``None`` leaves each where it is.
        names: a name or ``None`` for each batch dimension.
        lock: forbid changes of the entries from the start; see :meth:`lock_`.

    Raises:
        RuntimeError: a tensor does not begin with the batch size.

    Example:
        >>> td = TensorDict({"obs": torch.zeros(3, 4), "next": {"reward": torch.ones(3, 1)}}, [3])
        >>> td["next", "reward"].shape, td[0].batch_size, torch.stack([td, td]).batch_size
        (torch.Size([3, 1]), torch.Size([]), torch.Size([2, 3]))
    """

    __slots__ = ("_bs", "_d", "_dev", "_lock", "_names")

    def __init__(
        self,
        source: Mapping[NestedKey, Any] | TensorDictBase | None = None,
        batch_size: Sequence[int] | int | None = None,
        device: torch.device | str | int | None = None,
        names: Sequence[str | None] | None = None,
        lock: bool = False,
        **kwargs: Any,
    ) -> None:
        if type(batch_size) is not Size:
            batch_size = Size(
                () if batch_size is None else (batch_size,) if type(batch_size) is int else batch_size
            )
        self._bs = batch_size
        self._dev = None if device is None else real_device(device)
        self._names = None
        self._lock = None
        self._d = {}
        if names is not None:
            _entries.set_names(self, names)
        if source is not None:
            self._fill(source)
        if kwargs:
            self._fill(kwargs)
        if lock:
            self.lock_()

    def _fill(self, source: Mapping[NestedKey, Any] | TensorDictBase) -> None:
        entries, size, device = self._d, self._bs, self._dev
        dims = len(size)
        rows = size[0] if dims == 1 else -1  # one size is compared faster than a slice of the shape
        for key, value in source.items():
            if type(value) is Tensor and type(key) is str and (device is None or value.device == device):
                if dims:
                    shape = value.shape
                    if shape[:dims] != size if rows < 0 else not shape or shape[0] != rows:
                        _entries.misfit(self, key, shape)
                entries[key] = value
            elif type(value) is dict and type(key) is str:
                node = self._like({}, size, self._names)
                node._fill(value)
                entries[key] = node
            else:
                _entries.put(self, key, value)

    @classmethod
    def trusted(cls, source: dict[str, Any], batch_size: Size, device: torch.device | None = None) -> Self:
        """A collection around ``source``, with nothing checked: for code that is right by construction.

        Args:
            source: becomes the storage itself, so the caller gives it away. Its keys are strings of one level, its
                values tensors whose shapes begin with ``batch_size`` (and lie on ``device``, if given),
                collections, or :class:`NonTensorData`; a plain nested dict or another object is not turned into one.
            batch_size: a ``torch.Size``.
            device: a ``torch.device`` with its index, or ``None``.

        Example:
            >>> TensorDict.trusted({"x": torch.zeros(2, 3)}, torch.Size([2]))[0]["x"]
            tensor([0., 0., 0.])
        """
        self = _new(cls)
        self._d = source
        self._bs = batch_size
        self._dev = device
        self._names = None
        self._lock = None
        return self

    @classmethod
    def from_dict(
        cls,
        input_dict: Mapping[NestedKey, Any],
        *,
        batch_size: Sequence[int] | None = None,
        batch_dims: int | None = None,
        device: torch.device | str | None = None,
        names: Sequence[str | None] | None = None,
        auto_batch_size: bool = False,
    ) -> Self:
        """A collection from nested dicts, with its batch size given or found.

        Args:
            input_dict: entries, as the constructor takes them.
            batch_size: the leading dimensions that all entries share.
            batch_dims: at most this many leading dimensions, as many as all entries share.
            device: see the constructor.
            names: see the constructor.
            auto_batch_size: as many leading dimensions as all entries share.
        """
        td = cls(input_dict, batch_size, device)
        if batch_size is None and (auto_batch_size or batch_dims is not None):
            td.auto_batch_size_(batch_dims)
        if names is not None:
            td.names = names
        return td

    # --- the protocol of a container

    def _keys(self) -> KeysView[str]:
        return self._d.keys()

    def _get1(self, key: str) -> Any:
        return self._d[key]

    def _set1(self, key: str, value: Any) -> None:
        self._d[key] = value

    def _del1(self, key: str) -> None:
        del self._d[key]

    def _entries(self) -> Mapping[str, Any]:
        return self._d

    def _like(self, entries: dict[str, Any], batch_size: Size, names: list[str | None] | None = None) -> Self:
        new = _new(type(self))
        new._d = entries
        new._bs = batch_size
        new._dev = self._dev
        new._names = names
        new._lock = None
        return new

    def _like_rows(
        self,
        keys: Sequence[str],
        rows: Iterable[tuple[Any, ...]],
        sizes: Sequence[Size],
        names: list[str | None] | None,
    ) -> list[Self]:
        cls, device = type(self), self._dev
        out = []
        for row, size in zip(rows, sizes):  # noqa: B905  (speed, here and below; the rows were made to fit)
            new = _new(cls)
            new._d = dict(zip(keys, row))  # noqa: B905
            new._bs = size
            new._dev = device
            new._names = names
            new._lock = None
            out.append(new)
        return out

    def _put_meta(
        self, batch_size: Size, device: torch.device | None, names: list[str | None] | None
    ) -> None:
        self._bs, self._dev, self._names = batch_size, device, names

    @property
    def batch_size(self) -> Size:
        """The leading dimensions that all entries share; may be set to any that they all begin with."""
        return self._bs

    @batch_size.setter
    def batch_size(self, size: Sequence[int]) -> None:
        _entries.set_batch_size(self, size)

    shape = batch_size

    @property
    def device(self) -> torch.device | None:
        """Where every entry lies, or ``None`` for "mixed, not checked"."""
        return self._dev

    # --- faster forms of what every container has; tests hold them equal to it

    def __getitem__(self, key: Any) -> Any:
        if type(key) is str:
            try:
                value = self._d[key]
            except KeyError:
                _entries.missing(self, key)
            return value if type(value) is Tensor else _entries.shown(value)
        if type(key) is tuple and key and type(key[0]) is str:
            try:
                value = self
                for name in key:
                    value = value._d[name]
            except (AttributeError, KeyError, TypeError):
                value = _entries.find(self, key)
            return value if type(value) is Tensor else _entries.shown(value)
        return super().__getitem__(key)

    def get(self, key: NestedKey, default: Any = None) -> Any:
        """The entry at ``key`` as it is stored (a non-tensor value in its leaf), or ``default``."""
        if type(key) is str:
            return self._d.get(key, default)
        return _entries.find(self, key, default)

    def __contains__(self, key: NestedKey) -> bool:
        if type(key) is str:
            return key in self._d
        try:
            node = self
            *path, last = key
            for name in path:
                node = node._d[name]
            if type(last) is str:
                return last in node._d
        except (AttributeError, KeyError, TypeError):
            pass
        return _entries.contains(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is str and type(value) is Tensor and self._lock is None and self._dev is None:
            size = self._bs
            if size:
                shape = value.shape
                if shape[: len(size)] != size if len(size) > 1 else not shape or shape[0] != size[0]:
                    _entries.misfit(self, key, shape)
            self._d[key] = value
        elif type(key) is str:
            if type(value) is TensorDict and self._takes_as_it_is(value):
                self._d[key] = value
            else:
                _entries.put(self, key, value)
        elif type(key) is tuple and len(key) > 1 and type(key[-1]) is str:
            try:
                node = self
                for name in key[:-1]:
                    node = node._d[name]
            except (AttributeError, KeyError, TypeError):
                node = None
            if isinstance(node, TensorDictBase):
                node[key[-1]] = value
            else:
                super().__setitem__(key, value)
        else:
            super().__setitem__(key, value)

    def set(self, key: NestedKey, item: Any, inplace: bool = False) -> Self:
        """Put ``item`` at ``key``; with ``inplace``, write it into the present value if there is one."""
        if inplace or not (type(key) is str or (type(key) is tuple and len(key) > 1)):
            return super().set(key, item, inplace)
        self[key] = item
        return self

    def update(
        self, input_dict_or_td: Any = None, clone: bool = False, inplace: bool = False, **options: Any
    ) -> Self:
        """Put the entries of another collection or mapping; see :meth:`TensorDictBase.update`."""
        plain = input_dict_or_td._d if isinstance(input_dict_or_td, TensorDict) else input_dict_or_td
        if type(plain) is not dict or clone or inplace or options:
            return super().update(input_dict_or_td, clone, inplace, **options)
        if plain is not input_dict_or_td:
            if self._takes_all_of(input_dict_or_td):
                self._d.update(plain)
                return self
            _keys.check_sizes(self, input_dict_or_td)
        for key, value in plain.items():
            if type(value) is Tensor:
                self[key] = value
            else:
                super().update({key: value})
        return self

    @wraps(TensorDictBase.apply)
    def apply(self, fn: Callable[..., Any], *others: Any, **options: Any) -> Self | None:
        if others or options:
            return super().apply(fn, *others, **options)
        entries, size, device = self._d, self._bs, self._dev
        one = len(size) == 1 and device is None  # one size is compared faster than a slice of the shape
        rows = size[0] if one else -1
        out: dict[str, Any] = {}
        for key, value in entries.items():
            if isinstance(value, Tensor):
                result = fn(value)
                if one and type(result) is Tensor and (shape := result.shape) and shape[0] == rows:
                    out[key] = result
                elif result is not None:
                    out[key] = _entries.coerce(self, key, result)
            elif not isinstance(value, TensorDictBase):
                out[key] = value
            elif (result := value.apply(fn)) is not None:
                out[key] = result
        return self._like(out, size, self._names) if out or not entries else None

    def _takes_as_it_is(self, child: "TensorDict") -> bool:
        """Whether a nested collection goes in unchanged: what an environment's step puts under "next"."""
        return self._lock is None and self._dev is None and self._names is None and child._bs == self._bs

    def _takes_all_of(self, other: "TensorDict") -> bool:
        """Whether every entry of ``other`` is a tensor that fits here as it is."""
        size = self._bs
        if self._lock is not None or not (self._dev is None or self._dev == other._dev):
            return False
        if other._bs != size and other._bs[: len(size)] != size:
            return False
        return all([type(value) is Tensor for value in other._d.values()])

    def _leaves(self) -> list[Tensor]:
        out: list[Tensor] = []
        for value in self._d.values():
            if type(value) is Tensor:
                out.append(value)
            elif isinstance(value, TensorDictBase):
                out += value._leaves()
            elif isinstance(value, Tensor):
                out.append(value)
        return out

    # --- pickle and copy

    def __getstate__(self) -> tuple[Any, ...]:
        own = getattr(self, "__dict__", None)  # a subclass may have attributes
        return self._d, self._bs, self._dev, self._names, is_root(self), own

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._d, self._bs, self._dev, self._names, locked, own = state
        self._lock = None
        if own:
            self.__dict__.update(own)
        if locked:
            self.lock_()

    # --- pytree: tensors and collections are the children, other values belong to the structure

    def _flatten(self) -> tuple[list[Any], tuple[Any, ...]]:
        entries = self._d
        rest = {key: value for key, value in entries.items() if isinstance(value, NonTensorLeaf)}
        values = (
            [value for key, value in entries.items() if key not in rest] if rest else list(entries.values())
        )
        return values, (
            type(self),
            tuple(entries),
            rest,
            fixed(self._bs, values),
            self._dev,
            self._names,
            depth_of(values),
        )

    def _flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        values, context = self._flatten()
        keys = [key for key in self._d if key not in context[2]]
        return [(MappingKey(key), value) for key, value in zip(keys, values, strict=True)], context

    @staticmethod
    def _unflatten(values: Iterable[Any], context: tuple[Any, ...]) -> "TensorDict":
        kind, keys, rest, size, device, names, depth = context
        values = list(values)
        size, names = resized(values, size, names, depth)
        if device is not None and any(isinstance(v, Tensor) and v.device != device for v in values):
            device = None
        left = iter(values)
        td = kind.trusted({key: rest[key] if key in rest else next(left) for key in keys}, size, device)
        td._names = names
        return td


def load_memmap(prefix: str | Path, device: torch.device | str | None = None) -> TensorDict:
    """Map a collection that was saved in a folder; see :meth:`TensorDictBase.load_memmap`."""
    return TensorDict.load_memmap(prefix, device)


def load(prefix: str | Path, device: torch.device | str | None = None) -> TensorDict:
    """Load what :meth:`TensorDictBase.save` wrote."""
    return TensorDict.load(prefix, device)


register_pytree_node(
    TensorDict,
    TensorDict._flatten,
    TensorDict._unflatten,
    serialized_type_name="tetradict.TensorDict",
    flatten_with_keys_fn=TensorDict._flatten_with_keys,
)
KINDS[COLLECTION] = TensorDict
