"""Modules that read entries of a collection and write others."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from torch import Tensor, nn

from tetradict._base import TensorDictBase
from tetradict._protocol import NestedKey
from tetradict._torch_compat import hook_fsdp_outputs
from tetradict.nn._dispatch import with_tensors
from tetradict.nn._keys import DROPPED, as_keys, describe, read


class TensorDictModuleBase(nn.Module):
    """A module whose ``forward`` takes a collection and gives one back.

    A subclass says in ``in_keys`` which entries it reads and in ``out_keys`` which it writes, as class attributes or
    in its ``__init__``, and that is all it takes to stand in a TensorDictSequential.
    """

    in_keys: list[NestedKey]
    out_keys: list[NestedKey]

    def select_out_keys(self, *out_keys: NestedKey) -> Self:
        """Write these of the entries alone, until reset_out_keys.

        Raises:
            KeyError: one of them is none that the module writes.
        """
        self.reset_out_keys()
        keys, all_keys = as_keys(list(out_keys)), self.out_keys
        unknown = [key for key in keys if key not in all_keys]
        if unknown:
            raise KeyError(f"{describe(self)}: writes no {unknown}; select_out_keys takes some of {all_keys}")
        self._unselected = all_keys
        self.out_keys = keys
        self._select()
        return self

    def reset_out_keys(self) -> Self:
        """Undo select_out_keys."""
        if "_unselected" in self.__dict__:
            self.out_keys = self.__dict__.pop("_unselected")
            self._select()
        return self

    def _select(self) -> None:
        """Act on a change of ``out_keys``: here, drop from each result what isn't selected."""
        hook = self.__dict__.pop("_selection", None)
        if hook is not None:
            hook.remove()
        if "_unselected" in self.__dict__:
            dropped = [key for key in self._unselected if key not in self.out_keys]
            self._selection = self.register_forward_hook(partial(_drop, dropped))

    def reset_parameters_recursive(self) -> None:
        """Call ``reset_parameters`` of every module inside that has it."""
        for module in self.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if hasattr(cls, "_get_fsdp_state"):  # the class that fully_shard makes of a module's own
            cls.__call__ = _call_sharded


def _drop(keys: list[NestedKey], module: nn.Module, args: Any, output: Any) -> Any:
    return output.exclude(*keys, inplace=True) if isinstance(output, TensorDictBase) else output


def _call_sharded(self: TensorDictModuleBase, *args: Any, **kwargs: Any) -> Any:
    """Call a module under ``fully_shard`` and show it the tensors in the result, which it wouldn't look for there."""
    output = nn.Module.__call__(self, *args, **kwargs)
    if isinstance(output, TensorDictBase):
        hook_fsdp_outputs(self, list(output.values(True, True)))
    return output


