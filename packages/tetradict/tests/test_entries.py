import pytest
import torch

from tetradict import NonTensorData, TensorDict, unravel_key, unravel_key_list


def example():
    return TensorDict({"a": torch.zeros(3), "n": {"b": torch.zeros(3), "s": "text"}}, [3])


@pytest.mark.parametrize(
    ("key", "want"),
    [
        ("a", "a"),
        (("a",), "a"),
        (("a", "b"), ("a", "b")),
        (("a", ("b", ("c",))), ("a", "b", "c")),
        ((("a",),), "a"),
    ],
    ids=str,
)
def test_a_key_has_one_plainest_form(key, want):
    assert unravel_key(key) == want
    assert unravel_key_list([key, "z"]) == [want, "z"]
    td = TensorDict({key: torch.zeros(3)}, [3])
    assert key in td
    assert td[key] is td[want] is td.get(key)


@pytest.mark.parametrize("key", [1, (), ("a", 1), None, ["a"]], ids=str)
def test_what_is_no_key_is_refused(key):
    with pytest.raises(TypeError, match="a key is a string or a tuple of strings"):
        unravel_key(key)
    with pytest.raises(TypeError):
        example().set(key, torch.zeros(3))


def test_a_list_of_keys_is_no_string():
    with pytest.raises(TypeError, match="use unravel_key"):
        unravel_key_list("ab")


@pytest.mark.smoke
def test_get_gives_the_entry_or_the_default():
    td = example()
    assert td.get("a") is td["a"]
    assert td.get(("n", "b")) is td["n"]["b"]
    assert td.get("zz") is None
    assert td.get("zz", 3) == 3
    assert td.get(("n", "zz"), 4) == 4
    assert td.get(("a", "zz"), 5) == 5
    assert td.get(("n", "s")) == NonTensorData("text", [3])
    assert td.get_non_tensor(("n", "s")) == "text"
    assert td.get_non_tensor("zz", 6) == 6


def test_a_missing_entry_names_the_nearest():
    td = TensorDict({"observation": torch.zeros(3), "action": torch.zeros(3)}, [3])
    with pytest.raises(
        KeyError,
        match=r"key .observatoin. was not found in TensorDict with keys .*; nearest: \['observation'\]",
    ):
        td["observatoin"]
    nested = TensorDict({"n": {"m": {"reward": 1.0}}}, [])
    with pytest.raises(
        KeyError,
        match=r"key \('n', 'm', 'rewerd'\) was not found .* below \('n', 'm'\); nearest: \['reward'\]",
    ):
        nested["n", "m", "rewerd"]
    for call in (
        lambda: td["action", "x"],
        lambda: td["x", "y"],
        lambda: td.pop("x"),
        lambda: td.del_("x"),
        lambda: td.del_(("action", "x")),
        lambda: td.set_("x", torch.zeros(3)),
        lambda: td.set_(("action", "x"), torch.zeros(3)),
        lambda: td.update_({"x": torch.zeros(3)}),
        lambda: td.get_non_tensor("x"),
        lambda: td.rename_key_("x", "y"),
        lambda: td.fill_("x", 1),
    ):
        with pytest.raises(KeyError, match="not found"):
            call()
    assert list(td.keys()) == ["observation", "action"]


def test_pop_and_del_remove():
    td = example()
    assert td.pop(("n", "s")) == "text"
    b = td["n", "b"]
    assert td.pop(("n", "b")) is b
    assert td.pop("zz", None) is None
    del td["a"]
    td.del_("n")
    assert list(td.keys()) == []


def test_set_writes_in_place():
    td = example()
    a, b = td["a"], td["n", "b"]
    td.set_("a", torch.ones(3)).set_(("n", "b"), 2)
    assert td["a"] is a
    assert a.tolist() == [1, 1, 1]
    assert b.tolist() == [2, 2, 2]
    td.set_("n", {"b": torch.zeros(3), "s": "other"})
    assert b.tolist() == [0, 0, 0]
    assert td["n", "s"] == "other"
    with pytest.raises(TypeError, match="expected a collection or a mapping, got Tensor"):
        td.set_("n", torch.zeros(3))


def test_a_key_of_another_level_is_no_entry():
    td = example()
    assert ("n", "b") in td
    assert ("n", "b", "c") not in td
    assert ("a", "b") not in td
    assert "b" not in td
    with pytest.raises(TypeError):
        assert 3 in td
