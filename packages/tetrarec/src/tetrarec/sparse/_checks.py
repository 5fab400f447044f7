"""What can be told about a jagged batch without reading its values."""

from collections.abc import Sequence
from difflib import get_close_matches

import torch
from torch import Tensor

INTEGERS = frozenset({torch.int32, torch.int64})


def check_jagged(
    where: str, values: Tensor, weights: Tensor | None, lengths: Tensor | None, offsets: Tensor | None
) -> None:
    """Check the tensors of a jagged batch against each other: kinds, shapes, dtypes.

    Raises:
        ValueError: naming the field, what was expected and what came.
    """
    if values.ndim < 1:
        raise ValueError(f"{where}: values must be [N, ...], got a scalar; pass values.reshape(1)")
    if weights is not None and (weights.ndim < 1 or weights.shape[0] != values.shape[0]):
        raise ValueError(
            f"{where}: weights must hold one for each of the {values.shape[0]} values, got {tuple(weights.shape)}"
        )
    if lengths is None and offsets is None:
        raise ValueError(f"{where}: needs lengths or offsets, got neither")
    for name, tensor in (("lengths", lengths), ("offsets", offsets)):
        if tensor is None:
            continue
        if tensor.ndim != 1:
            raise ValueError(
                f"{where}: {name} must be 1-D, got {tuple(tensor.shape)}; pass {name}.reshape(-1)"
            )
        if tensor.dtype not in INTEGERS:
            raise ValueError(f"{where}: {name} must be int32 or int64, got {tensor.dtype}")
        if tensor.device != values.device:
            raise ValueError(f"{where}: {name} must lie on {values.device} as values do, got {tensor.device}")
    if offsets is not None and offsets.shape[0] == 0:
        raise ValueError(f"{where}: offsets must hold one more item than there are bags, got none")
    if lengths is not None and offsets is not None and offsets.shape[0] != lengths.shape[0] + 1:
        raise ValueError(
            f"{where}: offsets must hold one more item than lengths, "
            f"got {offsets.shape[0]} offsets for {lengths.shape[0]} lengths"
        )


def as_counts(tensor: Tensor | None) -> Tensor | None:
    """Lengths or offsets; an empty ``torch.tensor([])``, which torch makes a float, as int64."""
    if tensor is not None and tensor.numel() == 0 and tensor.is_floating_point():
        return tensor.long()
    return tensor


def check_bags(
    where: str, keys: Sequence[str], bags: int, stride: int | None, strides: Sequence[int] | None
) -> int:
    """The batch size, from the number of bags; checked against the stride or strides where they are given.

    Raises:
        ValueError: the bags don't divide among the keys.
    """
    if strides is not None:
        if len(strides) != len(keys) or min(strides, default=0) < 0:
            raise ValueError(
                f"{where}: stride_per_key must hold one size for each of {len(keys)} keys, got {strides}"
            )
        if sum(strides) != bags:
            raise ValueError(
                f"{where}: lengths must hold {sum(strides)} items, the sum of stride_per_key {list(strides)}, got {bags}"
            )
        return max(strides, default=0)
    if stride is not None:
        if bags != stride * len(keys):
            raise ValueError(
                f"{where}: lengths must hold keys x stride = {len(keys)} x {stride} items, got {bags}"
            )
        return stride
    if not keys:
        if bags:
            raise ValueError(f"{where}: lengths must be empty without keys, got {bags} items")
        return 0
    if bags % len(keys):
        raise ValueError(
            f"{where}: lengths must hold keys x stride items, a multiple of {len(keys)} for the keys {list(keys)}, "
            f"got {bags}"
        )
    return bags // len(keys)


def check_length_per_key(
    where: str,
    keys: Sequence[str],
    values: int,
    length_per_key: Sequence[int],
    lengths: Tensor | None,
    strides: Sequence[int],
) -> None:
    """Hold a given ``length_per_key`` against the values, and on the CPU against the lengths too.

    Raises:
        ValueError: they contradict each other.
    """
    if len(length_per_key) != len(keys) or sum(length_per_key) != values:
        raise ValueError(
            f"{where}: length_per_key must hold one number for each of {len(keys)} keys, adding up to the {values} "
            f"values, got {list(length_per_key)}"
        )
    if lengths is None or lengths.device.type != "cpu" or torch.compiler.is_compiling():
        return
    found = [int(part.sum()) for part in lengths.split(list(strides))]
    if found != list(length_per_key):
        raise ValueError(
            f"{where}: length_per_key must be the sums of lengths, {found} for the keys {list(keys)}, "
            f"got {list(length_per_key)}; leave it out and it is computed"
        )


def missing_key(where: str, key: object, keys: Sequence[str]) -> KeyError:
    """A KeyError that names the nearest keys there are."""
    near = get_close_matches(str(key), keys, n=3) or list(keys[:5])
    return KeyError(f"{where}: no key {key!r}; nearest of {len(keys)}: {', '.join(map(repr, near))}")
