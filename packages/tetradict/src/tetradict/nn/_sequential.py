"""Modules one after the other on one collection."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from torch import nn

from tetradict._base import TensorDictBase
from tetradict._protocol import NestedKey
from tetradict.nn._dispatch import with_tensors
from tetradict.nn._keys import DROPPED, as_keys, is_under
from tetradict.nn._module import TensorDictModule, TensorDictModuleBase, new_output
from tetradict.nn._settings import is_done, settings
from tetradict.nn._wrap import WrapModule


class TensorDictSequential(TensorDictModule):
    """Run modules one after the other on the same collection.

    ``in_keys`` are the entries that some module reads and no earlier one writes; ``out_keys`` are all that are
    written. Modules are reached by index, slice or name.

    Args:
        modules: modules that have ``in_keys`` and ``out_keys``, or functions from collection to collection, whose keys
            count for nothing. Or one dict of them by name.
        partial_tolerant: pass over modules whose inputs are missing. In a lazy stack, such a module runs on the items
            that have them.
        selected_out_keys: the entries to write; what else the modules compute is dropped. All of them when left out.
        inplace: write into the collection that came in and return it. If not, return a new ``TensorDict`` of batch size
            ``[]`` that holds the outputs alone; with ``"empty"``, one of the kind, batch size and device that came in.
            When left out, as its modules do: in place unless one of them isn't.

    Raises:
        TypeError: one of ``modules`` has no keys and can't be called.
        ValueError: ``selected_out_keys`` names what no module writes.

    Example:
        >>> double = TensorDictModule(lambda x: 2 * x, in_keys=["a"], out_keys=["b"])
        >>> add = TensorDictModule(torch.add, in_keys=["b", "c"], out_keys=["d"])
        >>> both = TensorDictSequential(double, add)
        >>> both.in_keys, both.out_keys
        (['a', 'c'], ['b', 'd'])
        >>> both(a=torch.ones(1), c=torch.ones(1))
        (tensor([2.]), tensor([3.]))
    """

    def __init__(
        self,
        *modules: nn.Module | Callable[..., Any] | Mapping[str, Any],
        partial_tolerant: bool = False,
        selected_out_keys: Iterable[NestedKey] | None = None,
        inplace: bool | Literal["empty"] | None = None,
    ) -> None:
        TensorDictModuleBase.__init__(self)
        named = (
            len(modules) == 1 and isinstance(modules[0], Mapping) and not isinstance(modules[0], nn.Module)
        )
        parts = [
            _as_module(self, name, module)
            for name, module in (modules[0].items() if named else enumerate(modules))
        ]
        self.module = nn.ModuleDict(zip(modules[0], parts, strict=True)) if named else nn.ModuleList(parts)
        self.partial_tolerant = partial_tolerant
        self.in_keys, self.out_keys = _outer_keys(parts)
        if inplace is None:
            own = [part for part in parts if not isinstance(part, WrapModule)]
            if any(getattr(part, "inplace", True) is False for part in own):
                inplace = False
            elif len(own) == len(parts):
                inplace = True  # and if not, as the functions do
        self.inplace = inplace
        self.selected_out_keys = None
        if selected_out_keys is not None:
            self.select_out_keys(*selected_out_keys)

    def __getattr__(self, name: str) -> Any:
        return nn.Module.__getattr__(self, name)  # what the modules inside have is theirs

    def select_out_keys(self, *selected_out_keys: NestedKey) -> "TensorDictSequential":
        """Write these of the entries alone, until reset_out_keys.

        Raises:
            ValueError: one of them is none that a module writes.
        """
        keys = as_keys(
            list(selected_out_keys), "select_out_keys: a key should be a str or a tuple of them; keys"
        )
        source = self.out_keys_source
        unknown = [key for key in keys if key not in source]
        if unknown:
            raise ValueError(
                f"{type(self).__name__}: Can't select non existent keys {unknown}; choose some of {source}"
            )
        self._unselected = source
        self.out_keys = keys
        self._select()
        return self

    def _select(self) -> None:
        self.selected_out_keys = self.out_keys if "_unselected" in self.__dict__ else None

    def forward(
        self,
        tensordict: TensorDictBase | None = None,
        *args: Any,
        tensordict_out: TensorDictBase | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run every module in turn; keyword arguments go to each. Takes tensors too, see TensorDictModule."""
        if not isinstance(tensordict, TensorDictBase):
            return with_tensors(self, tensordict, args, kwargs)
        if settings.skip_existing and is_done(tensordict, self.in_keys, self.out_keys):
            return tensordict
        if self.selected_out_keys is None and tensordict_out is None:
            if self.inplace is True:
                return self._run(tensordict, kwargs)
            if self.inplace is None:
                return self._chain(tensordict, kwargs)
        work = (self._chain if self.inplace is None else self._run)(tensordict.copy(), kwargs)
        if tensordict_out is None:
            tensordict_out = (
                tensordict if self.inplace in {True, None} else new_output(self.inplace, tensordict)
            )
        return tensordict_out.update(work.select(*self.out_keys, strict=False))

    def _parts(self) -> Iterable[nn.Module]:
        return self.module.values() if isinstance(self.module, nn.ModuleDict) else self.module

    def _run(self, tensordict: TensorDictBase, kwargs: dict[str, Any]) -> TensorDictBase:
        """Run the modules on ``tensordict``, which takes all that they write, also of those that return another one."""
        partial_tolerant = self.partial_tolerant
        for module in self._parts():
            out = (
                _run_partially(module, tensordict, kwargs)
                if partial_tolerant
                else module(tensordict, **kwargs)
            )
            if out.batch_dims > tensordict.batch_dims:  # several values were drawn, in a new dimension
                tensordict = out
            elif out is not tensordict:
                tensordict.update(out)
        return tensordict

    def _chain(self, tensordict: TensorDictBase, kwargs: dict[str, Any]) -> TensorDictBase:
        """Give each module what the one before returned."""
        for module in self._parts():
            tensordict = (
                _run_partially(module, tensordict, kwargs)
                if self.partial_tolerant
                else module(tensordict, **kwargs)
            )
        return tensordict

    def __len__(self) -> int:
        return len(self.module)

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self._parts())

    def __getitem__(self, index: int | slice | str) -> nn.Module:
        """One module by position or name, or a TensorDictSequential of a slice of them."""
        if isinstance(index, str):
            return self.module[index]
        parts = list(self._items())
        return self._of(parts[index]) if isinstance(index, slice) else parts[index][1]

    def __setitem__(self, index: int | str, module: nn.Module) -> None:
        self.module[index] = _as_module(self, index, module)
        self._rekey()

    def __delitem__(self, index: int | slice | str) -> None:
        del self.module[index]
        self._rekey()

    def _rekey(self) -> None:
        self.reset_out_keys()
        self.in_keys, self.out_keys = _outer_keys(list(self._parts()))

    def _items(self) -> Iterable[tuple[str, nn.Module]]:
        """The modules by name."""
        return self.module.named_children()

    def _of(self, items: Iterable[tuple[str, nn.Module]]) -> "TensorDictSequential":
        """A sequence of some of the modules."""
        return TensorDictSequential(*self._arguments(items), **self._options())

    def _arguments(self, items: Iterable[tuple[str, nn.Module]]) -> list[Any]:
        return [dict(items)] if isinstance(self.module, nn.ModuleDict) else [module for _, module in items]

    def _options(self) -> dict[str, Any]:
        return {"partial_tolerant": self.partial_tolerant, "inplace": self.inplace}

    def select_subsequence(
        self, in_keys: Iterable[NestedKey] | None = None, out_keys: Iterable[NestedKey] | None = None
    ) -> "TensorDictSequential":
        """The modules that are needed to get from some entries to others, in a sequence of their own.

        Args:
            in_keys: the entries there will be; ``self.in_keys`` when left out. A module that reads anything else
                falls away, with what depends on it.
            out_keys: the entries wanted; ``self.out_keys`` when left out. A module that adds nothing falls away.

        Raises:
            ValueError: no module is left.
        """
        there = self.in_keys if in_keys is None else as_keys(_listed(in_keys), "in_keys")
        wanted = self.out_keys if out_keys is None else as_keys(_listed(out_keys), "out_keys")
        runnable, known = [], list(there)
        for name, module in _flat(self):
            if all(is_under(key, known) for key in module.in_keys):
                runnable.append((name, module))
                known += module.out_keys
        needed, goal = [], list(wanted)
        for name, module in reversed(runnable):
            if any(is_under(key, goal) or is_under(want, [key]) for key in module.out_keys for want in goal):
                needed.append((name, module))
                goal += module.in_keys
        if not needed:
            raise ValueError(
                f"{type(self).__name__}: no module leads from {there} to {wanted}; "
                f"this sequence reads {self.in_keys} and writes {self.out_keys}"
            )
        return self._of(list(reversed(needed)))


