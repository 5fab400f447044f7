import operator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetradict import TensorDict
from tetradict._pointwise import BINARY, UNARY

FUNCTIONS = [name for name in BINARY + UNARY if hasattr(torch, name)]


def example(seed=0):
    random = torch.Generator().manual_seed(seed)
    rand = lambda *size: 0.8 * torch.rand(size, dtype=torch.float64, generator=random) + 0.1  # noqa: E731
    return TensorDict({"a": rand(3), "n": {"b": rand(3, 2), "s": "text"}, "c": rand(3, 1, 2)}, [3])


def compare(out, td, function, *others):
    for key, value in td.items(True, True):
        want = function(value, *[other[key] if isinstance(other, TensorDict) else other for other in others])
        assert_close(out[key], want)
    assert out["n", "s"] == "text"
    assert out.batch_size == td.batch_size


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_goes_over_every_tensor(name):
    td = example()
    function = getattr(torch, name)
    compare(getattr(td, name)(), td, function)
    there = td.clone()
    assert getattr(there, name + "_")() is there
    compare(there, td, function)


@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_takes_collections_and_batch_shaped_tensors(name):
    td, other = example(), example(1)
    function = getattr(torch, {"clamp_max": "minimum", "clamp_min": "maximum"}.get(name, name))
    compare(getattr(td, name)(other), td, function, other)
    there = td.clone()
    assert getattr(there, name + "_")(other) is there
    compare(there, td, function, other)
    rows = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    wide = td.apply(lambda x: rows.view(3, *[1] * (x.ndim - 1)).expand_as(x))
    compare(getattr(td, name)(rows), td, function, wide)


@pytest.mark.smoke
@pytest.mark.parametrize(
    "op", [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow], ids=str
)
@pytest.mark.parametrize("other", [2, 0.5, torch.tensor(1.5, dtype=torch.float64)], ids=str)
def test_operators_work_from_both_sides_and_in_place(op, other):
    td = example()
    compare(op(td, other), td, op, other)
    compare(op(other, td), td, lambda x: op(other, x))
    compare(op(td, td), td, op, td)
    name = op.__name__
    there = td.clone()
    same = there
    there = getattr(operator, f"i{name}")(there, other)
    assert there is same
    compare(there, td, op, other)


@pytest.mark.parametrize(
    "op", [operator.sub, operator.truediv, operator.pow, operator.lt, operator.ge, operator.eq], ids=str
)
def test_a_tensor_may_stand_on_the_left(op):
    td = example()
    rows = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    wide = td.apply(lambda x: rows.view(3, *[1] * (x.ndim - 1)).expand_as(x))
    out = op(rows, td)
    for key, value in td.items(True, True):
        assert_close(out[key], op(wide[key], value))
    assert_close(torch.maximum(rows, td)["a"], torch.maximum(rows, td["a"]))
    assert_close(torch.sub(rows, td)["a"], rows - td["a"])


def test_integers_and_masks():
    td = TensorDict({"a": torch.tensor([1, 2, 3]), "n": {"b": torch.tensor([4, 5, 6])}}, [3])
    assert (td // 2)["a"].tolist() == [0, 1, 1]
    assert (td % 2)["n", "b"].tolist() == [0, 1, 0]
    assert (-td)["a"].tolist() == [-1, -2, -3]
    assert abs(-td)["a"].tolist() == [1, 2, 3]
    mask = td > 1
    assert mask["a"].tolist() == [False, True, True]
    assert (mask & (td < 3))["a"].tolist() == [False, True, False]
    assert (mask | (td == 1))["a"].all()
    assert (mask ^ mask).any() is False
    assert (~mask)["a"].tolist() == [True, False, False]
    assert (7 // td)["a"].tolist() == [7, 3, 2]
    assert (7 % td)["a"].tolist() == [0, 1, 1]
    assert (torch.tensor([7, 7, 7]) // td)["n", "b"].tolist() == [1, 1, 1]
    assert (torch.tensor([True, False, True]) & mask)["a"].tolist() == [False, False, True]
    assert (True | mask)["a"].all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_torch_take_a_collection(name):
    td = example()
    others = (td,) if name in BINARY else ()
    compare(getattr(torch, name)(td, *others), td, getattr(torch, name), *others)


@pytest.mark.parametrize(
    "op", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge], ids=str
)
def test_comparisons_give_bools(op):
    td = TensorDict({"a": torch.tensor([1, 2, 3]), "n": {"b": torch.tensor([[2], [2], [2]])}}, [3])
    rows = torch.tensor([3, 2, 1])
    assert op(td, 2)["n", "b"].tolist() == op(td["n", "b"], 2).tolist()
    assert op(td, td + 1)["a"].tolist() == op(td["a"], td["a"] + 1).tolist()
    assert op(td, rows)["n", "b"].tolist() == op(td["n", "b"], rows.unsqueeze(1)).tolist()
    assert op(td, rows)["a"].dtype is torch.bool


def test_the_order_of_entries_does_not_matter():
    left = TensorDict({"a": torch.zeros(2), "b": torch.ones(2)}, [2])
    right = TensorDict({"b": torch.ones(2), "a": torch.zeros(2)}, [2])
    assert (left == right).all()
    assert (left + right)["b"].tolist() == [2, 2]


def test_collections_of_other_entries_are_refused():
    td = example()
    for other in (td.select("a"), td.clone().set("x", torch.zeros(3)), td.exclude(("n", "b"))):
        for left, right in ((td, other), (other, td)):
            with pytest.raises(KeyError):
                left + right
            with pytest.raises(KeyError, match="same entries"):
                left == right  # noqa: B015
    with pytest.raises(TypeError, match="got str"):
        td + "text"
    assert (td == "text") is False
    with pytest.raises(RuntimeError):
        td + torch.zeros(2)


def test_nothing_stays_nothing():
    td = TensorDict({"n": {"s": "text"}}, [3])
    for out in (td + 1, td.exp(), td.exp_(), td.add_(1), td == 1, ~td, 1 - td):
        assert out.batch_size == (3,)
        assert out.is_empty() is (out.get(("n", "s")) is None)


@given(data=st.data())
def test_a_collection_equals_its_copy(data, trees):
    td = data.draw(trees)
    assert (td == td.clone()).all()
    assert not (td != td.clone()).any()


def test_gradients_flow():
    td = example().requires_grad_()
    (td * td).exp()["a"].sum().backward()
    want = 2 * td["a"].detach() * (td["a"].detach() ** 2).exp()
    assert_close(td["a"].grad, want)
