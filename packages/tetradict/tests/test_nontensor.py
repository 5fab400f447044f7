import copy
import pickle

import numpy as np
import pytest
import torch

from tetradict import NonTensorData, NonTensorStack, TensorDict
from tetradict._nontensor import NonTensorLeaf, equal


class Odd:
    """A value that is equal to nothing, and has no truth value when asked."""

    def __eq__(self, other):
        raise ValueError("no")

    __hash__ = None


def test_a_value_stands_for_the_whole_batch():
    leaf = NonTensorData({"a": 1}, [2, 2])
    assert leaf.tolist() == [[{"a": 1}, {"a": 1}], [{"a": 1}, {"a": 1}]]
    assert NonTensorData("x").tolist() == "x"
    assert NonTensorData("x", [0]).tolist() == []
    assert repr(NonTensorData("x")) == "NonTensorData(data='x', batch_size=torch.Size([]))"
    data = [1, 2]
    assert TensorDict({"s": NonTensorData(data)}, [3])["s"] is data


def test_values_an_item_are_given_one_by_one_or_as_nested_lists():
    leaf = NonTensorStack("a", "b")
    assert leaf.batch_size == (2,)
    assert len(leaf) == 2
    assert leaf.tolist() == ["a", "b"]
    assert NonTensorStack.from_list(["a", "b"]) == leaf
    assert NonTensorStack.from_list([["a"], ["b"]], 2).batch_size == (2, 1)
    assert NonTensorStack.from_list([["a"], ["b"]]).tolist() == [["a"], ["b"]]
    assert NonTensorStack.from_list([], 2).tolist() == []
    assert repr(leaf) == "NonTensorStack(['a', 'b'], batch_size=torch.Size([2]))"
    with pytest.raises(ValueError, match=r"lists at depth 1 must have one length, got \[1, 2\]"):
        NonTensorStack.from_list([["a"], ["b", "c"]], 2)


def test_equality_asks_values_and_batch_sizes():
    assert NonTensorData("a", [2]) == NonTensorData("a", [2])
    assert NonTensorData("a", [2]) != NonTensorData("a", [3])
    assert NonTensorData(1) != NonTensorData(1.0)
    assert NonTensorData("a", [1]) != NonTensorStack("a")
    assert NonTensorStack("a", "b") != NonTensorStack("a", "c")
    odd = Odd()
    assert NonTensorData(odd) == NonTensorData(odd)
    assert NonTensorData(Odd()) != NonTensorData(Odd())
    assert NonTensorData(np.zeros(2)) != NonTensorData(np.zeros(2))


def test_a_comparison_of_collections_tells_item_by_item():
    left = TensorDict({"s": ["a", "b"], "t": "x"}, [2])
    right = TensorDict({"s": ["a", "c"], "t": "x"}, [2])
    assert (left == right)["s"].tolist() == [True, False]
    assert (left != right)["s"].tolist() == [False, True]
    assert (left == right)["t"].all()
    assert not (left == right).all()
    assert equal(NonTensorData("a", [2]), torch.zeros(2), torch.Size([2])).tolist() == [False, False]
    assert equal(NonTensorData("a", [2]), NonTensorStack("a", "b"), torch.Size([2])).tolist() == [True, False]


def test_leaves_are_joined_by_themselves():  # pytorch/tensordict#836
    one = torch.stack([NonTensorData("a"), NonTensorData("a")])
    assert one == NonTensorData("a", [2])
    many = NonTensorStack(NonTensorData("b"), NonTensorData("b"))
    both = torch.stack([one, many], dim=1)
    assert both.batch_size == (2, 2)
    assert both.tolist() == [["a", "b"], ["a", "b"]]
    assert torch.cat([one, many], -1).tolist() == ["a", "a", "b", "b"]
    with pytest.raises(RuntimeError, match="size"):
        torch.stack([one, NonTensorStack("x")])
    with pytest.raises(TypeError, match="expected non-tensor values only, got a Tensor"):
        torch.stack([one, torch.zeros(2)])
    with pytest.raises(TypeError):
        torch.squeeze(one)


def test_leaves_survive_copies_and_never_change():
    for leaf in (NonTensorData("a", [2]), NonTensorStack("a", "b")):
        assert copy.deepcopy(leaf) == leaf
        assert pickle.loads(pickle.dumps(leaf)) == leaf
        other = leaf._with(0, "z")
        assert other.tolist()[0] == "z"
        assert leaf.tolist()[0] == "a"
    same = NonTensorData("a", [2])
    assert same._with(0, "a") is same


@pytest.mark.smoke
def test_values_are_kept_through_every_verb():
    td = TensorDict({"x": torch.zeros(2, 3), "s": "text", "rows": ["a", "b"], "n": {"t": None}}, [2])
    for out in (
        td.clone(),
        td.to(torch.float64),
        td + 1,
        td.apply(torch.neg),
        td.view(2),
        torch.zeros_like(td),
        td.detach(),
    ):
        assert out["s"] == "text"
        assert out["rows"] == ["a", "b"]
        assert out["n", "t"] is None
    assert td.flatten_keys()["n.t"] is None
    assert td.to_dict() == {"x": td["x"], "s": "text", "rows": ["a", "b"], "n": {"t": None}}


def test_a_leaf_that_lacks_a_method_says_which():
    class Half(NonTensorLeaf):
        pass

    for call in (lambda: Half().tolist(), lambda: Half()._value(), lambda: Half()._rows()):
        with pytest.raises(TypeError, match="Half is no complete leaf"):
            call()
    with pytest.raises(TypeError, match="_map"):
        Half()._map(torch.neg, torch.Size())
    with pytest.raises(TypeError, match="_cut"):
        Half()._cut(torch.neg, [])


def test_values_that_do_not_fit_the_batch_are_refused():
    with pytest.raises(RuntimeError, match=r"got \(2,\)"):
        TensorDict({"s": NonTensorStack("a", "b")}, [3])
    td = TensorDict({"s": NonTensorStack("a", "b")}, [])
    assert td["s"] == ["a", "b"]
    td.batch_size = [2]
    assert td[0]["s"] == "a"
