import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils import _pytree as pytree

from tetradict import NonTensorData, TensorDict, TensorDictBase, is_tensor_collection


class Mine(TensorDict):
    """A user's subclass, with an attribute of its own."""


def example():
    return TensorDict({"a": torch.arange(6.0).view(3, 2), "n": {"b": torch.arange(3), "s": "text"}}, [3])


@pytest.mark.smoke
def test_it_is_made_of_nested_dicts_and_keywords():
    td = TensorDict(
        {"a": torch.zeros(3, 2), ("n", "b"): torch.ones(3), "m": {"c": {"d": torch.ones(3, 1)}}},
        [3],
        e=torch.zeros(3),
    )
    assert td.batch_size == torch.Size([3])
    assert sorted(td.keys(True, True), key=str) == [("m", "c", "d"), ("n", "b"), "a", "e"]
    assert td["m"].batch_size == td["m", "c"].batch_size == (3,)
    assert td["m"] is td["m"]
    assert isinstance(td["m"], TensorDict)


@pytest.mark.parametrize(
    ("size", "want"),
    [(None, ()), ([], ()), ([3], (3,)), ((3,), (3,)), (3, (3,)), (torch.Size([3, 2]), (3, 2))],
    ids=str,
)
def test_a_batch_size_comes_in_many_forms(size, want):
    td = TensorDict({"a": torch.zeros(3, 2)}, size)
    assert type(td.batch_size) is torch.Size
    assert td.batch_size == td.shape == td.size() == want
    assert td.ndim == td.dim() == td.batch_dims == len(want)


def test_values_become_what_they_are():
    td = TensorDict({
        "int": 1,
        "float": 1.5,
        "bool": True,
        "complex": 1j,
        "array": np.arange(3, dtype=np.int16),
        "scalar": np.float32(2),
        "list": [[1.0, 2.0], [3.0, 4.0]],
        "tensors": [torch.zeros(2), torch.ones(2)],
        "text": "text",
        "set": {1, 2},
        "none": None,
        "texts": ["a", "b"],
        "object array": np.array(["a", "b"]),
    })
    dtypes = {key: value.dtype for key, value in td.items(leaves_only=True)}
    assert dtypes == {
        "int": torch.int64,
        "float": torch.float32,
        "bool": torch.bool,
        "complex": torch.complex64,
        "array": torch.int16,
        "scalar": torch.float32,
        "list": torch.float32,
        "tensors": torch.float32,
    }
    assert td["text"] == "text"
    assert td["set"] == {1, 2}
    assert td["none"] is None
    assert "none" in td
    assert td["texts"] == ["a", "b"]
    assert td["object array"].tolist() == ["a", "b"]


def test_a_tensor_that_does_not_begin_with_the_batch_size_is_refused():
    match = r"entry 'a' must have a shape that begins with the batch size \(3,\), got \(2, 3\)"
    with pytest.raises(RuntimeError, match=match):
        TensorDict({"a": torch.zeros(2, 3)}, [3])
    with pytest.raises(RuntimeError, match="entry 'a'"):
        TensorDict({"n": {"a": torch.zeros(())}}, [3])
    td = example()
    with pytest.raises(RuntimeError, match=match):
        td["a"] = torch.zeros(2, 3)
    with pytest.raises(RuntimeError, match="entry 'x'"):
        td["n", "x"] = torch.zeros(())
    with pytest.raises(RuntimeError, match="entry 'x'"):
        td["x"] = 1.0
    assert list(td.keys()) == ["a", "n"]
    two = TensorDict({}, [3, 2])
    with pytest.raises(RuntimeError, match=r"got \(3,\)"):
        two["a"] = torch.zeros(3)


def test_a_nested_collection_takes_on_the_batch_size_and_the_callers_is_left_alone():
    inner = TensorDict({"x": torch.zeros(3, 2), "s": "text", "m": {"y": torch.zeros(3)}}, [])
    td = TensorDict({"n": inner}, [3], names=["t"])
    assert td["n"].batch_size == td["n", "m"].batch_size == (3,)
    assert td["n", "m"].names == ["t"]
    assert inner["m"].batch_size == ()
    assert inner["m"].names == []
    assert td["n"].get("s").batch_size == (3,)
    assert inner.batch_size == ()
    longer = TensorDict({"x": torch.zeros(3, 2)}, [3, 2], names=["t", None])
    td["m"] = longer
    assert td["m"] is longer
    with pytest.raises(RuntimeError, match="does not begin with the new batch size"):
        td["o"] = TensorDict({"x": torch.zeros(2)}, [2])