class TensorDictModule(TensorDictModuleBase):
    """Call a module on some entries of a collection and write what it returns as others.

    Args:
        module: an ``nn.Module`` or any callable on tensors.
        in_keys: the entries passed by position, in order; or a dict from entries to the keywords they are passed as.
        out_keys: the entries its outputs are written to, in order. ``"_"`` drops an output. When the module returns
            a mapping, the keys that are looked up in it.
        out_to_in_map: read a dict of ``in_keys`` the other way round, from keywords to entries.
        inplace: write into the collection that came in and return it; if not, return a new one that holds the
            outputs alone.
        method: call this method of the module instead.
        method_kwargs: further keywords, the same at every call.

    What else is asked of it, the module answers: ``tdmodule.weight`` is ``tdmodule.module.weight``. The module can also be called with the tensors themselves, by position or by keyword (the levels of a nested key
    joined by ``_``); the outputs then come back as tensors.

    Raises:
        KeyError: an entry is missing; the message says which, and what there is.
        ValueError: the module returned another number of outputs than there are ``out_keys``.

    Example:
        >>> module = TensorDictModule(torch.nn.Softplus(), in_keys=["raw"], out_keys=[("param", "scale")])
        >>> data = module(TensorDict({"raw": torch.zeros(2)}, [2]))
        >>> data["param", "scale"]
        tensor([0.6931, 0.6931])
    """

    def __init__(
        self,
        module: Callable[..., Any],
        in_keys: NestedKey | Iterable[NestedKey] | Mapping[NestedKey, str],
        out_keys: NestedKey | Iterable[NestedKey],
        *,
        out_to_in_map: bool | None = None,
        inplace: bool = True,
        method: str | None = None,
        method_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if not callable(module if method is None else getattr(module, method, None)):
            what = "module must be callable" if method is None else f"module must have a method {method!r}"
            raise TypeError(f"TensorDictModule: {what}, got {type(module).__name__}")
        if out_to_in_map and not isinstance(in_keys, Mapping):
            raise TypeError(f"TensorDictModule: out_to_in_map is for a dict of in_keys, got {in_keys!r}")
        self.module = module
        self.method = method
        self.method_kwargs = dict(method_kwargs or {})
        if out_to_in_map:
            in_keys = {key: keyword for keyword, key in in_keys.items()}
        self._keywords = tuple(in_keys.values()) if isinstance(in_keys, Mapping) else None
        self.in_keys = as_keys(in_keys)
        self.out_keys = as_keys(out_keys)
        self._targets = self.out_keys
        self.inplace = inplace

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            if name == "module" or name.startswith("_"):
                raise
            inner = self.module
            if not hasattr(inner, name):
                raise AttributeError(
                    f"{describe(self)} has no attribute {name!r}, nor has its module"
                ) from error
            return getattr(inner, name)

    def _select(self) -> None:
        kept = self.out_keys
        self._targets = [key if key in kept else DROPPED for key in self.__dict__.get("_unselected", kept)]

    def forward(
        self,
        tensordict: TensorDictBase | None = None,
        *args: Any,
        tensordict_out: TensorDictBase | None = None,
        **kwargs: Any,
    ) -> Any:
        """Read, call, write. Further arguments are passed on to the module."""
        if not isinstance(tensordict, TensorDictBase):
            return with_tensors(self, tensordict, args, kwargs)
        inputs = read(self, tensordict, self.in_keys)
        if self._keywords is not None:
            kwargs.update(zip(self._keywords, inputs, strict=True))
            inputs = []
        if self.method is None:
            output = self.module(*inputs, *args, **self.method_kwargs, **kwargs)
        else:
            output = getattr(self.module, self.method)(*inputs, *args, **self.method_kwargs, **kwargs)
        if tensordict_out is None:
            tensordict_out = tensordict if self.inplace else tensordict.empty()
        for key, value in zip(self._targets, self._outputs(output), strict=True):
            if key != DROPPED:
                tensordict_out.set(key, value)
        return tensordict_out

    def _outputs(self, output: Any) -> Sequence[Any]:
        """What the module returned, one value for each of its targets."""
        if isinstance(output, Tensor):  # what comes most, and cheaper to tell than a mapping
            output = (output,)
        elif isinstance(output, (Mapping, TensorDictBase)):
            return [output[key] if key in output else self._lacks(key, output) for key in self._targets]
        elif not isinstance(output, (tuple, list)):
            output = (output,)
        if len(output) != len(self._targets):
            raise ValueError(
                f"{describe(self)}: expected {len(self._targets)} outputs for {self._targets}, got {len(output)}; "
                'name every output in out_keys, "_" for one to be dropped'
            )
        return output

    def _lacks(self, key: NestedKey, output: Any) -> None:
        if key != DROPPED:
            raise KeyError(
                f"{describe(self)}: expected the module to return {key!r} for out_keys, got {list(output.keys())}"
            )

    def extra_repr(self) -> str:
        """What stands in the repr besides the wrapped module."""
        shown = "" if isinstance(self.module, nn.Module) else f"module={self.module}, "
        return f"{shown}in_keys={self.in_keys}, out_keys={self.out_keys}"
