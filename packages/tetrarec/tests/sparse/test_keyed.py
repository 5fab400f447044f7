import pytest
import torch
from torch.testing import assert_close

from tetrarec.sparse import KeyedTensor


def keyed(*names, start=0):
    widths = [2 + place for place, _ in enumerate(names)]
    values = torch.arange(start, start + 2.0 * sum(widths)).view(2, -1)
    return KeyedTensor(list(names), widths, values)


def test_it_tells_what_it_holds():
    got = keyed("a", "b")
    assert (got.keys(), got.length_per_key(), got.offset_per_key(), got.key_dim()) == (
        ["a", "b"],
        [2, 3],
        [0, 2, 5],
        1,
    )
    assert_close(got["b"], got.values()[:, 2:])
    assert_close(got.to_dict()["a"], got.values()[:, :2])
    assert repr(got) == "KeyedTensor({a: 2, b: 3}, values=(2, 5) torch.float32 on cpu)"
    assert got.to("meta").values().is_meta
    assert got.size_in_bytes() == 40
    assert got.device() == torch.device("cpu")


def test_a_list_of_tensors_becomes_one():
    got = KeyedTensor.from_tensor_list(["a", "b"], [torch.ones(2, 1), torch.zeros(2, 3)])
    assert got.length_per_key() == [1, 3]
    flat = KeyedTensor.from_tensor_list(["a", "b"], [torch.ones(1), torch.zeros(3)], key_dim=0, cat_dim=0)
    assert flat["b"].tolist() == [0, 0, 0]


def test_regroup_picks_columns_from_several_tensors():
    one, two = keyed("a", "b"), keyed("c", "d", start=100)
    got = KeyedTensor.regroup([one, two], [["d", "a"], ["b"], ["a", "a"]])
    want = [torch.cat([two["d"], one["a"]], 1), one["b"], torch.cat([one["a"], one["a"]], 1)]
    assert_close(got, want)
    named = KeyedTensor.regroup_as_dict([one, two], [["c"], ["b"]], ["x", "y"])
    assert_close(named, {"x": two["c"], "y": one["b"]})


def test_regroup_gives_gradients_of_repeated_and_skipped_keys():
    values = torch.randn(2, 5, requires_grad=True)
    one, two = KeyedTensor.regroup([KeyedTensor(["a", "b"], [2, 3], values)], [["a"], ["a"]])
    (one.sum() + 2 * two.sum()).backward()
    assert_close(values.grad, torch.tensor([[3.0, 3, 0, 0, 0]] * 2))


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="one width for each of 2 keys"):
        KeyedTensor(["a", "b"], [5], torch.zeros(2, 5))
    with pytest.raises(ValueError, match=r"must add up to 5, dimension 1 of values, got \[2, 2\]"):
        KeyedTensor(["a", "b"], [2, 2], torch.zeros(2, 5))
    with pytest.raises(ValueError, match=r"key_dim must be a dimension of \(5,\), got 1"):
        KeyedTensor(["a"], [5], torch.zeros(5))
    with pytest.raises(KeyError, match="no key 'c'"):
        keyed("a", "b")["c"]
    with pytest.raises(KeyError, match="no key 'c'"):
        KeyedTensor.regroup([keyed("a")], [["c"]])
    with pytest.raises(ValueError, match="'a' stands in several"):
        KeyedTensor.regroup([keyed("a"), keyed("a")], [["a"]])
    with pytest.raises(ValueError, match="must name each of 1 groups"):
        KeyedTensor.regroup_as_dict([keyed("a")], [["a"]], ["x", "y"])
