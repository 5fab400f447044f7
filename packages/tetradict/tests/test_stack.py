import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import tetradict
from tetradict import NonTensorData, NonTensorStack, TensorDict


def leaves(td):
    return dict(td.items(True, True))


@given(data=st.data(), count=st.integers(1, 3))
def test_stack_stacks_every_entry(data, count, trees):
    td = data.draw(trees)
    items = [td.apply(lambda x, i=i: x.to(torch.float64) + i, filter_empty=False) for i in range(count)]
    dim = data.draw(st.integers(-td.ndim - 1, td.ndim))
    out = torch.stack(items, dim)
    at = dim % (td.ndim + 1)
    assert out.batch_size == (*td.shape[:at], count, *td.shape[at:])
    for key, value in leaves(out).items():
        assert_close(value, torch.stack([item[key] for item in items], at))
    assert [key for key in out.keys(True)] == [key for key in td.keys(True)]


@given(data=st.data())
def test_cat_joins_every_entry(data, trees_of):
    td = data.draw(trees_of(st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple)))
    dim = data.draw(st.integers(-td.ndim, td.ndim - 1))
    items = [td, td.clone(), td.split(1, dim)[0]]
    out = torch.cat(items, dim)
    at = dim % td.ndim
    assert out.batch_size[at] == 2 * td.shape[at] + 1
    for key, value in leaves(out).items():
        assert_close(value, torch.cat([item[key] for item in items], at))


@pytest.mark.smoke
def test_stack_and_cat_by_every_name():
    td = TensorDict({"a": torch.zeros(2, 3)}, [2])
    for stack in (torch.stack, TensorDict.stack, tetradict.stack):
        assert stack([td, td], 1).batch_size == (2, 2)
        assert stack((td, td), dim=0)["a"].shape == (2, 2, 3)
    for cat in (torch.cat, torch.concat, torch.concatenate, TensorDict.cat, tetradict.cat):
        assert cat([td, td], 0)["a"].shape == (4, 3)


def test_out_is_written_into():
    td = TensorDict({"a": torch.ones(2, 3), "n": {"b": torch.ones(2)}, "s": "text"}, [2])
    out = TensorDict({"a": torch.zeros(2, 2, 3), "n": {"b": torch.zeros(2, 2)}, "s": "old"}, [2, 2])
    before = out["a"]
    assert torch.stack([td, td + 1], 1, out=out) is out
    assert out["a"] is before
    assert out["n", "b"].tolist() == [[1, 2], [1, 2]]
    assert out["s"] == "text"
    joined = TensorDict({"a": torch.zeros(4, 3), "n": {"b": torch.zeros(4)}, "s": "old"}, [4])
    assert torch.cat([td, td + 1], out=joined)["n", "b"].tolist() == [1, 1, 2, 2]
    with pytest.raises(RuntimeError, match=r"stack: out must have the batch size \(2, 2\), got \(3, 2\)"):
        torch.stack([td, td], out=TensorDict({}, [3, 2]))
    with pytest.raises(RuntimeError, match="only some have"):
        torch.stack([td, td], out=TensorDict({}, [2, 2]))
    with pytest.raises(RuntimeError, match="entry 'a': out must be made of parts of shape"):
        torch.stack([td.select("a")] * 2, out=TensorDict({"a": torch.zeros(2, 2, 4)}, [2, 2]))


def test_what_cannot_be_joined_is_refused_with_the_entry():
    td = TensorDict({"a": torch.zeros(2, 3), "n": {"b": torch.zeros(2)}}, [2])
    odd = TensorDict({"a": torch.zeros(2, 4), "n": {"b": torch.zeros(2)}}, [2])
    for verb in (torch.stack, torch.cat):
        with pytest.raises(RuntimeError, match="entry 'a'"):
            verb([td, odd])
        for left, right in ((td, td.select("a")), (td.select("a"), td)):
            with pytest.raises(RuntimeError, match=r"only some have \['n'\]"):
                verb([left, right])
        with pytest.raises(RuntimeError, match=r"entry 'n'.*only some have \['c'\]"):
            verb([td, td.clone().set(("n", "c"), torch.zeros(2))])
        with pytest.raises(RuntimeError, match="entry 'n'"):
            verb([td, TensorDict({"a": torch.zeros(2, 3), "n": torch.zeros(2)}, [2])])
        with pytest.raises(TypeError, match="got a Tensor"):
            verb([td, torch.zeros(2)])
    with pytest.raises(RuntimeError, match=r"stack: expected one batch size, got \(2,\) and \(1,\)"):
        torch.stack([td, td[:1]])
    with pytest.raises(RuntimeError, match="cat: batch sizes may differ along dim 0 alone"):
        torch.cat([td, TensorDict({}, [2, 2])])
    with pytest.raises(RuntimeError, match="expected at least one"):
        tetradict.stack([])
    with pytest.raises(IndexError):
        torch.cat([td, td], 1)


def test_values_that_agree_stay_one_and_others_become_one_an_item():
    one, two = (TensorDict({"a": torch.zeros(2), "s": "same", "t": text}, [2]) for text in ("x", "y"))
    out = torch.stack([one, two])
    assert out["s"] == "same"
    assert out["t"] == [["x", "x"], ["y", "y"]]
    assert torch.stack([one, two], 1)["t"] == [["x", "y"], ["x", "y"]]
    assert torch.cat([one, two, out[0]])["t"] == ["x", "x", "y", "y", "x", "x"]
    assert out[1]["t"] == ["y", "y"]
    assert out[:, 0]["t"] == ["x", "y"]
    assert out[1, 0]["t"] == "y"
    assert isinstance(out[1, 0].get("t"), NonTensorData)


def test_one_value_and_values_an_item_are_joined():  # pytorch/tensordict#836
    one = TensorDict({"s": "a"}, [2])
    many = TensorDict({"s": NonTensorStack("b", "b")}, [2])
    assert torch.stack([one, many], 1)["s"] == [["a", "b"], ["a", "b"]]
    assert torch.cat([many, one])["s"] == ["b", "b", "a", "a"]
