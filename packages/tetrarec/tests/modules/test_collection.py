import pytest
import torch
from torch.testing import assert_close

from tetrarec.modules import EmbeddingCollection, EmbeddingConfig
from tetrarec.sparse import KeyedJaggedTensor


def tables():
    return [
        EmbeddingConfig(5, 4, "t1", feature_names=["a", "b"]),
        EmbeddingConfig(7, 3, "t2", feature_names=["a"]),
    ]


BATCH = KeyedJaggedTensor(["b", "a"], torch.tensor([1, 2, 3, 4]), lengths=torch.tensor([2, 0, 1, 1]))


@pytest.mark.smoke
def test_every_id_gets_its_row_and_every_row_its_gradient():
    ec = EmbeddingCollection(tables(), need_indices=True)
    out = ec(BATCH)
    assert list(out) == ["a@t1", "b", "a@t2"]
    assert list(ec.state_dict()) == ["embeddings.t1.weight", "embeddings.t2.weight"]
    assert_close(out["b"].values(), ec.embeddings["t1"].weight[[1, 2]])
    assert out["b"].lengths().tolist() == [2, 0]
    assert out["b"].weights().tolist() == [1, 2]
    assert_close(out["a@t2"].values(), ec.embeddings["t2"].weight[[3, 4]])
    sum(part.values().sum() for part in out.values()).backward()
    assert ec.embeddings["t1"].weight.grad.sum(1).tolist() == [0, 4, 4, 4, 4]


def test_distinct_bags_are_repeated_for_the_full_batch():
    features = KeyedJaggedTensor(
        ["a", "b"],
        torch.tensor([0, 0, 2, 1]),
        lengths=torch.tensor([1, 1, 0, 2]),
        stride_per_key_per_rank=[[1], [3]],
        inverse_indices=(["b", "a"], torch.tensor([[2, 0, 1, 2], [0, 0, 0, 0]])),
    )
    ec = EmbeddingCollection(tables(), need_indices=True)
    out = ec(features)
    assert out["a@t1"].lengths().tolist() == [1, 1, 1, 1]
    assert out["b"].lengths().tolist() == [2, 1, 0, 2]
    assert out["b"].weights().tolist() == [2, 1, 0, 2, 1]
    assert_close(out["b"].values(), ec.embeddings["t1"].weight[[2, 1, 0, 2, 1]])


def test_it_tells_what_it_is():
    made = tables()
    made[0].init_fn = torch.nn.init.ones_
    ec = EmbeddingCollection(made, device="cpu")
    assert ec.embedding_configs() == made
    assert ec.embedding_names_by_table() == [["a@t1", "b"], ["a@t2"]]
    assert not ec.need_indices()
    assert ec.device == torch.device("cpu")
    assert (ec.embeddings["t1"].weight == 1).all()
    assert ec(BATCH)["b"].weights_or_none() is None


def test_mistakes_are_named():
    ec = EmbeddingCollection(tables())
    with pytest.raises(KeyError, match="EmbeddingCollection: no key 'b'"):
        ec(BATCH.permute([1]))
    with pytest.raises(ValueError, match="a name of its own"):
        EmbeddingCollection(tables() + tables())
