"""How jagged batches print."""

from itertools import pairwise
from typing import Any

from torch import Tensor

MOST_BAGS = 8
MOST_VALUES = 8


def jagged_text(jagged: Any) -> str:
    """A JaggedTensor on one line: its first bags, or its shape where values can't be read."""
    values, name = jagged.values(), type(jagged).__name__
    if not _readable(values):
        return f"{name}({_shape(values)}, {len(jagged)} bags)"
    shown = _bags(values, jagged.offsets(), 0, len(jagged))
    weights = jagged.weights_or_none()
    tail = "" if weights is None else f", weights={_bags(weights, jagged.offsets(), 0, len(jagged))}"
    return f"{name}({shown}{tail})"


def keyed_jagged_text(batch: Any) -> str:
    """A KeyedJaggedTensor, a key a line."""
    values, name = batch.values(), type(batch).__name__
    if not isinstance(values, Tensor):  # a tree_map put something else there
        return f"{name}({batch.keys()}, values={values!r})"
    sizes = batch.stride_per_key()
    if not _readable(values):
        keys = ", ".join(f"{key}: {size} bags" for key, size in zip(batch.keys(), sizes, strict=True))
        return f"{name}({_shape(values)}; {keys})"
    lines, first, sep = [], 0, ",\n"
    for key, size in zip(batch.keys(), sizes, strict=True):
        line = f'    "{key}": {_bags(values, batch.offsets(), first, size)}'
        if batch.weights_or_none() is not None:
            line += f", weights {_bags(batch.weights(), batch.offsets(), first, size)}"
        lines.append(line)
        first += size
    return f"{name}({{\n{sep.join(lines)}\n}})" if lines else f"{name}({{}})"


def _readable(values: Any) -> bool:
    return isinstance(values, Tensor) and values.device.type != "meta" and "Fake" not in type(values).__name__


def _shape(values: Any) -> str:
    if not isinstance(values, Tensor):
        return f"values={values!r}"
    return f"values={tuple(values.shape)} {values.dtype} on {values.device}"


def _bags(values: Tensor, offsets: Tensor, first: int, count: int) -> str:
    bounds = offsets[first : first + min(count, MOST_BAGS) + 1].tolist()
    shown = [_values(values[begin:end]) for begin, end in pairwise(bounds)]
    if count > MOST_BAGS:
        shown.append(f"... {count} bags")
    return f"[{', '.join(shown)}]"


def _values(bag: Tensor) -> str:
    if len(bag) <= MOST_VALUES:
        return str(_round(bag.tolist()))
    return f"{str(_round(bag[:MOST_VALUES].tolist()))[:-1]}, ... {len(bag)} values]"


def _round(value: Any) -> Any:
    if isinstance(value, list):
        return [_round(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
