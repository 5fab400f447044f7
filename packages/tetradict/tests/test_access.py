import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tetradict import NonTensorData, NonTensorStack, TensorDict


def example():
    return TensorDict({"a": torch.arange(6.0).view(3, 2), "n": {"x": torch.ones(3), "s": "text"}}, [3])


@given(data=st.data())
def test_an_entry_at_an_index_is_the_index_of_the_entry(data, trees_of):
    td = data.draw(trees_of(st.sampled_from([(2,), (3, 1)])))
    for key in td.keys(True, True):
        assert td.get_at(key, 1).equal(td[key][1])
        assert td.get_item_shape(key) == td[key].shape


def test_an_entry_at_an_index_may_be_a_value_or_a_default():
    td = example()
    td["rows"] = NonTensorStack("p", "q", "r")
    assert td.get_at("rows", 1) == "q"
    assert td.get_at("rows", slice(1, None)) == ["q", "r"]
    assert td.get_at(("n", "s"), 0) == "text"
    assert td.get_at("zz", 0, None) is None
    with pytest.raises(KeyError, match="zz"):
        td.get_at("zz", 0)


def test_the_class_of_an_entry_is_that_of_what_is_stored():
    td = example()
    assert [td.entry_class(key) for key in ("a", "n", ("n", "s"))] == [
        torch.Tensor,
        TensorDict,
        NonTensorData,
    ]
    assert td.is_non_tensor(("n", "s"))
    assert not td.is_non_tensor("a")


def test_a_default_is_put_only_where_nothing_is():
    td = example()
    a, new = td["a"], torch.zeros(3)
    assert td.setdefault("a", new) is a
    assert td.setdefault(("n", "new"), new) is new
    assert td["n", "new"] is new


def test_what_could_be_a_tensor_may_be_put_as_a_value():
    td = example()
    assert td.set_non_tensor(("n", "list"), [1, 2]) is td
    assert td["n", "list"] == [1, 2]
    assert td.is_non_tensor(("n", "list"))


def test_a_nested_collection_is_made_empty_and_like_its_parent():
    td = TensorDict({"a": torch.zeros(3)}, [3], names=["time"])
    td.create_nested(("p", "q")).create_nested("a")
    assert td["p", "q"].batch_size == td["a"].batch_size == td.batch_size
    assert td["p", "q"].names == ["time"]
    with pytest.raises(RuntimeError, match="locked"):
        td.lock_().create_nested("r")


def test_replacing_leaves_the_original_alone():
    td = example().lock_()
    new = td.replace({"n": {"x": torch.zeros(3)}}, b=torch.ones(3))
    assert (td["n", "x"] == 1).all()
    assert (new["n", "x"] == 0).all()
    assert new["n", "s"] == "text"
    assert new["a"] is td["a"]
    assert "b" not in td
    assert td.replace() is td.replace({}) is td
    with pytest.raises(TypeError, match="one collection"):
        td.replace({}, {})


def test_the_last_entry_comes_off_and_all_are_cleared():
    td = example()
    td["value"] = "v"
    assert td.popitem() == ("value", "v")
    key, node = td.popitem()
    assert key == "n"
    assert node["s"] == "text"
    assert td.clear() is td
    assert td.is_empty()
    with pytest.raises(KeyError, match="empty"):
        td.popitem()
    locked = example().lock_()
    for call in (locked.popitem, locked.clear):
        with pytest.raises(RuntimeError, match="locked"):
            call()
    assert list(locked.keys()) == ["a", "n"]


def test_empty_nodes_and_values_are_filtered():
    td = TensorDict({"a": 1, "n": {"m": {}}, "k": {"s": "text", "e": {}}}, [])
    assert td.filter_empty_().keys(True) == ["a", ("k", "s"), "k"]
    kept = td.filter_non_tensor_data()
    assert kept.keys(True) == ["a", "k"]
    assert kept["a"] is td["a"]
    assert td["k", "s"] == "text"


@given(data=st.data())
def test_a_write_at_an_index_changes_those_items_alone(data, trees_of):
    td = data.draw(trees_of(st.sampled_from([(3,), (3, 2)])))
    source = td[1].clone()
    want = td.clone()
    for key in td.keys(True, True):
        want[key][0] = td[key][1]
    leaves = {key: td[key] for key in td.keys(True, True)}
    assert td.update_at_(source, 0) is td
    for key, leaf in leaves.items():
        assert td[key] is leaf
        assert leaf.equal(want[key])


