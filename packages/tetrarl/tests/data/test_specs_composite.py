import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tetradict import TensorDict
from torch.testing import assert_close

from tetrarl.data import Bounded, Categorical, Composite, OneHot, Unbounded


def tree(*shape):
    """Leaves of three kinds on two levels, under the batch size ``shape``."""
    return Composite(
        seen=Bounded(-1, 1, (*shape, 3)),
        agent=Composite(action=OneHot(4, (*shape, 4)), level=Categorical(5, shape), shape=shape),
        shape=shape,
    )


@given(shape=st.lists(st.integers(1, 3), max_size=2), batch=st.lists(st.integers(0, 3), max_size=2))
def test_draws_zeros_and_ones_have_the_batch_in_front(shape, batch):
    spec = tree(*shape)
    for value in (spec.rand(batch), spec.zero(batch), spec.one(batch)):
        assert value.batch_size == (*batch, *shape) == value["agent"].batch_size
        assert value["agent", "action"].shape == (*batch, *shape, 4)
    assert spec.is_in(spec.rand(batch))


@given(shape=st.lists(st.integers(1, 3), max_size=2))
def test_what_goes_out_to_numpy_comes_back_encoded(shape):
    spec = tree(*shape)
    value = spec.rand()
    arrays = spec.to_numpy(value)
    assert isinstance(arrays["agent"]["level"], (np.ndarray, np.integer))
    again = spec.encode(arrays)
    for key in spec.keys(True, True):
        assert_close(again[key], value[key])


@given(shape=st.lists(st.integers(1, 3), max_size=2))
def test_shapes_follow_the_batch_dimensions(shape):
    spec = tree(*shape)
    wide = spec.expand(2, 3, *shape)
    assert wide == tree(2, 3, *shape)
    assert wide[1, 2] == spec == wide[1][2] == wide.unbind(0)[0].unbind(0)[1]
    assert wide[..., 0] == tree(2, 3, *shape)[(slice(None),) * (1 + len(shape)) + (0,)]
    assert wide.reshape(6, *shape) == wide.flatten(0, 1) == tree(6, *shape)
    assert wide.flatten(0, 1).unflatten(0, (2, 3)) == wide
    assert spec.unsqueeze(0).squeeze(0) == spec and spec.unsqueeze(-1).shape == (*shape, 1)
    assert wide[torch.tensor([True, False])].shape == (1, 3, *shape)
    assert wide[None].shape == (1, 2, 3, *shape)


def test_projection_mends_what_is_wrong_and_keeps_the_rest():
    spec = tree()
    value = spec.rand()
    assert spec.project(value) is value
    wrong = value.clone()
    seen = torch.full((3,), 7.0)
    wrong["seen"], wrong["other"] = seen, torch.zeros(2)
    assert spec.project(wrong) is wrong
    assert spec.is_in(wrong) and "other" in wrong.keys()
    assert wrong["seen"].tolist() == [1, 1, 1] and seen.tolist() == [7, 7, 7]


def test_is_in_wants_every_name_and_bears_more():
    spec, value = tree(), tree().rand()
    value["other"] = torch.zeros(1)
    assert spec.is_in(value)
    del value["agent", "level"]
    assert not spec.is_in(value) and not spec.is_in(torch.zeros(3))
    with pytest.raises(AssertionError, match="is not in Composite"):
        spec.assert_is_in(value)


def test_nested_names_are_set_read_and_removed():
    spec = Composite(shape=(2,))
    spec["a", "b", "c"] = Unbounded((2, 3))
    assert spec["a"].shape == spec["a", "b"].shape == (2,)
    assert spec.keys() == ["a"] and list(spec) == ["a"] and len(spec) == 1
    assert spec.keys(True) == ["a", ("a", "b"), ("a", "b", "c")]
    assert spec.items(True, True) == [(("a", "b", "c"), Unbounded((2, 3)))]
    assert ("a", "b", "c") in spec and ("a", "x") not in spec and "a" in spec.keys()
    assert spec.pop(("a", "b", "c")) == Unbounded((2, 3))
    assert spec.pop("gone", None) is None
    assert not spec.is_empty() and spec.is_empty(recurse=True)
    del spec["a", "b"]
    assert len(spec["a"]) == 0 and spec.empty() == Composite(shape=(2,))


