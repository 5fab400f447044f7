import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetradict import NonTensorStack, TensorDict


def numbered(batch):
    """A collection whose entry ``at`` numbers the items of the batch, and others that hang on the same numbers."""
    at = torch.arange(torch.Size(batch).numel()).view(batch)
    names = NonTensorStack(*[f"item {i}" for i in range(at.numel())])._map(lambda i: i.view(batch), at.shape)
    longer = TensorDict({"z": torch.stack([at, at], -1)}, (*batch, 2))
    return TensorDict(
        {"at": at, "wide": torch.stack([at, -at], -1), "text": "same", "names": names, "n": longer}, batch
    )


@st.composite
def one_index(draw, size, shape):
    """One component of an index into a dimension of this size."""
    kinds = ["slice"] if size == 0 else ["int", "slice", "tensor", "list", "array", "mask", "scalar", "range"]
    kind = draw(st.sampled_from(kinds))
    if kind == "int":
        return draw(st.integers(-size, size - 1))
    if kind == "scalar":
        return torch.tensor(draw(st.integers(-size, size - 1)))
    if kind == "range":
        return range(draw(st.integers(0, size - 1)), size, draw(st.integers(1, 2)))
    if kind == "slice":
        start, stop = draw(st.integers(-4, 4) | st.none()), draw(st.integers(-4, 4) | st.none())
        return slice(start, stop, draw(st.integers(1, 3) | st.none()))
    if kind == "mask":
        return torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=torch.bool)
    count = torch.Size(shape).numel()
    flat = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
    index = torch.tensor(flat, dtype=torch.int64).view(shape)
    return index if kind == "tensor" else index.tolist() if kind == "list" else index.numpy()


