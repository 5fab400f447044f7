import gc

import pytest
import torch

from tetradict import TensorDict


def example():
    return TensorDict({"a": torch.zeros(3), "n": {"b": torch.zeros(3), "m": {"c": torch.zeros(3)}}}, [3])


CHANGES = {
    "set": lambda td: td.set("x", torch.zeros(3)),
    "replace": lambda td: td.set("a", torch.zeros(3)),
    "item": lambda td: td.__setitem__("x", torch.zeros(3)),
    "nested": lambda td: td.__setitem__(("n", "x"), torch.zeros(3)),
    "deep": lambda td: td["n", "m"].set("x", torch.zeros(3)),
    "text": lambda td: td.set("x", "text"),
    "pop": lambda td: td.pop("a"),
    "del": lambda td: td.__delitem__("a"),
    "del_": lambda td: td.del_(("n", "b")),
    "update": lambda td: td.update({"a": torch.zeros(3)}),
    "rename": lambda td: td.rename_key_("a", "x"),
    "select": lambda td: td.select("a", inplace=True),
    "exclude": lambda td: td.exclude("a", inplace=True),
    "flatten": lambda td: td.flatten_keys(inplace=True),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_locked_collection_refuses_a_change_and_stays_as_it_was(name, assert_same):
    td = example().lock_()
    with pytest.raises(RuntimeError, match=r"cannot change entry .* of a locked TensorDict"):
        CHANGES[name](td)
    assert_same(td, example())
    td.unlock_()
    CHANGES[name](td)


@pytest.mark.smoke
def test_values_of_a_locked_collection_may_be_written_in_place():
    td = example().lock_()
    td.set_("a", torch.ones(3))
    td.update_({"n": {"b": torch.ones(3)}})
    td[0] = TensorDict({"a": 5.0}, [])
    td.set("a", td["a"] + 1, inplace=True)
    td["n"].zero_()
    td += 1
    assert td["a"].tolist() == [7, 3, 3]
    assert td["n", "b"].tolist() == [1, 1, 1]
    texts = TensorDict({"s": "text"}, [3]).lock_()
    texts.set_("s", "text")[0] = {"s": "text"}
    for write in (lambda: texts.set_("s", "other"), lambda: texts.__setitem__(0, {"s": "other"})):
        with pytest.raises(RuntimeError, match="cannot change entry 's' of a locked"):
            write()
    assert texts["s"] == "text"


def test_a_child_says_which_parent_holds_it_locked():
    td = example().lock_()
    with pytest.raises(
        RuntimeError, match=r"batch size \(3,\) and the entries 'a', 'n'; unlock that one first"
    ):
        td["n"].unlock_()
    with pytest.raises(RuntimeError, match=r"its parent with the entries 'a', 'n' is locked"):
        td["n"].set("x", torch.zeros(3))
    with pytest.raises(RuntimeError, match=r"call unlock_\(\) first"):
        td.set("x", torch.zeros(3))


def test_unlocking_a_root_unlocks_what_no_other_root_holds():
    shared = TensorDict({"x": torch.zeros(3)}, [3])
    one, two = TensorDict({"n": shared}, [3]).lock_(), TensorDict({"m": shared}, [3]).lock_()
    one.unlock_()
    assert not one.is_locked
    assert shared.is_locked
    with pytest.raises(RuntimeError, match="entries 'm'"):
        shared.unlock_()
    two.unlock_()
    assert not shared.is_locked
    shared["y"] = torch.zeros(3)


def test_a_child_that_was_locked_itself_stays_locked_when_its_parent_is_not():
    td = example()
    td["n"].lock_()
    td.lock_().unlock_()
    assert not td.is_locked
    assert td["n"].is_locked
    td["n"].unlock_()
    assert not td["n", "m"].is_locked


def test_a_parent_that_is_gone_holds_nothing():
    td = example().lock_()
    child = td["n"]
    del td
    gc.collect()
    child.unlock_()
    child["x"] = torch.zeros(3)
    assert not child["m"].is_locked


def test_as_context_managers_they_undo_themselves():
    td = example()
    with td.lock_() as locked:
        assert locked is td
        assert td.is_locked
    assert not td.is_locked
    td.lock_()
    with td.unlock_():
        td["x"] = torch.zeros(3)
    assert td.is_locked
    with td.lock_():
        assert td.is_locked
    assert td.is_locked
    with pytest.raises(KeyError), td.unlock_():
        td["zz"]
    assert td.is_locked
    td.unlock_()
    with td.unlock_():
        pass
    assert not td.is_locked
    with td:
        assert not td.is_locked


def test_what_is_made_of_a_locked_collection_is_not_locked():
    td = example().lock_()
    for out in (td[0], td.clone(), td.view(3, 1), td.select("n"), td + 1, td.unbind(0)[0]):
        assert not out.is_locked
    assert td.select("n")["n"].is_locked
    assert TensorDict({}, [], lock=True).is_locked
