"""Modules from tensorclass to tensorclass."""

from typing import Any, Generic, TypeVar, get_args, get_type_hints

from torch import Tensor, nn

from tetradict._base import TensorDictBase, is_tensor_collection
from tetradict._protocol import NestedKey
from tetradict.nn._dispatch import with_tensors
from tetradict.nn._module import TensorDictModuleBase

In = TypeVar("In")
Out = TypeVar("Out")


class TensorClassModuleBase(nn.Module, Generic[In, Out]):
    """A module whose ``forward`` takes one tensorclass and gives another, which its type parameters name.

    Example:
        >>> class Add(TensorClassModuleBase[Pair, Sum]):
        ...     def forward(self, x: Pair) -> Sum:
        ...         return Sum(total=x.a + x.b, batch_size=x.batch_size)
    """

    input_type: type
    output_type: type

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in cls.__dict__.get("__orig_bases__", ()):
            given = get_args(base)
            if len(given) == 2 and not any(isinstance(kind, TypeVar) for kind in given):
                cls.input_type, cls.output_type = given

    def forward(self, x: In) -> Out:
        """From input to output; the subclass says how."""
        raise TypeError(f"{type(self).__name__} must define forward(self, x)")

    def as_td_module(self) -> "TensorClassModuleWrapper":
        """The module on collections: it reads the fields of the input type and writes those of the output type.

        Raises:
            ValueError: one of the types is no tensorclass.
        """
        return TensorClassModuleWrapper(self)


class TensorClassModuleWrapper(TensorDictModuleBase):
    """A module on tensorclasses that reads and writes collections, see TensorClassModuleBase.as_td_module."""

    def __init__(self, module: TensorClassModuleBase) -> None:
        kinds = getattr(module, "input_type", None), getattr(module, "output_type", None)
        if not all(_is_tensorclass(kind) for kind in kinds):
            raise ValueError(
                "Only TensorClassModuleBase implementations with both input and output type as TensorClass can be "
                f"wrapped, got {kinds[0]} and {kinds[1]}"
            )
        super().__init__()
        self.module = module
        self.input_type, self.output_type = kinds
        self.in_keys, self.out_keys = _keys(kinds[0]), _keys(kinds[1])

    def forward(self, tensordict: TensorDictBase | None = None, *args: Any, **kwargs: Any) -> Any:
        """Read the input, call the module, write its output."""
        if not is_tensor_collection(tensordict):
            return with_tensors(self, tensordict, args, kwargs)
        out = self.module(_build(self.input_type, tensordict))
        return tensordict.update(out.to_tensordict())


def _is_tensorclass(kind: Any) -> bool:
    return isinstance(kind, type) and is_tensor_collection(kind) and hasattr(kind, "__dataclass_fields__")


def _fields(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {name: hints.get(name, Tensor) for name in kind.__dataclass_fields__}


def _keys(kind: type) -> list[NestedKey]:
    keys: list[NestedKey] = []
    for name, hint in _fields(kind).items():
        if _is_tensorclass(hint):
            keys += [(name, *([key] if isinstance(key, str) else key)) for key in _keys(hint)]
        else:
            keys.append(name)
    return keys


def _build(kind: type, tensordict: TensorDictBase) -> Any:
    """A tensorclass of the entries of a collection."""
    values = {}
    for name, hint in _fields(kind).items():
        if name in tensordict:
            value = tensordict[name]
            values[name] = (
                _build(hint, value) if _is_tensorclass(hint) and not isinstance(value, hint) else value
            )
    return kind(**values, batch_size=tensordict.batch_size)
