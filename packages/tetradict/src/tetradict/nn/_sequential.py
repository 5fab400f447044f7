"""Modules one after the other on one collection."""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from tetradict._base import TensorDictBase
from tetradict._protocol import NestedKey
from tetradict.nn._dispatch import with_tensors
from tetradict.nn._keys import DROPPED, as_keys, is_under
from tetradict.nn._module import TensorDictModuleBase


class TensorDictSequential(TensorDictModuleBase):
    """Run modules one after the other on the same collection.

    ``in_keys`` are the entries that some module reads and no earlier one writes; ``out_keys`` are all that are
    written. Modules are reached by index or slice.

    Args:
        modules: TensorDictModuleBase instances, or modules that have ``in_keys`` and ``out_keys`` likewise.
        selected_out_keys: the entries to write; what else the modules compute is dropped. All of them when left out.
        inplace: write into the collection that came in and return it; if not, return a new one that holds the
            outputs alone. When left out, as its modules do: in place unless one of them isn't.

    Raises:
        TypeError: one of ``modules`` has no keys.
        KeyError: ``selected_out_keys`` names what no module writes.

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
        *modules: nn.Module,
        selected_out_keys: Iterable[NestedKey] | None = None,
        inplace: bool | None = None,
    ) -> None:
        super().__init__()
        for position, module in enumerate(modules):
            if not (
                isinstance(module, nn.Module) and hasattr(module, "in_keys") and hasattr(module, "out_keys")
            ):
                raise TypeError(
                    f"{type(self).__name__}: module {position} must have in_keys and out_keys, "
                    f"got a {type(module).__name__}; wrap it in TensorDictModule"
                )
        self.module = nn.ModuleList(modules)
        self.in_keys, self.out_keys = _outer_keys(modules)
        if inplace is None:
            inplace = all(getattr(module, "inplace", True) for module in modules)
        self.inplace = inplace
        self.selected_out_keys = None if selected_out_keys is None else as_keys(selected_out_keys)
        if self.selected_out_keys is not None:
            unknown = [key for key in self.selected_out_keys if not is_under(key, self.out_keys)]
            if unknown:
                raise KeyError(
                    f"{type(self).__name__}: selected_out_keys {unknown} are written by no module; "
                    f"choose among {self.out_keys}"
                )
            self.out_keys = list(self.selected_out_keys)

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
        if self.inplace and self.selected_out_keys is None and tensordict_out is None:
            return _run(self.module, tensordict, kwargs)
        work = _run(self.module, tensordict.copy(), kwargs)
        if tensordict_out is None:
            tensordict_out = tensordict if self.inplace else tensordict.empty()
        return tensordict_out.update(work.select(*self.out_keys))

    def __len__(self) -> int:
        return len(self.module)

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.module)

    def __getitem__(self, index: int | slice) -> nn.Module:
        """One module, or a TensorDictSequential of a slice of them."""
        return self._of(self.module[index]) if isinstance(index, slice) else self.module[index]

    def _of(self, modules: Iterable[nn.Module]) -> "TensorDictSequential":
        """A sequence of some of the modules."""
        return TensorDictSequential(*modules, inplace=self.inplace)

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
        there = self.in_keys if in_keys is None else as_keys(in_keys)
        wanted = self.out_keys if out_keys is None else as_keys(out_keys)
        runnable, known = [], list(there)
        for module in _flat(self.module):
            if all(is_under(key, known) for key in module.in_keys):
                runnable.append(module)
                known += module.out_keys
        needed, goal = [], list(wanted)
        for module in reversed(runnable):
            if any(is_under(key, goal) or is_under(want, [key]) for key in module.out_keys for want in goal):
                needed.append(module)
                goal += module.in_keys
        if not needed:
            raise ValueError(
                f"{type(self).__name__}: no module leads from {there} to {wanted}; "
                f"this sequence reads {self.in_keys} and writes {self.out_keys}"
            )
        return self._of(reversed(needed))


def _flat(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """The modules, with those of plain sequences inside."""
    for module in modules:
        if type(module) is TensorDictSequential and module.selected_out_keys is None:
            yield from _flat(module.module)
        else:
            yield module


def _run(modules: Iterable[nn.Module], tensordict: TensorDictBase, kwargs: dict[str, Any]) -> TensorDictBase:
    """Run modules on ``tensordict``, which takes all that they write, also those that return another collection."""
    for module in modules:
        out = module(tensordict, **kwargs)
        if out is not tensordict:
            tensordict.update(out)
    return tensordict


def _outer_keys(modules: Iterable[Any]) -> tuple[list[NestedKey], list[NestedKey]]:
    """What a sequence reads from outside, and all that it writes."""
    reads: list[NestedKey] = []
    writes: list[NestedKey] = []
    for module in modules:
        reads += [key for key in module.in_keys if key not in reads and not is_under(key, writes)]
        writes += [key for key in module.out_keys if key not in writes and key != DROPPED]
    return reads, writes