def test_writes_at_an_index_take_numbers_arrays_rows_and_some_keys():
    td = example()
    td.set_at_("a", 7, 0).set_at_("a", [8.0, 9.0], (1,)).set_at_("a", torch.tensor(5.0), (2, 1))
    assert td["a"].tolist() == [[7, 7], [8, 9], [4, 5]]
    td.set_at_(("n", "s"), "other", slice(1, None))
    assert td["n", "s"] == ["text", "other", "other"]
    td.set_at_("n", {"x": 4.0}, 0)
    assert td["n", "x"].tolist() == [4, 1, 1]
    td.update_at_({"a": torch.zeros(2), "n": {"x": 0.0}}, 1, keys_to_update=[("n", "x")])
    assert td["n", "x"].tolist() == [4, 0, 1]
    assert td["a"][1].tolist() == [8, 9]
    for key in ("zz", ("a", "x"), ("n", "zz")):
        with pytest.raises(KeyError):
            td.set_at_(key, 0, 0)


def test_values_are_copied_into_the_present_tensors():
    td = example().lock_()
    a = td["a"]
    assert td.copy_({"a": torch.ones(3, 2)}) is td
    assert td["a"] is a
    assert (a == 1).all()
    with pytest.raises(KeyError, match="zz"):
        td.copy_({"zz": torch.zeros(3)})
    with pytest.raises(ValueError, match=r"Failed to update 'a' of shape \(3, 2\) .* \(5,\)"):
        td.set_("a", torch.zeros(5))


def test_an_update_may_take_over_batch_sizes():
    td = TensorDict({"a": torch.zeros(3), "n": TensorDict({"x": torch.zeros(3, 5)}, [3, 5])}, [3])
    node = td["n"]
    source = TensorDict({"a": torch.ones(2), "n": TensorDict({"x": torch.ones(2, 4)}, [2, 4])}, [2])
    with pytest.raises(RuntimeError, match="update_batch_size=True"):
        td.update(source)
    with pytest.raises(RuntimeError, match="inplace"):
        td.update(source, update_batch_size=True, inplace=True)
    with pytest.raises(RuntimeError, match="keys_to_update"):
        td.update(source, update_batch_size=True, keys_to_update=["a"])
    with pytest.raises(TypeError, match="a dict"):
        td.update({"a": torch.ones(2)}, update_batch_size=True)
    td.update(source, update_batch_size=True)
    assert td["n"] is node
    assert (td.batch_size, node.batch_size) == ((2,), (2, 4))
    assert (td["a"] == 1).all()
    assert (node["x"] == 1).all()
    assert source["n"] is not node
    kept = TensorDict({"a": torch.zeros(3), "rest": torch.zeros(3)}, [3])
    with pytest.raises(RuntimeError, match="'rest'"):
        kept.update(source.select("a"), update_batch_size=True)
    assert kept.batch_size == (3,)
    assert (kept["a"] == 0).all()


def test_an_update_may_replace_nodes_or_write_into_locked_ones():
    td = example()
    other = TensorDict({"n": {"y": torch.zeros(3)}}, [3])
    assert set(td.clone().update(other)["n"].keys()) == {"x", "s", "y"}
    assert set(td.clone().update(other, is_leaf=lambda kind: True)["n"].keys()) == {"y"}
    td.lock_()
    a = td["a"]
    td.update({"a": torch.ones(3, 2)}, ignore_lock=True)
    assert td["a"] is a
    assert (a == 1).all()
    with pytest.raises(RuntimeError, match="locked"):
        td.update({"b": torch.ones(3)}, ignore_lock=True)


def test_an_empty_collection_may_have_another_size_device_and_names():
    td = TensorDict({"a": torch.zeros(3), "n": {"x": torch.ones(3)}}, [3], device="cpu", names=["time"])
    assert td.empty().names == ["time"]
    out = td.empty(True, device=None)
    assert out.device is out["n"].device is None
    out = td.empty(batch_size=[2, 2], names=["p", "q"])
    assert (out.batch_size, out.names, out.device) == ((2, 2), ["p", "q"], torch.device("cpu"))
    assert td.device == torch.device("cpu")
