"""What every test here shares."""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st

from tetradict import NonTensorStack, TensorDict, TensorDictBase

settings.register_profile("ws", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ws")


@pytest.fixture
def device() -> torch.device:
    """Where kernels run: a GPU natively, or the CPU under Triton's interpreter."""
    native = torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"
    return torch.device("cuda" if native else "cpu")


BATCHES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
DTYPES = st.sampled_from([torch.float64, torch.float32, torch.int64, torch.bool])


@st.composite
def nested(draw, batch, depth=2):
    """A nested dict of everything that can be an entry of a collection with this batch size."""
    out = {}
    for key in draw(st.lists(st.sampled_from("abcd"), unique=True, max_size=3)):
        kind = draw(st.sampled_from(["tensor", "tensor", "node", "longer", "value", "values"]))
        if kind == "tensor" or (depth == 0 and kind in {"node", "longer"}):
            shape = (*batch, *draw(st.lists(st.integers(0, 3), max_size=2)))
            out[key] = torch.arange(torch.Size(shape).numel()).view(shape).to(draw(DTYPES))
        elif kind == "node":
            out[key] = draw(nested(batch, depth - 1))
        elif kind == "longer":
            size = (*batch, draw(st.integers(1, 2)))
            out[key] = TensorDict(draw(nested(size, depth - 1)), size)
        elif kind == "value":
            out[key] = draw(st.sampled_from(["text", "other", None]))
        elif batch:
            count = torch.Size(batch).numel()
            rows = NonTensorStack(*[f"{key}{i}" for i in range(count)])
            out[key] = rows._map(lambda index: index.view(batch), torch.Size(batch))
    return out


@st.composite
def tree(draw, batches=BATCHES):
    """A collection of random structure whose elements tell where they came from."""
    batch = draw(batches)
    return TensorDict(draw(nested(batch)), batch)


@pytest.fixture(scope="session")
def trees() -> st.SearchStrategy[TensorDict]:
    """Collections of random structure, of any batch size."""
    return tree()


@pytest.fixture(scope="session")
def trees_of() -> Callable[..., st.SearchStrategy[TensorDict]]:
    """Collections of random structure, of the batch sizes that a strategy gives."""
    return tree


class Other(TensorDictBase):
    """A second kind of storage, of the protocol alone: what it lacks, no verb may ask for."""

    __slots__ = ("_device", "_lock", "_names", "_pairs", "_size")

    def __init__(self, pairs, size, device=None, names=None):
        self._pairs, self._size, self._device, self._names, self._lock = pairs, size, device, names, None

    @classmethod
    def of(cls, td):
        """The same entries in this storage."""
        pairs = [(k, cls.of(v) if isinstance(v, TensorDictBase) else v) for k, v in td.items()]
        return cls(pairs, td.batch_size, td.device, None if td.names == [None] * td.ndim else td.names)

    @property
    def batch_size(self):
        return self._size

    @batch_size.setter
    def batch_size(self, size):
        TensorDictBase.batch_size.fset(self, size)

    @property
    def device(self):
        return self._device

    def _keys(self):
        return dict(self._pairs).keys()

    def _get1(self, key):
        return dict(self._pairs)[key]

    def _set1(self, key, value):
        entries = dict(self._pairs)
        entries[key] = value
        self._pairs[:] = entries.items()

    def _del1(self, key):
        self._pairs[:] = [pair for pair in self._pairs if pair[0] != key]

    def _like(self, entries, batch_size, names=None):
        return Other(list(entries.items()), batch_size, self._device, names)

    def _put_meta(self, batch_size, device, names):
        self._size, self._device, self._names = batch_size, device, names


@pytest.fixture(scope="session")
def other_kind() -> type[Other]:
    """A container that has nothing but the protocol, to hold fast forms equal to the general ones."""
    return Other


def _same(left: Any, right: Any, where: str = "") -> None:
    if isinstance(left, TensorDictBase):
        assert left.batch_size == right.batch_size, where
        assert left.names == right.names, where
        assert left.device == right.device, where
        assert list(left.keys()) == list(right.keys()), where
        for key, value in left.items():
            _same(value, right.get(key), f"{where}/{key}")
    elif isinstance(left, torch.Tensor):
        torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)
    else:
        assert left == right, where


@pytest.fixture(scope="session")
def assert_same() -> Callable[[Any, Any], None]:
    """Two trees have one structure, and equal entries."""
    return _same
