import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tetradict import NonTensorData, TensorDict


def example():
    return TensorDict(
        {"b": torch.zeros(3), "n": {"x": torch.ones(3), "m": {"y": torch.zeros(3)}, "s": "text"}}, [3]
    )


def test_keys_of_one_level_follow_the_collection():
    td = example()
    keys = td.keys()
    assert list(keys) == ["b", "n"]
    td["c"] = torch.zeros(3)
    assert list(keys) == ["b", "n", "c"]
    assert list(td.values())[1] is td["n"]
    assert dict(td.items())["b"] is td["b"]


@pytest.mark.smoke
def test_nested_keys_and_leaves():
    td = example()
    assert td.keys(True) == ["b", ("n", "x"), ("n", "m", "y"), ("n", "m"), ("n", "s"), "n"]
    assert td.keys(True, True) == ["b", ("n", "x"), ("n", "m", "y")]
    assert td.keys(leaves_only=True) == ["b"]
    assert td.keys(True, True, sort=True) == ["b", ("n", "m", "y"), ("n", "x")]
    assert td.keys(sort=True) == ["b", "n"]
    assert ("n", "x") in td.keys(True)
    is_node = lambda kind: issubclass(kind, TensorDict)  # noqa: E731
    assert td.keys(True, True, is_leaf=is_node) == ["b", "n"]
    assert td.keys(True, True, is_leaf=lambda kind: kind is NonTensorData)[-1] == ("n", "s")
    for key, value in td.items(True, True):
        assert td[key] is value
    assert [value is td[key] for key, value in zip(td.keys(True), td.values(True), strict=True)][:4] == [
        True
    ] * 4


def test_empty_means_no_leaf_at_all():
    assert TensorDict({}, []).is_empty()
    assert TensorDict({"n": {"m": {}}}, []).is_empty()
    assert not TensorDict({"n": {"s": "text"}}, []).is_empty()
    assert not example().is_empty()


@given(data=st.data())
def test_select_and_exclude_part_a_tree(data, trees):
    td = data.draw(trees)
    keys = td.keys(True, True)
    chosen = data.draw(st.lists(st.sampled_from(keys), unique=True)) if keys else []
    kept, rest = td.select(*chosen), td.exclude(*chosen)
    assert set(kept.keys(True, True)) == set(chosen)
    assert set(rest.keys(True, True)) == set(keys) - set(chosen)
    assert all(kept[key] is td[key] for key in chosen)
    assert set(td.clone().select(*chosen, inplace=True).keys(True, True)) == set(chosen)
    assert set(td.clone().exclude(*chosen, inplace=True).keys(True, True)) == set(keys) - set(chosen)


def test_select_and_exclude_say_what_happens_to_the_rest():
    td = example()
    assert td.select("n")["n"] is td["n"]
    assert td.select(("n", "x"), "n")["n"] is td["n"]
    assert td.select(("n", "x"), ("n", "m"))["n"].keys(True, True) == ["x", ("m", "y")]
    with pytest.raises(KeyError, match="'zz'"):
        td.select("zz")
    with pytest.raises(KeyError):
        td.select(("b", "x"))
    assert list(td.select("zz", "b", ("n", "zz"), strict=False).keys()) == ["b", "n"]
    assert list(td.exclude("zz", ("b", "x"), ("n", "x"), ("n", "m"))["n"].keys()) == ["s"]
    same = td.select("b", ("n", "m"), inplace=True)
    assert same is td
    assert td.keys(True, True) == ["b", ("n", "m", "y")]
    td.exclude(("n", "m"), "b", inplace=True)
    assert td.keys(True) == ["n"]


@given(data=st.data())
def test_unflatten_undoes_flatten(data, trees, assert_same):
    td = data.draw(trees)
    flat = td.flatten_keys("/")
    assert [key if isinstance(key, tuple) else (key,) for key in td.keys(True, True)] == [
        tuple(key.split("/")) for key in flat.keys(leaves_only=True)
    ]
    back = flat.unflatten_keys("/")
    assert_same(flat, back.flatten_keys("/"))
    for key in td.keys(True, True):
        assert back[key] is td[key]