def test_a_nested_composite_takes_the_batch_size_of_what_it_goes_into():
    inner = Composite(x=Unbounded((2, 3)), deep=Composite(y=Unbounded((2, 4))))
    spec = Composite(inner=inner, shape=2)
    assert spec["inner"].shape == spec["inner", "deep"].shape == (2,)
    assert inner.shape == ()
    with pytest.raises(ValueError, match="'x' has"):
        Composite(inner=inner, shape=5)


@pytest.mark.parametrize("index", [5, (0, 0), [0, 7], range(9), torch.tensor([9]), (..., 0, 1)], ids=str)
def test_an_index_out_of_the_batch_is_refused(index):
    with pytest.raises(IndexError):
        tree(3)[index]


def test_lists_ranges_and_arrays_are_indices():
    for index in ([2, 0], range(0, 4, 2), np.array([2, 0])):
        assert tree(3)[index] == tree(2) == tree(3)[index, ...] and tree(3)["seen"][index].shape == (2, 3)


def test_update_merges_nested_composites():
    spec = tree()
    spec.update({"agent": {"extra": Unbounded(2)}, "seen": Unbounded(3)})
    assert set(spec["agent"].keys()) == {"action", "level", "extra"}
    assert spec["seen"] == Unbounded(3)


def test_a_missing_name_is_told_with_the_nearest():
    with pytest.raises(KeyError, match=r"no spec 'agnt'; the nearest are \['agent'"):
        tree()["agnt"]
    with pytest.raises(KeyError, match="there are"):
        tree().get("qqq")
    assert tree().get("qqq", 3) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.set("x", Unbounded(1)),
        lambda s: s.pop("seen"),
        lambda s: s["agent"].set("x", Unbounded(1)),
    ],
)
def test_a_locked_composite_refuses_changes_until_it_is_unlocked(change):
    spec = tree().lock_()
    assert spec.is_locked and spec["agent"].is_locked and not spec.clone().is_locked
    with pytest.raises(RuntimeError, match="locked"):
        change(spec)
    change(spec.unlock_())


def test_leaves_that_do_not_begin_with_the_shape_are_refused():
    with pytest.raises(ValueError, match=r"must begin with \[2\].*'x' has \[3\]"):
        Composite(x=Unbounded(3), shape=2)
    spec = Composite(x=Unbounded((2, 3)))
    spec.shape = (2,)
    assert spec.rand().batch_size == (2,) == spec.batch_size
    with pytest.raises(ValueError, match="must begin with"):
        spec.shape = (3,)


def test_values_that_are_no_spec_and_strange_names_are_refused():
    with pytest.raises(TypeError, match="must be a spec or a dict"):
        Composite(x=3)
    with pytest.raises(TypeError, match="string or a tuple of strings"):
        Composite().set(3, Unbounded(1))


def test_encoding_names_what_is_lacking_and_unknown():
    with pytest.raises(KeyError, match=r"lacking \['seen'\], unknown \['sen'\]"):
        tree().encode({"sen": [0, 0, 0], "agent": {"action": 1, "level": 2}})


def test_projecting_without_a_name_tells_which():
    with pytest.raises(KeyError, match="lacks 'seen'"):
        tree().project(TensorDict({}))


def test_a_device_moves_every_leaf_and_every_value():
    spec = Composite(x=Unbounded(3), inner=Composite(y=Unbounded(2)), device="meta")
    assert spec["inner", "y"].device.type == "meta" == spec.rand().device.type
    assert tree().to("meta")["seen"].device.type == "meta"
    assert tree().device is None and tree().rand().device is None


def test_copies_and_pickles_are_equal_and_share_nothing():
    spec = tree()
    other = spec.clone()
    assert other == spec == pickle.loads(pickle.dumps(spec))
    other["agent", "x"] = Unbounded(1)
    assert other != spec and ("agent", "x") not in spec


def test_the_repr_names_every_leaf_on_its_line():
    lines = repr(tree()).splitlines()
    assert any(line.strip().startswith("action: OneHot(n=4") for line in lines)


def test_a_generator_decides_the_draw():
    first, second = (tree().rand((4,), generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert (first == second).all()
