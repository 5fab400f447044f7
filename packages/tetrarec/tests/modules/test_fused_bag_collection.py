import copy
import pickle

import pytest
import torch
from torch.testing import assert_close

from tetrarec.modules import (
    DataType,
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    FusedEmbeddingBagCollection,
    PoolingType,
)
from tetrarec.optim import RowWiseAdagrad
from tetrarec.sparse import KeyedJaggedTensor

EPS = 1e-6


def tables():
    return [
        EmbeddingBagConfig(5, 4, "t1", feature_names=["a", "b"]),
        EmbeddingBagConfig(7, 8, "t2", feature_names=["a"], pooling=PoolingType.MEAN),
        EmbeddingBagConfig(9, 4, "t3", feature_names=["c"]),
    ]


def batch(seed=0, bags=4):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 4, (4 * bags,), generator=generator)
    values = torch.randint(0, 5, (int(lengths.sum()),), generator=generator)
    weights = torch.rand(len(values), dtype=torch.float64, generator=generator)
    return KeyedJaggedTensor(["c", "spare", "b", "a"], values, weights, lengths=lengths)


def distinct(features):
    """The same keys, each with bags of its own."""
    strides = [[2], [1], [3], [features.stride()]]
    bags = sum(rank[0] for rank in strides)
    places = torch.stack([torch.arange(features.stride()) % rank[0] for rank in strides])
    lengths = features.lengths()[:bags]
    count = int(lengths.sum())
    return KeyedJaggedTensor(
        features.keys(),
        features.values()[:count],
        features.weights()[:count],
        lengths=lengths,
        stride_per_key_per_rank=strides,
        inverse_indices=(features.keys(), places),
    )


def fused(weighted=False, rate=0.3):
    return FusedEmbeddingBagCollection(
        tables(), RowWiseAdagrad, {"lr": rate, "eps": EPS}, is_weighted=weighted
    )