def test_a_list_of_values_has_one_for_each_item():
    td = TensorDict({"s": ["a", "b"]}, [2])
    assert td["s"] == ["a", "b"]
    assert td[1]["s"] == "b"
    td = TensorDict({"s": [["a", "b"], ["c", "d"]]}, [2, 2])
    assert td[1, 0]["s"] == "c"
    with pytest.raises(
        RuntimeError, match=r"one value for each item of the batch \(3,\), got the form \(2,\)"
    ):
        TensorDict({"s": ["a", "b"]}, [3])
    assert TensorDict({"s": NonTensorData(["a", "b"])}, [3])["s"] == ["a", "b"]


def test_a_device_takes_tensors_as_they_come_in():
    td = TensorDict({"a": torch.zeros(3), "n": {"b": torch.zeros(3)}}, [3], device="meta")
    assert td["a"].device.type == td["n", "b"].device.type == td.device.type == td["n"].device.type == "meta"
    td["c"] = torch.zeros(3)
    td["n", "d"] = torch.zeros(3)
    td["m"] = TensorDict({"x": torch.zeros(3)}, [3])
    assert td["c"].device.type == td["n", "d"].device.type == td["m", "x"].device.type == "meta"
    assert td[0].device.type == td.view(3, 1).device.type == torch.stack([td, td]).device.type == "meta"
    assert TensorDict({"a": torch.zeros(3)}, [3]).device is None


def test_a_batch_size_that_does_not_fit_changes_nothing(assert_same):
    td = TensorDict({"m": {"c": torch.zeros(2)}, "n": {"b": torch.zeros(3)}, "s": "text"}, [])
    before = copy.deepcopy(td)
    with pytest.raises(RuntimeError, match="entry 'b'"):
        td.batch_size = [2]
    assert_same(td, before)


def test_names_are_checked_and_shared_with_nested_collections():
    td = TensorDict({"n": {"b": torch.zeros(2, 3)}}, [2, 3], names=["x", None])
    assert td.names == td["n"].names == ["x", None]
    td.names = ["y", "z"]
    assert td["n"].names == ["y", "z"]
    td["m"] = {"c": torch.zeros(2, 3)}
    assert td["m"].names == ["y", "z"]
    td["o"] = TensorDict({"c": torch.zeros(2, 3)}, [2, 3])
    assert td["o"].names == ["y", "z"]
    with pytest.raises(RuntimeError, match="names"):
        td["p"] = TensorDict({}, [2, 3], names=["a", "b"])
    for names in (["x"], ["x", "x"]):
        with pytest.raises(ValueError, match="expected 2 different names"):
            td.names = names
    td.names = None
    assert td.names == td["n"].names == [None, None]


def test_a_batch_size_may_be_set_to_any_that_all_entries_begin_with():
    td = TensorDict({"a": torch.zeros(2, 3, 4), "n": {"b": torch.zeros(2, 3)}, "s": "text"}, [2], names=["x"])
    td.batch_size = [2, 3]
    assert td.batch_size == td["n"].batch_size == td.get("s").batch_size == (2, 3)
    assert td.names == ["x", None]
    with pytest.raises(RuntimeError, match=r"entry 'b' of shape \(2, 3\)"):
        td.batch_size = [2, 3, 4]
    assert td.batch_size == (2, 3)
    td.batch_size = []
    assert td.batch_size == ()
    assert td["n"].batch_size == (2, 3)


def test_from_dict_finds_the_batch_size_when_asked():
    source = {"a": torch.zeros(3, 2), "b": {"c": torch.zeros(3, 2, 4)}}
    assert TensorDict.from_dict(source).batch_size == ()
    td = TensorDict.from_dict(source, auto_batch_size=True)
    assert td.batch_size == td["b"].batch_size == (3, 2)
    assert TensorDict.from_dict(source, batch_dims=1, names=["t"]).names == ["t"]
    assert TensorDict.from_dict(source, batch_size=[3], device="meta")["b", "c"].device.type == "meta"
    assert TensorDict.from_dict(td.to_dict(), batch_size=[3]).to_dict().keys() == source.keys()


