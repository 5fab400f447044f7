"""Dense features side by side, by key."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tetrarec.sparse._checks import missing_key
from tetrarec.sparse._make import make
from tetrarec.sparse._regroup import regroup


class KeyedTensor:
    """Several dense features in one tensor, side by side along one dimension.

    Args:
        keys: the features' names.
        length_per_key: the width of each.
        values: ``[B, sum of widths]``; with ``key_dim``, the sum stands in that dimension.
        key_dim: the dimension that the features share.

    Raises:
        ValueError: widths that don't add up to that dimension.

    Example:
        >>> pooled = KeyedTensor(["user", "film"], [1, 2], torch.tensor([[1.0, 2.0, 3.0]]))
        >>> pooled["film"]
        tensor([[2., 3.]])
        >>> KeyedTensor.regroup([pooled], [["film"], ["film", "user"]])[1]
        tensor([[2., 3., 1.]])
    """

    _key_dim: int = 1

    def __init__(
        self, keys: Sequence[str], length_per_key: Sequence[int], values: Tensor, key_dim: int = 1
    ) -> None:
        if len(keys) != len(length_per_key):
            raise ValueError(
                f"KeyedTensor: length_per_key must hold one width for each of {len(keys)} keys, "
                f"got {list(length_per_key)}"
            )
        if not -values.ndim <= key_dim < values.ndim:
            raise ValueError(
                f"KeyedTensor: key_dim must be a dimension of {tuple(values.shape)}, got {key_dim}"
            )
        if sum(length_per_key) != values.shape[key_dim]:
            raise ValueError(
                f"KeyedTensor: length_per_key must add up to {values.shape[key_dim]}, dimension {key_dim} of "
                f"values, got {list(length_per_key)}"
            )
        self._keys = list(keys)
        self._length_per_key = list(length_per_key)
        self._values = values
        self._key_dim = key_dim

    @staticmethod
    def from_tensor_list(
        keys: Sequence[str], tensors: Sequence[Tensor], key_dim: int = 1, cat_dim: int = 1
    ) -> "KeyedTensor":
        """Put tensors side by side along ``cat_dim``; ``key_dim`` is where their widths stand."""
        widths = [tensor.shape[key_dim] for tensor in tensors]
        return KeyedTensor(keys, widths, torch.cat(list(tensors), dim=cat_dim), key_dim)

    @staticmethod
    def regroup(keyed_tensors: Sequence["KeyedTensor"], groups: Sequence[Sequence[str]]) -> list[Tensor]:
        """A tensor for each group of keys, side by side in the group's order; differentiable.

        A key may stand in several groups, or in none.

        Raises:
            KeyError: a key that no tensor has.
            ValueError: a key that several tensors have.
        """
        return regroup(keyed_tensors, groups)

    @staticmethod
    def regroup_as_dict(
        keyed_tensors: Sequence["KeyedTensor"], groups: Sequence[Sequence[str]], keys: Sequence[str]
    ) -> dict[str, Tensor]:
        """:meth:`regroup`, with a name for each group.

        Raises:
            ValueError: as many names as groups are wanted.
        """
        if len(groups) != len(keys):
            raise ValueError(
                f"KeyedTensor.regroup_as_dict: keys must name each of {len(groups)} groups, got {list(keys)}"
            )
        return dict(zip(keys, regroup(keyed_tensors, groups), strict=True))

    def keys(self) -> list[str]:
        """The features' names, in order."""
        return self._keys

    def values(self) -> Tensor:
        """All features side by side."""
        return self._values

    def key_dim(self) -> int:
        """The dimension that the features share."""
        return self._key_dim

    def length_per_key(self) -> list[int]:
        """The width of each feature."""
        return self._length_per_key

    def offset_per_key(self) -> list[int]:
        """Where each feature begins, then the whole width."""
        sums = [0]
        for width in self._length_per_key:
            sums.append(sums[-1] + width)
        return sums

    def to_dict(self) -> dict[str, Tensor]:
        """Each feature, as views."""
        return dict(zip(self._keys, self._values.split(self._length_per_key, dim=self._key_dim), strict=True))

    def device(self) -> torch.device:
        """Where the values lie."""
        return self._values.device

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "KeyedTensor":
        """The same features on another device."""
        moved = self._values.to(device, non_blocking=non_blocking)
        return make(
            KeyedTensor,
            keys=self._keys,
            length_per_key=self._length_per_key,
            values=moved,
            key_dim=self._key_dim,
        )

    def record_stream(self, stream: torch.Stream) -> None:
        """Tell the allocator that ``stream`` uses the values."""
        self._values.record_stream(stream)

    def size_in_bytes(self) -> int:
        """Bytes of the values."""
        return self._values.nbytes

    def __getitem__(self, key: str) -> Tensor:
        """One feature, as a view.

        Raises:
            KeyError: no such key, naming the nearest.
        """
        if key not in self._keys:
            raise missing_key("KeyedTensor", key, self._keys)
        place = self._keys.index(key)
        return self._values.narrow(
            self._key_dim, sum(self._length_per_key[:place]), self._length_per_key[place]
        )

    def __repr__(self) -> str:
        if not isinstance(self._values, Tensor):
            return f"KeyedTensor(values={self._values!r})"
        widths = ", ".join(
            f"{key}: {width}" for key, width in zip(self._keys, self._length_per_key, strict=True)
        )
        shape = tuple(self._values.shape)
        return f"KeyedTensor({{{widths}}}, values={shape} {self._values.dtype} on {self._values.device})"