@pytest.mark.smoke
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("shared", [False, True], ids=["one stride", "distinct bags"])
def test_it_learns_what_gradients_and_the_optimizer_would(weighted, shared):
    bags = fused(weighted).double()
    plain = EmbeddingBagCollection(tables(), weighted).double()
    plain.load_state_dict(bags.state_dict())
    optimizer = RowWiseAdagrad(plain.parameters(), lr=0.3, eps=EPS)
    # The rate was made in float32.
    optimizer.param_groups[0]["lr"] = bags.fused_optimizer().param_groups[0]["lr"].item()
    for seed in range(3):
        features = distinct(batch(seed)) if shared else batch(seed)
        got, want = bags(features), plain(features)
        assert got.keys() == want.keys()
        assert_close(got.values(), want.values())
        for out in (got, want):
            (out.values() * torch.arange(20.0, dtype=torch.float64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        assert_close(dict(bags.state_dict()), dict(plain.state_dict()))


def test_its_parameters_ask_for_no_gradient_and_are_seen():
    bags = fused()
    assert [name for name, _ in bags.named_parameters()] == [f"embedding_bags.t{i}.weight" for i in (1, 2, 3)]
    assert not any(p.requires_grad for p in bags.parameters())
    model = torch.nn.Sequential(bags, torch.nn.Linear(20, 1))
    assert sum(p.numel() for p in model.parameters()) == 5 * 4 + 7 * 8 + 9 * 4 + 21
    before = bags.embedding_bags["t1"].weight.clone()
    dense = torch.optim.SGD(model.parameters(), lr=1.0)
    model[1](bags(batch()).values()).sum().backward()
    moved = bags.embedding_bags["t1"].weight.clone()
    dense.step()
    assert not moved.equal(before)
    assert bags.embedding_bags["t1"].weight.equal(moved)


def test_weights_of_the_batch_may_learn():
    bags = fused(weighted=True).double()
    features = batch()
    weights = features.weights().clone().requires_grad_()
    learned = KeyedJaggedTensor(features.keys(), features.values(), weights, lengths=features.lengths())
    plain = EmbeddingBagCollection(tables(), True).double()
    plain.load_state_dict(bags.state_dict())
    (want,) = torch.autograd.grad(plain(learned).values().sum(), weights)
    bags(learned).values().sum().backward()
    assert_close(weights.grad, want)


def aliased(bags):
    before = bags.embedding_bags["t1"].weight.clone()
    bags(batch()).values().sum().backward()
    return not bags.embedding_bags["t1"].weight.equal(before)


def test_copies_and_moves_stay_alive():
    bags = fused()
    assert aliased(bags)
    state = bags.fused_optimizer().state_dict()["state"]["t1.weight"]["t1.weight.momentum_1"].clone()
    for twin in (copy.deepcopy(bags), pickle.loads(pickle.dumps(bags)), copy.deepcopy(bags).double()):
        assert_close(dict(twin.state_dict()), dict(bags.state_dict()), check_dtype=False)
        saved = twin.fused_optimizer().state_dict()["state"]["t1.weight"]["t1.weight.momentum_1"]
        assert_close(saved, state, check_dtype=False)
        assert aliased(twin)
        assert (saved >= state).all()
        assert (saved > state).any()
    parameters = list(bags.parameters())
    assert all(a is b for a, b in zip(parameters, bags.to("cpu").parameters(), strict=True))


@pytest.mark.parametrize("assign", [False, True], ids=["copied", "assigned"])
def test_loaded_weights_are_the_ones_looked_up(assign):
    bags, other = fused(), fused()
    bags.load_state_dict({k: v.clone() for k, v in other.state_dict().items()}, assign=assign)
    assert_close(bags(batch()).values(), other(batch()).values())
    assert not any(p.requires_grad for p in bags.parameters())
    assert aliased(bags)
    weights = set(bags.parameters())
    assert {p for group in bags.fused_optimizer().param_groups for p in group["params"]} == weights
    assert set(bags.fused_optimizer().state) == weights


def test_from_the_meta_device_it_starts_anew():
    bags = FusedEmbeddingBagCollection(tables(), RowWiseAdagrad, {"lr": 0.25}, device="meta")
    assert bags(batch().to("meta")).values().shape == (4, 20)
    bags = bags.to_empty(device="cpu")
    bags.reset_parameters()
    assert bags.device == torch.device("cpu")
    assert bags.fused_optimizer().state_dict()["param_groups"][0]["lr"] == 0.25
    assert aliased(bags)


@pytest.mark.parametrize("data_type", [DataType.FP16, DataType.BF16])
def test_narrow_tables_learn(data_type):
    made = tables()
    made[2].data_type = data_type
    bags = FusedEmbeddingBagCollection(made, RowWiseAdagrad, {"lr": 0.5})
    before = bags.embedding_bags["t3"].weight.clone()
    bags(batch()).values().sum().backward()
    after = bags.embedding_bags["t3"].weight
    seen = batch()["c"].values().unique()
    assert (after[seen] < before[seen]).all()
    assert after.dtype == before.dtype


def test_it_tells_what_it_is():
    bags = fused(weighted=True)
    assert bags.optimizer_type() is RowWiseAdagrad
    assert bags.optimizer_kwargs() == {"lr": 0.3, "eps": EPS}
    assert bags.is_weighted()
    assert [table.name for table in bags.embedding_bag_configs()] == ["t1", "t2", "t3"]
    assert "RowWiseAdagrad({'lr': 0.3, 'eps': 1e-06}) in backward" in repr(bags)
    assert "(t1): _Table(5, 4, dtype=torch.float32)" in repr(bags)


def test_what_it_cannot_do_is_refused():
    with pytest.raises(
        TypeError, match=r"must be tetrarec.optim.RowWiseAdagrad, got <class 'torch.optim.adam.Adam'>"
    ):
        FusedEmbeddingBagCollection(tables(), torch.optim.Adam, {})
    with pytest.raises(TypeError, match="may hold lr, eps, got momentum, weight_decay as well"):
        FusedEmbeddingBagCollection(tables(), RowWiseAdagrad, {"weight_decay": 1, "momentum": 1, "lr": 1})
    with pytest.raises(ValueError, match="has no weights"):
        fused(weighted=True)(
            KeyedJaggedTensor(["a", "b", "c"], torch.zeros(0).long(), lengths=torch.zeros(3).long())
        )


def test_a_training_step_compiles_without_a_break_for_any_batch_size():
    bags, dense = fused(weighted=True), torch.nn.Linear(20, 1)
    twin, dense_twin = copy.deepcopy(bags), copy.deepcopy(dense)

    def loss(module, head, features):
        return head(module(features).values()).square().mean()

    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for seed, size in ((1, 5), (2, 6), (3, 9)):
        compiled(bags, dense, batch(seed, size)).backward()
        loss(twin, dense_twin, batch(seed, size)).backward()
        assert_close(dict(bags.state_dict()), dict(twin.state_dict()))
        assert_close(dense.weight.grad, dense_twin.weight.grad)
        for module in (bags, twin):  # a new rate is used without compiling anew
            module.set_learning_rate(0.1 * seed)
    states = (
        m.fused_optimizer().state_dict()["state"]["t2.weight"]["t2.weight.momentum_1"] for m in (bags, twin)
    )
    assert_close(*states)
