"""Arithmetic and comparison over all leaves at once, made from the tables at the end."""

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from tetradict._entries import missing
from tetradict._nontensor import NonTensorLeaf, equal
from tetradict._protocol import Container
from tetradict._torch_compat import foreach

C = TypeVar("C", bound=Container)


def paired(td: Container, other: Container) -> list[Tensor]:
    """The tensors of ``other`` in the order of those of ``td``.

    Raises:
        KeyError: the two have not the same entries.
    """
    out: list[Tensor] = []
    mine, theirs = td._entries(), other._entries()
    for key, value in mine.items():
        if isinstance(value, NonTensorLeaf):
            continue
        beside = theirs.get(key)
        if beside is None:
            missing(other, key)
        if isinstance(value, Tensor):
            out.append(beside)
        else:
            out += paired(value, beside)
    if len(theirs) > len(mine):
        missing(td, next(key for key in theirs if key not in mine))
    return out


def wide(td: Container, leaf: Tensor, other: Tensor) -> Tensor:
    """``other``, which goes with the batch dimensions of ``td``, in a form that goes with ``leaf``."""
    if other.ndim == 0:
        return other
    other = other.expand(td.batch_size)
    return other.reshape(other.shape + (1,) * (leaf.ndim - other.ndim))


def operand(td: Container, leaves: list[Tensor], other: Any) -> Any:
    """The other side of an operator: a number, or one tensor a leaf."""
    if isinstance(other, Container):
        return paired(td, other)
    if isinstance(other, Tensor):
        return [wide(td, leaf, other) for leaf in leaves]
    if isinstance(other, int | float | complex):
        return other
    raise TypeError(
        f"arithmetic on a collection takes a number, a tensor or a collection, got {type(other).__name__}"
    )


def _binary(name: str) -> Callable[..., Any]:
    each = foreach(name)

    def verb(td: Any, other: Any) -> Any:
        leaves = td._leaves()
        if not leaves:
            return td._rebuild(iter(()))
        return td._rebuild(iter(each(leaves, operand(td, leaves, other))))

    return _named(
        verb,
        name,
        f"``{name}`` of each tensor and ``other``: a number, a batch-shaped tensor or a collection.",
    )


def _binary_(name: str) -> Callable[..., Any]:
    each = foreach(name + "_")

    def verb(td: Any, other: Any) -> Any:
        leaves = td._leaves()
        if leaves:
            each(leaves, operand(td, leaves, other))
        return td

    return _named(verb, name + "_", f"``{name}`` written into each tensor; see ``{name}``.")


def _unary(name: str) -> Callable[..., Any]:
    each = foreach(name)

    def verb(td: Any) -> Any:
        leaves = td._leaves()
        return td._rebuild(iter(each(leaves) if leaves else ()))

    return _named(verb, name, f"``{name}`` of each tensor.")


def _unary_(name: str) -> Callable[..., Any]:
    each = foreach(name + "_")

    def verb(td: Any) -> Any:
        leaves = td._leaves()
        if leaves:
            each(leaves)
        return td

    return _named(verb, name + "_", f"``{name}`` written into each tensor.")


def _plain(name: str, function: Callable[..., Tensor]) -> Callable[..., Any]:
    """An operator that torch has no list form of."""

    def verb(td: Any, other: Any) -> Any:
        leaves = td._leaves()
        right = operand(td, leaves, other)
        if not isinstance(right, list):
            right = [right] * len(leaves)
        return td._rebuild(map(function, leaves, right))

    return _named(
        verb,
        name,
        f"``{name}`` of each tensor and ``other``: a number, a batch-shaped tensor or a collection.",
    )


def _named(verb: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    verb.__name__ = verb.__qualname__ = name
    verb.__doc__ = doc
    return verb


def swapped(name: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """``other op td``."""

    def verb(td: Any, other: Any) -> Any:
        leaves = td._leaves()
        right = operand(td, leaves, other)
        if not isinstance(right, list):
            right = [right] * len(leaves)
        return td._rebuild(map(function, right, leaves))

    return _named(verb, name, f"``{name}`` from the left.")


def _compare(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A comparison: a collection of bools."""

    def verb(td: Any, other: Any) -> Any:
        if not isinstance(other, Container | Tensor | int | float | complex):
            return NotImplemented
        return _compared(td, other, function)

    return _named(verb, name, f"``{name}`` of each entry and ``other``, as a collection of bools.")


def _compared(td: Any, other: Any, function: Callable[..., Any]) -> Any:
    theirs = other._entries() if isinstance(other, Container) else None
    if theirs is not None and theirs.keys() != td._keys():
        odd = sorted(theirs.keys() ^ td._keys())
        raise KeyError(f"comparison: both collections must have the same entries; only one has {odd}")
    out: dict[str, Any] = {}
    for key, value in td._entries().items():
        beside = other if theirs is None else theirs[key]
        if isinstance(value, Container):
            out[key] = _compared(value, beside, function)
        elif not isinstance(value, Tensor):
            if theirs is not None and function in {operator.eq, operator.ne}:
                same = equal(value, beside, td.batch_size).to(td.device)
                out[key] = same if function is operator.eq else ~same
        else:
            out[key] = function(
                value, wide(td, value, beside) if theirs is None and isinstance(beside, Tensor) else beside
            )
    return td._like(out, td.batch_size, td._names)


BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_max", "clamp_min")
UNARY = (
    *(
        "abs",
        "acos",
        "asin",
        "atan",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "expm1",
        "floor",
        "frac",
        "lgamma",
    ),
    *(
        "log",
        "log10",
        "log1p",
        "log2",
        "neg",
        "reciprocal",
        "round",
        "rsqrt",
        "sigmoid",
        "sign",
        "sin",
        "sinh",
    ),
    *("sqrt", "tan", "tanh", "trunc"),
)
OPERATORS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "pow": "pow",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "floordiv": "floor_divide",
    "mod": "remainder",
}
"""Python's names and torch's."""
MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""Comparisons, and what they are from the other side."""


def _table() -> dict[str, Callable[..., Any]]:
    """Every method of this module under its name."""
    out: dict[str, Callable[..., Any]] = {}
    for name in BINARY:
        out[name], out[name + "_"] = _binary(name), _binary_(name)
    for name in UNARY:
        out[name], out[name + "_"] = _unary(name), _unary_(name)
    for symbol, name in OPERATORS.items():
        function = getattr(operator, f"__{symbol}__")
        out[f"__{symbol}__"] = out[name] if name in BINARY else _plain(f"__{symbol}__", function)
        if name in BINARY:
            out[f"__i{symbol}__"] = out[name + "_"]
        out[f"__r{symbol}__"] = swapped(f"__r{symbol}__", function)
    for name in MIRRORED:
        out[f"__{name}__"] = _compare(f"__{name}__", getattr(operator, name))
    out["__neg__"], out["__abs__"] = out["neg"], out["abs"]
    out["__invert__"] = _inverted
    return out


def _inverted(td: Any) -> Any:
    """Bitwise not of each tensor."""
    return td._rebuild(map(torch.bitwise_not, td._leaves()))


VERBS = _table()