def test_keys_that_collide_are_refused():  # pytorch/tensordict#29
    td = TensorDict({"a.a": torch.zeros(3), "a": {"a": torch.ones(3)}}, [])
    for verb in (td.flatten_keys, td.unflatten_keys):
        with pytest.raises(KeyError, match=r"would get the key|collides"):
            verb(".")
    with pytest.raises(KeyError):
        TensorDict({"a": torch.zeros(3), "a.b": torch.ones(3)}, []).unflatten_keys()
    merged = TensorDict(
        {"a.b": torch.zeros(3), "a": {"c": torch.ones(3), "d.e": torch.ones(3)}}, []
    ).unflatten_keys()
    assert merged.keys(True, True) == [("a", "b"), ("a", "c"), ("a", "d", "e")]
    assert td.flatten_keys("/").keys() == {"a.a", "a/a"}


def test_flatten_and_unflatten_in_place():
    td = example()
    assert td.flatten_keys(inplace=True) is td
    assert list(td.keys()) == ["b", "n.x", "n.m.y", "n.s"]
    assert td.unflatten_keys(inplace=True) is td
    assert td["n", "m", "y"].shape == (3,)
    assert example().flatten_keys(is_leaf=lambda kind: kind is TensorDict).keys() == {"b", "n"}


def test_rename():
    td = example()
    x = td["n", "x"]
    td.rename_key_(("n", "x"), "x").rename_key_("b", ("k", "l")).rename_key_("x", "x")
    assert td["x"] is x
    assert ("n", "x") not in td
    assert td["k"].batch_size == (3,)
    with pytest.raises(KeyError, match="already"):
        td.rename_key_("x", "n", safe=True)
    with pytest.raises(KeyError, match="nothing can be put below it"):
        td.rename_key_("n", ("x", "y"))
    assert "n" in td
    td.rename_key_("x", "n")
    assert td["n"] is x


def test_update_merges_nested_collections():
    td = example()
    m = td["n", "m"]
    source = TensorDict(
        {"n": {"m": {"z": torch.ones(3)}, "x": torch.zeros(3)}, "new": {"q": torch.ones(3)}}, [3]
    )
    td.update(source, s="text")
    assert td["n", "m"] is m
    assert td.keys(True, True) == ["b", ("n", "x"), ("n", "m", "y"), ("n", "m", "z"), ("new", "q")]
    assert td["n", "x"] is source["n", "x"]
    assert td["s"] == "text"
    td.update({("n", "x"): torch.ones(3)})
    assert td["n", "x"].sum() == 3
    td.update({"n": torch.zeros(3)})
    assert td["n"].shape == (3,)


def test_update_by_options():
    td = example()
    source = TensorDict(
        {"b": torch.ones(3), "n": {"x": torch.zeros(3), "m": {"y": torch.ones(3), "z": torch.ones(3)}}}, [3]
    )
    td.update(source, keys_to_update=["b", ("n", "m", "z")])
    assert td["b"] is source["b"]
    assert td["n", "x"].sum() == 3
    assert td["n", "m", "z"] is source["n", "m", "z"]
    assert td["n", "m", "y"].sum() == 0
    td.update(source, clone=True, keys_to_update=[("n", "m")])
    assert td["n", "m", "y"] is not source["n", "m", "y"]
    y = td["n", "m", "y"]
    td.update({"n": {"m": {"y": torch.zeros(3)}}, "new": torch.zeros(3)}, inplace=True)
    assert td["n", "m", "y"] is y
    assert y.sum() == 0
    assert "new" in td
    fresh = TensorDict({}, [3]).update(source, keys_to_update=[("n", "m", "y")])
    assert fresh.keys(True, True) == [("n", "m", "y")]
    with pytest.raises(TypeError, match="expected a collection or a mapping"):
        td.update([1, 2])


def test_update_in_place_writes_into_what_is_there():
    td = example()
    b, y = td["b"], td["n", "m", "y"]
    td.update_({"b": torch.ones(3), ("n", "m"): {"y": torch.ones(3)}})
    assert td["b"] is b
    assert b.sum() == y.sum() == 3
    td.update_({"b": torch.zeros(3), "n": {"x": torch.zeros(3)}}, keys_to_update=["n"])
    assert b.sum() == 3
    assert td["n", "x"].sum() == 0


def test_empty_keeps_the_form():
    td = example()
    assert td.empty().batch_size == (3,)
    assert list(td.empty().keys()) == []
    assert td.empty(recurse=True).keys(True) == [("n", "m"), "n"]
    assert td.empty(batch_size=[5]).batch_size == (5,)