@st.composite
def batch_and_index(draw):
    batch = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple))
    shape = draw(st.sampled_from([(2,), (1,), (2, 2), (1, 2)]))
    used = draw(st.integers(0, len(batch)))
    parts = [draw(one_index(size, shape)) for size in batch[:used]]
    if draw(st.booleans()):
        parts.append(Ellipsis)
        tail = draw(st.integers(0, len(batch) - used))
        parts += [draw(one_index(size, shape)) for size in batch[len(batch) - tail :]] if tail else []
    for _ in range(draw(st.integers(0, 1))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    return batch, parts[0] if len(parts) == 1 and draw(st.booleans()) else tuple(parts)


def for_torch(idx):
    if isinstance(idx, tuple):
        return tuple(for_torch(part) for part in idx)
    if isinstance(idx, range):
        return torch.tensor(list(idx))
    return torch.as_tensor(idx) if isinstance(idx, list | np.ndarray) else idx


@given(case=batch_and_index())
def test_an_index_means_what_it_means_to_a_tensor_of_the_batch_size(case):
    batch, idx = case
    td = numbered(batch)
    try:
        at = td["at"][for_torch(idx)]
    except (IndexError, RuntimeError, ValueError) as error:
        with pytest.raises(type(error)):
            td[idx]
        return
    out = td[idx]
    assert out.batch_size == at.shape
    assert_close(out["at"], at)
    assert_close(out["wide"], torch.stack([at, -at], -1))
    assert out["n"].batch_size == (*at.shape, 2)
    assert_close(out["n", "z"], at.unsqueeze(-1).expand(*at.shape, 2))
    assert out["text"] == "same"
    flat = torch.as_tensor(at).flatten().tolist()
    names = out.get("names").tolist() if at.ndim else [out["names"]]
    while names and isinstance(names[0], list):
        names = [name for part in names for name in part]
    assert (names or []) == [f"item {i}" for i in flat]


@given(case=batch_and_index())
def test_an_index_assignment_writes_what_it_writes_to_a_tensor(case):
    batch, idx = case
    td, want = numbered(batch).clone(), numbered(batch)["at"].clone()
    try:
        assume(
            torch.unique(want[for_torch(idx)]).numel() == want[for_torch(idx)].numel()
        )  # else the order decides
        td[idx]
    except (IndexError, RuntimeError, ValueError):
        assume(False)
    part = td[idx].clone()
    want[for_torch(idx)] = -7
    td[idx] = part.exclude("names", "text").apply(lambda x: torch.full_like(x, -7))
    assert_close(td["at"], want)
    assert_close(td["n", "z"][..., 0], want)
    td[idx] = part
    assert (td == numbered(batch)).all()


@given(case=batch_and_index())
def test_names_stay_with_their_dimensions(case):
    batch, idx = case
    assume(len(set(batch)) == len(batch))
    td = TensorDict({}, batch, names=[f"dim of {size}" for size in batch])
    try:
        out = td[idx]
    except (IndexError, RuntimeError, ValueError):
        assume(False)
    assert len(out.names) == out.ndim
    parts = idx if isinstance(idx, tuple) else (idx,)
    basic = [part is None or part is Ellipsis or isinstance(part, int | slice) for part in parts]
    if all(basic) and all(part == slice(None) for part in parts if isinstance(part, slice)):
        for size, name in zip(out.shape, out.names, strict=True):
            assert name == f"dim of {size}" or (size == 1 and name is None)


@pytest.mark.parametrize(
    ("idx", "names"),
    [
        (0, ["y"]),
        ((slice(None), 0), ["x"]),
        (None, [None, "x", "y"]),
        ((..., 0), ["x"]),
        (torch.tensor([0, 1]), ["x", "y"]),
        ((slice(None), [True, False, True]), ["x", "y"]),
        ((..., None), ["x", "y", None]),
        ((0, ..., None), ["y", None]),
        (torch.ones(2, 3, dtype=torch.bool), [None]),
        (torch.zeros(2, 2, dtype=torch.int64), [None, None, "y"]),
        (torch.tensor(0), ["y"]),
        ((torch.tensor([0, 1]), torch.tensor([0, 1])), [None]),
        ((torch.tensor([0, 1]), None, torch.tensor([0, 1])), [None, None]),
        ((torch.tensor([[0, 1]]), 0), [None, None]),
        ((True, 0), [None, "y"]),
        ((), ["x", "y"]),
    ],
    ids=str,
)
def test_names_after_an_index(idx, names):
    td = TensorDict({"a": torch.zeros(2, 3, 4)}, [2, 3], names=["x", "y"])
    assert td[idx].names == names


@pytest.mark.smoke
def test_a_basic_index_is_a_view():
    td = TensorDict({"a": torch.zeros(4, 2)}, [4])
    td[1]["a"][0] = 5.0
    td[2:]["a"][0, 1] = 6.0
    assert td["a"].tolist() == [[0, 0], [5, 0], [0, 6], [0, 0]]


@pytest.mark.parametrize(
    "keep", [[True, False, True], np.array([True, False, True]), torch.tensor([True, False, True])]
)
def test_lists_and_arrays_of_bools_index_as_masks(keep):  # pytorch/rl#258
    td = TensorDict({"a": torch.arange(6).view(3, 2)}, [3])
    out = td[keep]
    assert out.batch_size == (2,)
    assert out["a"].tolist() == [[0, 1], [4, 5]]


def test_an_index_of_too_many_dimensions_is_refused():
    td = TensorDict({"a": torch.zeros(3, 2)}, [3])
    with pytest.raises(IndexError, match=r"index: 2 indices for the 1 batch dimensions \(3,\)"):
        td[0, 0]
    with pytest.raises(IndexError):
        TensorDict({"a": torch.zeros(3)}, [])[0]


def test_an_index_out_of_range_is_refused_even_with_nothing_to_index():
    for td in (TensorDict({}, [3]), TensorDict({"a": torch.zeros(3, 0)}, [3])):
        for idx in (3, -4, (3, ...), torch.tensor([[5]])):
            with pytest.raises(IndexError):
                td[idx]
    for mask in (torch.tensor([True]), torch.ones(3, 3, dtype=torch.bool), [True]):
        with pytest.raises(IndexError, match=r"a mask over the batch dimensions .* must have their shape"):
            TensorDict({"a": torch.zeros(3, 2)}, [3, 2])[mask]
    with pytest.raises(ValueError, match="step of a slice must be 1 or more, got -1"):
        TensorDict({}, [3])[::-1]


def test_what_is_no_index_is_refused():
    td = TensorDict({"a": torch.zeros(3)}, [3])
    with pytest.raises(TypeError, match="ints or bools"):
        td[["a", "b"]]
    with pytest.raises(TypeError, match="got float"):
        td[1.5]
    with pytest.raises(IndexError, match="single ellipsis"):
        td[..., ...]


def test_an_entry_that_is_missing_is_made_with_zeros_elsewhere():
    td = TensorDict({"a": torch.zeros(3)}, [3])
    td[1] = TensorDict({"a": torch.tensor(1.0), "b": torch.tensor([2, 3]), "n": {"x": torch.tensor(4.0)}}, [])
    assert td["b"].tolist() == [[0, 0], [2, 3], [0, 0]]
    assert td["n", "x"].tolist() == [0, 4, 0]
    with pytest.raises(KeyError, match=r"no entry 's'|key 's' was not found"):
        td[1] = {"s": "text"}
    td.lock_()
    td[0] = {"a": 9.0}
    with pytest.raises(RuntimeError, match="locked"):
        td[0] = {"new": torch.zeros(())}
    assert td["a"].tolist() == [9, 1, 0]


def test_a_text_is_assigned_to_items():  # pytorch/tensordict#1383
    td = TensorDict({"obs": torch.zeros(3, 2), "source": NonTensorStack("g", "g", "g"), "one": "x"}, [3])
    before = td.clone()
    td[0] = TensorDict({"obs": torch.ones(2), "source": "math", "one": "y"}, [])
    assert td["source"] == ["math", "g", "g"]
    assert td["one"] == ["y", "x", "x"]
    assert td[1:]["one"] == ["x", "x"]
    assert before["source"] == ["g", "g", "g"]
    assert before["one"] == "x"


def test_a_number_or_tensor_is_written_into_every_entry():
    td = TensorDict({"a": torch.zeros(3, 2), "n": {"b": torch.zeros(3, dtype=torch.int64)}}, [3])
    td[1:] = 7
    td[0] = torch.tensor(3.0)
    assert td["a"].tolist() == [[3, 3], [7, 7], [7, 7]]
    assert td["n", "b"].tolist() == [3, 7, 7]
