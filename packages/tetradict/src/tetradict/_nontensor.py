"""Entries that are no tensors: one value for the whole batch, or one value for each of its items."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Size, Tensor


class NonTensorLeaf:
    """What the verbs ask of a leaf that is no tensor. A leaf never changes: a write puts another in its place."""

    __slots__ = ()
    batch_size: Size

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function not in {torch.stack, torch.cat}:
            return NotImplemented
        return _joined(function, *args, **(kwargs or {}))

    def tolist(self) -> Any:
        """The value, or nested lists of values in the form of the batch."""
        raise TypeError(f"{type(self).__name__} is no complete leaf: it lacks tolist")

    def _value(self) -> Any:
        """What ``td[key]`` shows."""
        raise TypeError(f"{type(self).__name__} is no complete leaf: it lacks _value")

    def _map(self, verb: Callable[[Tensor], Tensor], batch_size: Size) -> "NonTensorLeaf":
        """The leaf after a verb on the batch dimensions that takes a tensor to a tensor."""
        raise TypeError(f"{type(self).__name__} is no complete leaf: it lacks _map")

    def _cut(
        self, verb: Callable[[Tensor], Sequence[Tensor]], sizes: Sequence[Size]
    ) -> list["NonTensorLeaf"]:
        """The leaves after a verb that takes a tensor to several, of these batch sizes."""
        raise TypeError(f"{type(self).__name__} is no complete leaf: it lacks _cut")

    def _rows(self) -> "NonTensorStack":
        """The same with one value an item."""
        raise TypeError(f"{type(self).__name__} is no complete leaf: it lacks _rows")

    def _with(self, idx: Any, value: Any) -> "NonTensorLeaf":
        """The leaf with ``value``, or the values of another leaf, for the items at ``idx``."""
        other = value if isinstance(value, NonTensorLeaf) else NonTensorData(value)
        if (
            isinstance(self, NonTensorData)
            and isinstance(other, NonTensorData)
            and _same(self.data, other.data)
        ):
            return self
        mine, theirs = self._rows(), other._rows()
        index = mine._index.clone()
        index[idx] = theirs._index + len(mine._values)
        new = NonTensorStack._of(mine._values + theirs._values, index)
        return self if _same(new.tolist(), self.tolist()) else new


class NonTensorData(NonTensorLeaf):
    """One value that is no tensor, carried beside tensors and the same for the whole batch.

    Args:
        data: any object; it is kept, not copied.
        batch_size: the batch it stands for. A collection gives it its own when it takes it in.

    Example:
        >>> td = TensorDict({"x": torch.zeros(3), "source": "camera 2"}, [3])
        >>> td["source"]
        'camera 2'
        >>> td[0].get("source")
        NonTensorData(data='camera 2', batch_size=torch.Size([]))
    """

    __slots__ = ("batch_size", "data")

    def __init__(self, data: Any, batch_size: Sequence[int] = ()) -> None:
        self.data = data
        self.batch_size = batch_size if type(batch_size) is Size else Size(batch_size)

    def tolist(self) -> Any:
        """The value, or nested lists of it in the form of the batch."""
        return _nest([self.data] * self.batch_size.numel(), self.batch_size)

    def _value(self) -> Any:
        return self.data

    def _map(self, verb: Callable[[Tensor], Tensor], batch_size: Size) -> "NonTensorData":
        return type(self)(self.data, batch_size)

    def _cut(self, verb: Callable[[Tensor], Sequence[Tensor]], sizes: Sequence[Size]) -> list[NonTensorLeaf]:
        return [type(self)(self.data, size) for size in sizes]

    def _rows(self) -> "NonTensorStack":
        return NonTensorStack._of([self.data], torch.zeros(self.batch_size, dtype=torch.int64))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NonTensorData):
            return self.batch_size == other.batch_size and _same(self.data, other.data)
        return NotImplemented

    __hash__ = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(data={self.data!r}, batch_size={self.batch_size})"


class NonTensorStack(NonTensorLeaf):
    """Values that are no tensors, one for each item of the batch.

    It is a list of values and an int64 tensor in the form of the batch that points into it, so that whatever
    moves, cuts or joins batch dimensions works on the pointers alone, and views share them.

    Args:
        values: one value an item of a batch of one dimension. For more dimensions, see :meth:`from_list`.

    Example:
        >>> td = TensorDict({"x": torch.zeros(2), "name": NonTensorStack("a", "b")}, [2])
        >>> td["name"], td[1]["name"]
        (['a', 'b'], 'b')
    """

    __slots__ = ("_index", "_values")

    def __init__(self, *values: Any) -> None:
        self._values = [value.data if isinstance(value, NonTensorData) else value for value in values]
        self._index = torch.arange(len(values))

    @classmethod
    def _of(cls, values: list[Any], index: Tensor) -> "NonTensorStack":
        self = object.__new__(cls)
        self._values = values
        self._index = index
        return self

    @classmethod
    def from_list(cls, values: Sequence[Any], batch_dims: int = 1) -> "NonTensorStack":
        """One value an item, from lists nested ``batch_dims`` deep.

        Raises:
            ValueError: lists of one depth differ in length.
        """
        size: list[int] = []
        flat: list[Any] = [values]
        for _ in range(batch_dims):
            lengths = {len(part) for part in flat}
            if len(lengths) > 1:
                raise ValueError(
                    f"NonTensorStack.from_list: lists at depth {len(size)} must have one length, "
                    f"got {sorted(lengths)}"
                )
            size.append(lengths.pop() if lengths else 0)
            flat = [item for part in flat for item in part]
        return cls._of(flat, torch.arange(len(flat)).view(size))

    @property
    def batch_size(self) -> Size:
        """The form of the batch."""
        return self._index.shape

    def tolist(self) -> Any:
        """The values as nested lists in the form of the batch."""
        return _nest(self._flat(), self.batch_size)

    def _flat(self) -> list[Any]:
        """The value of each item, in C order of the batch."""
        return [self._values[i] for i in self._index.flatten().tolist()]

    def _value(self) -> Any:
        return self.tolist()

    def _wrap(self, index: Tensor) -> NonTensorLeaf:
        if index.ndim:
            return self._of(self._values, index)
        return NonTensorData(self._values[int(index)])

    def _map(self, verb: Callable[[Tensor], Tensor], batch_size: Size) -> NonTensorLeaf:
        return self._wrap(verb(self._index))

    def _cut(self, verb: Callable[[Tensor], Sequence[Tensor]], sizes: Sequence[Size]) -> list[NonTensorLeaf]:
        return [self._wrap(part) for part in verb(self._index)]

    def _rows(self) -> "NonTensorStack":
        return self

    def __len__(self) -> int:
        return len(self._index)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NonTensorStack):
            return self.batch_size == other.batch_size and _same(self.tolist(), other.tolist())
        return NotImplemented

    __hash__ = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tolist()!r}, batch_size={self.batch_size})"


def join(
    leaves: Sequence[NonTensorLeaf], verb: Callable[..., Tensor], dim: int, batch_size: Size
) -> NonTensorLeaf:
    """Stack or concatenate leaves: one value when all hold the same one, else one value an item."""
    first = leaves[0]
    if all([isinstance(leaf, NonTensorData) for leaf in leaves]):
        values = [leaf.data for leaf in leaves]
        if all([_same(value, first.data) for value in values]):
            return type(first)(first.data, batch_size)
        index = torch.arange(len(values))
        if verb is torch.cat:
            index = index.repeat_interleave(torch.tensor([leaf.batch_size[dim] for leaf in leaves]))
        index = index.view(*[-1 if at == dim else 1 for at in range(len(batch_size))])
        return NonTensorStack._of(values, index.expand(batch_size))
    values = []
    parts = []
    for leaf in leaves:
        rows = leaf._rows()
        parts.append(rows._index + len(values))
        values += rows._values
    return NonTensorStack._of(values, verb(parts, dim))


def _joined(verb: Callable[..., Tensor], leaves: Sequence[NonTensorLeaf], dim: int = 0) -> NonTensorLeaf:
    """``torch.stack`` and ``torch.cat`` of leaves by themselves."""
    for leaf in leaves:
        if not isinstance(leaf, NonTensorLeaf):
            raise TypeError(f"{verb.__name__}: expected non-tensor values only, got a {type(leaf).__name__}")
    sizes = [leaf.batch_size for leaf in leaves]
    meta = [torch.empty(size, device="meta") for size in sizes]  # torch knows the sizes that go together
    size = verb(meta, dim).shape
    return join(leaves, verb, dim % len(size), size)


def flat_values(stack: NonTensorStack) -> list[Any]:
    """The value of each item, in C order of the batch."""
    return stack._flat()


def stack_of(values: list[Any], size: Sequence[int]) -> NonTensorStack:
    """One value an item of a batch of ``size``, from values in C order."""
    return NonTensorStack._of(values, torch.arange(len(values)).view(*size))


def equal(left: NonTensorLeaf, right: Any, batch_size: Size) -> Tensor:
    """For each item of the batch, whether two leaves hold the same value."""
    if not isinstance(right, NonTensorLeaf) or left.batch_size != right.batch_size:
        return torch.zeros(batch_size, dtype=torch.bool)
    if isinstance(left, NonTensorData) and isinstance(right, NonTensorData):
        return torch.full(left.batch_size, _same(left.data, right.data), dtype=torch.bool)
    mine, theirs = left._rows(), right._rows()
    pairs = zip(mine._index.flatten().tolist(), theirs._index.flatten().tolist(), strict=True)
    same = [_same(mine._values[i], theirs._values[j]) for i, j in pairs]
    return torch.tensor(same, dtype=torch.bool).view(left.batch_size)


def _nest(flat: list[Any], size: Sequence[int]) -> Any:
    """``flat`` as lists nested in the form ``size``."""
    if not size:
        return flat[0]
    step = len(flat) // size[0] if size[0] else 0
    return [_nest(flat[i * step : (i + 1) * step], size[1:]) for i in range(size[0])]


def _same(left: Any, right: Any) -> bool:
    """Whether two values count as one; values that cannot be compared count as different."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    try:
        return bool(left == right)
    except (RuntimeError, TypeError, ValueError):  # arrays and their kin have no single truth value
        return False
