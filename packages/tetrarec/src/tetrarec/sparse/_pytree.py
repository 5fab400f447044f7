"""The containers as pytrees: tensors are leaves, names and sizes the structure."""

from collections.abc import Callable
from typing import Any

from tetrarec._torch_compat import GetAttrKey, register_pytree_node
from tetrarec.sparse._jagged import JaggedTensor
from tetrarec.sparse._keyed import KeyedTensor
from tetrarec.sparse._keyed_jagged import KeyedJaggedTensor
from tetrarec.sparse._make import make

Flat = tuple[list[Any], Any]


def _flatten_jagged(jagged: JaggedTensor) -> Flat:
    return [
        jagged.values(),
        jagged.weights_or_none(),
        jagged.lengths_or_none(),
        jagged.offsets_or_none(),
    ], None


def _unflatten_jagged(parts: list[Any], _: None) -> JaggedTensor:
    values, weights, lengths, offsets = parts
    return make(JaggedTensor, values=values, weights=weights, lengths=lengths, offsets=offsets)


def _flatten_keyed_jagged(batch: KeyedJaggedTensor) -> Flat:
    inverse = batch.inverse_indices_or_none()
    parts = [
        batch.values(),
        batch.weights_or_none(),
        batch.lengths_or_none(),
        batch.offsets_or_none(),
        None if inverse is None else inverse[1],
    ]
    strides = batch.stride_per_key_per_rank() if batch.variable_stride_per_key() else None
    return parts, (batch.keys(), strides, None if inverse is None else inverse[0])


def _unflatten_keyed_jagged(parts: list[Any], context: Any) -> KeyedJaggedTensor:
    values, weights, lengths, offsets, places = parts
    keys, strides, names = context
    stride = None
    if (
        strides is not None
    ):  # without strides of their own, the batch size is found from the lengths when asked for
        stride = max((sum(ranks) for ranks in strides), default=0)
    inverse = None if names is None else (names, places)
    if inverse is not None and hasattr(places, "shape"):
        stride = places.shape[1]
    return make(
        KeyedJaggedTensor,
        keys=keys,
        values=values,
        weights=weights,
        lengths=lengths,
        offsets=offsets,
        stride=stride,
        strides=strides,
        inverse=inverse,
    )


def _flatten_keyed(keyed: KeyedTensor) -> Flat:
    return [keyed.values()], (keyed.keys(), keyed.length_per_key(), keyed.key_dim())


def _unflatten_keyed(parts: list[Any], context: Any) -> KeyedTensor:
    keys, length_per_key, key_dim = context
    return make(KeyedTensor, keys=keys, length_per_key=length_per_key, values=parts[0], key_dim=key_dim)


def _register(
    kind: type, names: list[str], flatten: Callable[[Any], Flat], unflatten: Callable[..., Any]
) -> None:
    def with_keys(container: Any) -> tuple[list[tuple[GetAttrKey, Any]], Any]:
        parts, context = flatten(container)
        return list(zip(map(GetAttrKey, names), parts, strict=True)), context

    register_pytree_node(
        kind,
        flatten,
        unflatten,
        serialized_type_name=f"tetrarec.sparse.{kind.__name__}",
        flatten_with_keys_fn=with_keys,
    )


_PARTS = ["values", "weights", "lengths", "offsets"]
_register(JaggedTensor, _PARTS, _flatten_jagged, _unflatten_jagged)
_register(KeyedJaggedTensor, [*_PARTS, "inverse_indices"], _flatten_keyed_jagged, _unflatten_keyed_jagged)
_register(KeyedTensor, ["values"], _flatten_keyed, _unflatten_keyed)
