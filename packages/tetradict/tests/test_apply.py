import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetradict import TensorDict


def example():
    return TensorDict({"a": torch.arange(3.0), "n": {"b": torch.ones(3, 2), "s": "text"}}, [3])


@pytest.mark.smoke
@given(data=st.data())
def test_apply_gives_what_the_function_gives_for_each_entry(data, trees):
    td = data.draw(trees)
    out = td.apply(lambda x: x.to(torch.float64) + 1, filter_empty=False)
    assert out.keys(True) == td.keys(True)
    for key, value in td.items(True, True):
        assert_close(out[key], value.to(torch.float64) + 1)


def test_named_apply_is_called_with_the_key():
    td, seen = example(), []
    td.named_apply(lambda name, x: seen.append(name))
    assert seen == ["a", "b"]
    td.named_apply(
        lambda name, x, y: seen.append((name, (x == y).all().item())), td.clone(), nested_keys=True
    )
    assert seen[2:] == [("a", True), (("n", "b"), True)]


def test_none_drops_an_entry_and_empties_are_dropped_as_asked():
    td = example().set("e", {})
    drop = lambda x: None if x.ndim > 1 else x  # noqa: E731
    td["m"] = {"c": torch.zeros(3, 1)}
    assert td.apply(drop).keys(True) == ["a", ("n", "s"), "n", "e"]
    assert td.apply(drop, filter_empty=False).keys(True) == ["a", ("n", "s"), "n", "e", "m"]
    assert td.apply(drop, filter_empty=True).keys(True) == ["a", ("n", "s"), "n"]
    plain = TensorDict({"a": torch.zeros(3)}, [3])
    assert plain.apply(lambda x: None) is None
    assert plain.apply(lambda x: None, filter_empty=True) is None
    assert plain.apply(lambda x: None, filter_empty=False).batch_size == (3,)
    assert TensorDict({}, [3]).apply(lambda x: None).batch_size == (3,)


def test_a_result_must_begin_with_the_batch_size_unless_another_is_given():
    td = example()
    for options in ({}, {"filter_empty": False}):
        with pytest.raises(RuntimeError, match=r"entry 'a' must have a shape .* \(3,\), got \(\)"):
            td.apply(lambda x: x.sum(), **options)
    out = td.apply(lambda x: x.sum(0), batch_size=[])
    assert out.batch_size == out["n"].batch_size == ()
    assert out["n", "s"] == "text"
    two = TensorDict({"a": torch.zeros(2, 3)}, [2, 3])
    with pytest.raises(RuntimeError, match=r"got \(3, 2\)"):
        two.apply(lambda x: x.T)
    assert two.apply(lambda x: x.T, batch_size=[3, 2], names=["x", "y"]).names == ["x", "y"]
    assert td.apply(lambda x: x.to("meta"), device="meta").device.type == "meta"


def test_others_stand_beside_and_a_default_for_what_they_lack():
    td = example()
    other = TensorDict({"a": torch.ones(3)}, [3])
    with pytest.raises(KeyError, match="'n'"):
        td.apply(torch.add, other)
    out = td.apply(lambda x, y: x if y is None else x + y, other, default=None)
    assert out["a"].tolist() == [1, 2, 3]
    assert out["n", "b"] is td["n", "b"]


def test_apply_in_place_writes_into_the_tensors():
    td = example().lock_()
    a = td["a"]
    assert td.apply(lambda x: x + 1, inplace=True) is td
    assert td["a"] is a
    assert a.tolist() == [1, 2, 3]
    td.apply(lambda x: x.zero_(), inplace=True)
    td.apply(lambda x: None, inplace=True)
    assert a.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="in place nothing but values can change"):
        td.apply(lambda x: x, inplace=True, batch_size=[])


def test_apply_may_be_called_with_nested_collections():
    td = example()
    out = td.apply(lambda x: x if isinstance(x, torch.Tensor) else x.select("b"), call_on_nested=True)
    assert out.keys(True) == ["a", ("n", "b"), "n"]
    td.apply(
        lambda x: None if isinstance(x, torch.Tensor) else x.exclude("b"), call_on_nested=True, inplace=True
    )
    assert td.keys(True) == ["a", ("n", "s"), "n"]


def test_results_may_be_other_values():
    td = TensorDict({"a": torch.zeros(3)}, [3]).apply(lambda x: {"x": x, "s": "text"})
    assert td["a", "s"] == "text"


def test_to_moves_and_casts():
    td = example()
    assert td.to(torch.float64)["n", "b"].dtype is torch.float64
    assert td.to(dtype=torch.int32, device="cpu")["a"].dtype is torch.int32
    on_cpu = td.to("cpu")
    assert on_cpu.device == on_cpu["n"].device == torch.device("cpu")
    assert on_cpu["a"] is td["a"]
    assert on_cpu.to("cpu") is on_cpu
    assert td.device is None
    meta = td.to("meta")
    assert meta["n", "b"].device.type == "meta"
    assert td.to(meta)["a"].device.type == "meta"
    assert td.to(torch.zeros(1, dtype=torch.float16))["a"].dtype is torch.float16
    assert td.to("cpu", torch.float16, True).cpu()["a"].dtype is torch.float16
    with pytest.raises(TypeError, match=r"unknown arguments \['batch'\]"):
        td.to("cpu", batch=3)
    with pytest.raises(TypeError, match="got list"):
        td.to([3])


def test_clone_copies_tensors_or_the_tree_alone():
    td = example()
    deep, shallow = td.clone(), td.clone(False)
    deep["a"].zero_()
    assert td["a"].tolist() == [0, 1, 2]
    assert shallow["a"] is td["a"]
    assert shallow["n"] is not td["n"]
    shallow["n"].pop("b")
    assert ("n", "b") in td


def test_gradients_are_recorded_through_a_collection():
    td = example().requires_grad_()
    assert td["n", "b"].requires_grad
    assert not td.detach()["a"].requires_grad
    (td * 3)["a"].sum().backward()
    assert td["a"].grad.tolist() == [3, 3, 3]
    assert not td.requires_grad_(False)["a"].requires_grad


def test_filling_is_in_place():
    td = example()
    a = td["a"]
    td.fill_("a", 4).fill_("n", 2)
    assert a.tolist() == [4, 4, 4]
    assert td["n", "b"].sum() == 12
    td.copy_(example())
    assert a.tolist() == [0, 1, 2]
    assert td.zero_()["n", "b"].sum() == 0


@pytest.mark.parametrize(
    "function", [torch.zeros_like, torch.ones_like, torch.empty_like, torch.rand_like, torch.randn_like]
)
def test_like_functions_keep_the_form(function):
    td = example()
    out = function(td)
    assert out.keys(True) == td.keys(True)
    assert out["n", "b"].shape == (3, 2)
    assert function(td, dtype=torch.float64)["a"].dtype is torch.float64
    assert function(td, device="meta").device.type == "meta"


def test_full_like_fills():
    assert torch.full_like(example(), 7)["n", "b"].tolist() == [[7, 7]] * 3


def test_shared_memory_is_shared_and_locked():
    td = example()
    assert not td.is_shared()
    assert td.share_memory_() is td
    assert td.is_shared()
    assert td.is_locked
    assert not TensorDict({}, []).is_shared()
