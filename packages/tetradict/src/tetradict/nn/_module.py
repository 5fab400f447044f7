"""Modules that read entries of a collection and write others."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from tetradict._base import TensorDictBase
from tetradict._entries import shown
from tetradict._protocol import NestedKey
from tetradict._td import TensorDict
from tetradict._torch_compat import hook_fsdp_outputs
from tetradict.nn._dispatch import with_tensors
from tetradict.nn._keys import DROPPED, as_keys, describe, read
from tetradict.nn._settings import is_done, settings


class TensorDictModuleBase(nn.Module):
    """A module whose ``forward`` takes a collection and gives one back.

    A subclass says in ``in_keys`` which entries it reads and in ``out_keys`` which it writes, as class attributes or
    in its ``__init__``, and that is all it takes to stand in a TensorDictSequential.
    """

    _in_keys: list[NestedKey]
    _out_keys: list[NestedKey]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("in_keys", "out_keys"):  # class attributes become the first value of the properties
            keys = cls.__dict__.get(name)
            if isinstance(keys, (list, tuple, str)):
                setattr(cls, f"_{name}", as_keys(list(keys) if isinstance(keys, tuple) else keys, name))
                delattr(cls, name)
        if hasattr(cls, "_get_fsdp_state"):  # the class that fully_shard makes of a module's own
            cls.__call__ = _call_sharded

    @property
    def in_keys(self) -> list[NestedKey]:
        """The entries that are read; may be set."""
        return self._in_keys

    @in_keys.setter
    def in_keys(self, keys: NestedKey | Iterable[NestedKey]) -> None:
        self._in_keys = as_keys(keys, "in_keys")

    @property
    def out_keys(self) -> list[NestedKey]:
        """The entries that are written; may be set."""
        return self._out_keys

    @out_keys.setter
    def out_keys(self, keys: NestedKey | Iterable[NestedKey]) -> None:
        self._out_keys = as_keys(keys, "out_keys")

    @property
    def out_keys_source(self) -> list[NestedKey]:
        """All entries that can be written, whatever select_out_keys has left."""
        return self.__dict__.get("_unselected", self.out_keys)

    @staticmethod
    def is_tdmodule_compatible(module: Any) -> bool:
        """Whether ``module`` says which entries it reads and writes."""
        return hasattr(module, "in_keys") and hasattr(module, "out_keys")

    def select_out_keys(self, *out_keys: NestedKey) -> Self:
        """Write these of the entries alone, until reset_out_keys.

        Raises:
            ValueError: one of them is none that the module writes.
        """
        keys = as_keys(list(out_keys), "select_out_keys: a key should be a str or a tuple of them; keys")
        all_keys = self.out_keys_source
        unknown = [key for key in keys if key not in all_keys]
        if unknown:
            raise ValueError(
                f"{describe(self)}: Can't select non existent keys {unknown}; choose some of {all_keys}"
            )
        self.reset_out_keys()
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

    def reset_parameters_recursive(self, parameters: TensorDictBase | None = None) -> TensorDictBase | None:
        """Draw all parameters anew: call ``reset_parameters`` of every module inside that has it.

        Args:
            parameters: a collection of the form of ``TensorDict.from_module(self)``. When given, these are drawn anew,
                in place, and returned, and the module's own stay as they are.

        Raises:
            RuntimeError: the shapes in ``parameters`` are not those of the module.
        """
        if parameters is not None:
            _same_shapes(self, parameters)
            with parameters.to_module(self, preserve_module_state=False):
                _reset(self)
            return parameters
        if not _reset(self):
            warnings.warn(
                "reset_parameters_recursive was called without the parameters argument and did not find any parameters "
                "to reset: no module inside has a method reset_parameters",
                stacklevel=2,
            )
        return None

    def __repr__(self) -> str:
        fields = {name: repr(child) for name, child in self.named_children()} | self._fields()
        body = ",\n".join(f"{name}={text}" for name, text in fields.items())
        return f"{type(self).__name__}(\n    {body.replace(chr(10), chr(10) + '    ')})"

    def _fields(self) -> dict[str, str]:
        """What stands in the repr behind the modules inside."""
        return {name: repr(getattr(self, name, None)) for name in ("in_keys", "out_keys")}


def _drop(keys: list[NestedKey], module: nn.Module, args: Any, output: Any) -> Any:
    return output.exclude(*keys, inplace=True) if isinstance(output, TensorDictBase) else output


def _reset(module: nn.Module) -> bool:
    """Whether there was anything to draw anew."""
    found = False
    for part in module.modules():
        if "reset_parameters" in part.__dict__ or hasattr(
            type(part), "reset_parameters"
        ):  # and none of what it wraps
            part.reset_parameters()
            found = True
    return found


def _same_shapes(module: nn.Module, parameters: TensorDictBase) -> None:
    for key, value in TensorDict.from_module(module).items(True, True):
        given = parameters.get(key)
        if given is None or given.shape != value.shape:
            raise RuntimeError(
                f"reset_parameters_recursive: entry {key!r} must have the shape {tuple(value.shape)} of the module's "
                f"parameter, got {None if given is None else tuple(given.shape)}"
            )


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
        inplace: write into the collection that came in and return it. If not, return a new ``TensorDict`` of batch size
            ``[]`` that holds the outputs alone; with ``"empty"``, one of the kind, batch size and device that came in.
        method: call this method of the module instead.
        method_kwargs: further keywords, the same at every call.
        strict: refuse an input without one of the entries; if not, ``None`` is passed for it.
        get_kwargs: keywords for ``get``, by which entries are then read (such as ``as_padded_tensor=True``).

    What else is asked of it, the module answers: ``tdmodule.weight`` is ``tdmodule.module.weight``. It can also be
    called with the tensors themselves, by position or by keyword (the levels of a nested key joined by ``_``); the
    outputs then come back as tensors.

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
        inplace: bool | Literal["empty"] = True,
        method: str | None = None,
        method_kwargs: Mapping[str, Any] | None = None,
        strict: bool = True,
        get_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        _check_module(module, method)
        if out_to_in_map is not None and not isinstance(in_keys, Mapping):
            warnings.warn(
                "TensorDictModule: out_to_in_map is not None but is only used when in_key is a dictionary. "
                "Leave it out, or give a dict of in_keys",
                stacklevel=2,
            )
        self.module = module
        self.method = method
        self.method_kwargs = dict(method_kwargs or {})
        self.strict = strict
        self.get_kwargs = dict(get_kwargs or {})
        self._keywords: tuple[str, ...] | None = None
        if isinstance(in_keys, Mapping):
            keywords, keys = (
                (in_keys.keys(), in_keys.values()) if out_to_in_map else (in_keys.values(), in_keys)
            )
            self._keywords, in_keys = tuple(keywords), list(keys)
        self.in_keys = in_keys
        self.out_keys = out_keys
        if DROPPED in self._in_keys:
            warnings.warn(
                'TensorDictModule: the key "_" in in_keys is read like any other; in out_keys it drops an output',
                stacklevel=2,
            )
        self._targets = self._out_keys
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

    @property
    def device(self) -> torch.device:
        """Where the first parameter lies; the CPU when there is none."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @property
    def is_functional(self) -> bool:
        """Whether the module takes its parameters as an argument, see make_functional."""
        return "_functional" in self.__dict__ or "_functional" in getattr(self.module, "__dict__", {})

    def _select(self) -> None:
        kept = self.out_keys
        self._targets = [key if key in kept else DROPPED for key in self.out_keys_source]

    @property
    def out_keys(self) -> list[NestedKey]:
        """The entries that are written; may be set."""
        return self._out_keys

    @out_keys.setter
    def out_keys(self, keys: NestedKey | Iterable[NestedKey]) -> None:
        self._out_keys = as_keys(keys, "out_keys")
        if "_unselected" not in self.__dict__:
            self._targets = self._out_keys

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
        in_keys = self.in_keys
        if settings.skip_existing and is_done(tensordict, in_keys, self.out_keys):
            return tensordict
        inputs = (
            read(self, tensordict, in_keys) if self.strict and not self.get_kwargs else self._get(tensordict)
        )
        if self._keywords is not None:
            kwargs.update(zip(self._keywords, inputs, strict=True))
            inputs = []
        if self.method is None:
            output = self.module(*inputs, *args, **self.method_kwargs, **kwargs)
        else:
            output = getattr(self.module, self.method)(*inputs, *args, **self.method_kwargs, **kwargs)
        if tensordict_out is None:
            tensordict_out = tensordict if self.inplace is True else new_output(self.inplace, tensordict)
        for key, value in zip(self._targets, self._outputs(output), strict=True):
            if key != DROPPED:
                tensordict_out.set(key, value)
        return tensordict_out

    def _get(self, tensordict: TensorDictBase) -> list[Any]:
        """The inputs, with ``None`` for what is missing unless ``strict``."""
        there = [key in tensordict for key in self.in_keys]
        if self.strict and not all(there):
            return read(self, tensordict, self.in_keys)
        return [
            shown(tensordict.get(key, **self.get_kwargs)) if found else None
            for key, found in zip(self.in_keys, there, strict=True)
        ]

    def _outputs(self, output: Any) -> Sequence[Any]:
        """What the module returned, one value for each of its targets."""
        if isinstance(output, Tensor):  # what comes most, and cheaper to tell than a mapping
            output = (output,)
        elif isinstance(output, (Mapping, TensorDictBase)):
            if (
                len(self._targets) == 1
                and isinstance(output, TensorDictBase)
                and self._targets[0] not in output
            ):
                return (output,)
            return [output[key] if key in output else self._lacks(key, output) for key in self._targets]
        elif output is None and not self._targets:
            output = ()
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

    def _fields(self) -> dict[str, str]:
        own = {} if isinstance(self.module, nn.Module) else {"module": repr(self.module)}
        return own | super()._fields()


def new_output(inplace: bool | str | None, tensordict: TensorDictBase) -> TensorDictBase:
    """Where a module writes that doesn't write into its input."""
    return tensordict.empty() if inplace == "empty" else TensorDict()


def _check_module(module: Any, method: str | None) -> None:
    if isinstance(module, type) or not callable(module if method is None else getattr(module, method, None)):
        what = "is not callable" if method is None else f"must have a method {method!r}"
        mend = "; give an instance of it" if isinstance(module, type) else ""
        raise ValueError(
            f"TensorDictModule: Module {module if isinstance(module, type) else type(module).__name__} {what}{mend}"
        )
