import torch

from tetradict import TensorDict


def test_all_and_any_over_everything_or_along_a_dimension():
    td = TensorDict(
        {"a": torch.tensor([[True, False], [True, True]]), "n": {"b": torch.ones(2, 2, 1)}},
        [2, 2],
        names=["x", "y"],
    )
    assert td.all() is False
    assert td.any() is True
    assert torch.all(td[1]) is True
    out = td.all(1)
    assert out.batch_size == (2,)
    assert out.names == ["x"]
    assert out["a"].tolist() == [False, True]
    assert out["n", "b"].tolist() == [[True], [True]]
    assert torch.any(td, 0)["a"].tolist() == [True, True]
    assert td.any(dim=-1)["a"].dtype is torch.bool
    assert TensorDict({}, [2]).all() is True
    assert TensorDict({}, [2]).any() is False