def _listed(keys: Any) -> list[NestedKey]:
    return [keys] if isinstance(keys, str) else list(keys)


def _as_module(owner: Any, name: Any, module: Any) -> nn.Module:
    if isinstance(module, nn.Module) and TensorDictModuleBase.is_tdmodule_compatible(module):
        return module
    if callable(module) and not isinstance(module, (type, nn.Module)):
        return WrapModule(module)
    raise TypeError(
        f"{type(owner).__name__}: module {name!r} must have in_keys and out_keys, got a {type(module).__name__}; "
        "wrap it in TensorDictModule"
    )


def _flat(sequence: TensorDictSequential, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The modules by name, with those of plain sequences inside."""
    for name, module in sequence._items():  # noqa: SLF001  (its own class)
        if type(module) is TensorDictSequential and module.selected_out_keys is None:
            yield from _flat(module, f"{prefix}{name}_")
        else:
            yield prefix + name, module


def _run_partially(module: Any, tensordict: Any, kwargs: dict[str, Any]) -> Any:
    """Run a module where its inputs are there; a lazy stack is looked through."""
    if all(key in tensordict for key in module.in_keys):
        return module(tensordict, **kwargs)
    for item in getattr(tensordict, "tensordicts", ()):
        out = _run_partially(module, item, kwargs)
        if out is not item:
            item.update(out)
    return tensordict


def _outer_keys(modules: Iterable[Any]) -> tuple[list[NestedKey], list[NestedKey]]:
    """What a sequence reads from outside, and all that it writes."""
    reads: list[NestedKey] = []
    writes: list[NestedKey] = []
    for module in modules:
        reads += [key for key in module.in_keys if key not in reads and not is_under(key, writes)]
        writes += [key for key in module.out_keys if key not in writes and key != DROPPED]
    return reads, writes