def test_trusted_takes_the_dict_as_it_is():
    source = {"a": torch.zeros(3, 2)}
    td = TensorDict.trusted(source, torch.Size([3]), torch.device("cpu"))
    td["b"] = torch.ones(3)
    assert source["b"] is td["b"]
    assert td.device == torch.device("cpu")
    assert not td.is_locked
    assert td.names == [None]
    assert type(Mine.trusted({}, torch.Size())) is Mine


def test_a_subclass_survives_every_verb():  # pytorch/tensordict#1184
    td = Mine({"a": torch.zeros(3), "n": {"b": torch.ones(3)}}, [3])
    for out in (
        td.clone(),
        td.to(torch.float64),
        td[:2],
        td.select("a"),
        td + 1,
        td.unbind(0)[0],
        torch.stack([td, td]),
        torch.cat([td, td]),
        td.apply(torch.neg),
        td.view(3, 1),
        td["n"],
        pickle.loads(pickle.dumps(td)),
        copy.deepcopy(td),
        pytree.tree_map(torch.neg, td),
    ):
        assert type(out) is Mine


@pytest.mark.smoke
@given(data=st.data())
@settings(max_examples=20)
def test_pickle_and_copies_are_round_trips(data, trees, assert_same):
    td = data.draw(trees)
    assert_same(td, pickle.loads(pickle.dumps(td)))
    assert_same(td, copy.deepcopy(td))
    shallow = copy.copy(td)
    assert_same(td, shallow)
    assert all(
        one is other for one, other in zip(td.values(True, True), shallow.values(True, True), strict=True)
    )


def test_a_locked_collection_comes_out_of_a_pickle_locked_and_whole():
    td = Mine({"n": {"a": torch.zeros(2)}}, [2], names=["t"], lock=True)
    td.note = "kept"
    back = pickle.loads(pickle.dumps(td))
    assert back.is_locked
    assert back["n"].is_locked
    assert back.names == ["t"]
    assert back.note == "kept"
    back.unlock_()
    assert not back["n"].is_locked
    assert td.is_locked


@given(data=st.data())
@settings(max_examples=20)
def test_a_pytree_rebuilds_the_same_collection(data, trees, assert_same):
    td = data.draw(trees)
    leaves, spec = pytree.tree_flatten(td)
    assert all(isinstance(leaf, torch.Tensor) for leaf in leaves)
    assert_same(td, pytree.tree_unflatten(leaves, spec))
    assert len(pytree.tree_leaves_with_path(td)) == len(leaves)
    assert_same(td.apply(lambda x: x + 1, filter_empty=False), pytree.tree_map(lambda x: x + 1, td))


def test_vmap_goes_over_the_entries():
    td = TensorDict({"a": torch.arange(6.0).view(3, 2), "b": torch.arange(3.0)}, [])
    out = torch.vmap(lambda a, b: a * b)(td["a"], td["b"])
    assert_close(out, td["a"] * td["b"].unsqueeze(1))
    assert_close(torch.vmap(lambda x: x["a"].sum() + x["b"])(td), td["a"].sum(1) + td["b"])


def test_it_says_what_it_is():
    td = example()
    assert isinstance(td, TensorDictBase)
    assert is_tensor_collection(td)
    assert is_tensor_collection(TensorDict)
    assert not is_tensor_collection({})
    assert not is_tensor_collection(torch.zeros(2))
    assert len(td) == 3
    assert len(TensorDict({}, [])) == 0
    assert td.size(0) == 3
    assert [row["n", "b"].item() for row in td] == [0, 1, 2]
    with pytest.raises(TypeError, match="has no items"):
        iter(TensorDict({}, []))
    with pytest.raises(RuntimeError, match="no single truth value"):
        bool(td)


def test_setting_a_path_makes_the_nodes_on_the_way():
    td = example()
    td["x", "y", "z"] = torch.zeros(3)
    assert td["x", "y"].batch_size == (3,)
    with pytest.raises(KeyError, match="entry 'a' is a Tensor, nothing can be put below it"):
        td["a", "x"] = torch.zeros(3)
    td.set(("n", "b"), torch.ones(3))
    before = td["n", "b"]
    td.set(("n", "b"), torch.zeros(3), inplace=True)
    assert td["n", "b"] is before
    assert before.sum() == 0
    td.set("new", torch.zeros(3), inplace=True)
    assert "new" in td
