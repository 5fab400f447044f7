import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from tetrarec.modules import DataType, EmbeddingBagCollection, EmbeddingBagConfig, PoolingType
from tetrarec.ops._embedding_bags import lie_together
from tetrarec.sparse import KeyedJaggedTensor


def tables(pooling=PoolingType.MEAN):
    return [
        EmbeddingBagConfig(5, 4, "t1", feature_names=["a", "b"]),
        EmbeddingBagConfig(7, 8, "t2", feature_names=["a"], pooling=pooling),
        EmbeddingBagConfig(9, 4, "t3", feature_names=["c"]),
    ]


def batch(seed=0, bags=4, weighted=True, keys=("c", "spare", "b", "a")):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 4, (len(keys) * bags,), generator=generator)
    values = torch.randint(0, 5, (int(lengths.sum()),), generator=generator)
    weights = torch.rand(len(values), dtype=torch.float64, generator=generator) if weighted else None
    return KeyedJaggedTensor(list(keys), values, weights, lengths=lengths)


def by_torch(ebc, features):
    """torch.nn.EmbeddingBag's function, table by table, sum pooled and divided where the table says mean."""
    parts, pooled = features.to_dict(), []
    for table in ebc.embedding_bag_configs():
        for feature in table.feature_names:
            part = parts[feature]
            out = torch.nn.functional.embedding_bag(
                part.values(),
                ebc.embedding_bags[table.name].weight,
                part.offsets(),
                mode="sum",
                include_last_offset=True,
                per_sample_weights=part.weights() if ebc.is_weighted() else None,
            )
            if table.pooling is PoolingType.MEAN:
                out = out / part.lengths().clamp(min=1).unsqueeze(1)
            pooled.append(out)
    return torch.cat(pooled, 1)


@pytest.mark.smoke
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_it_pools_as_torch_does_and_so_do_its_gradients(weighted):
    ebc = EmbeddingBagCollection(tables(), is_weighted=weighted).double()
    features = batch()
    got, want = ebc(features), by_torch(ebc, features)
    assert got.keys() == ["a@t1", "b", "a@t2", "c"]
    assert got.length_per_key() == [4, 4, 8, 4]
    assert_close(got.values(), want)
    grad = torch.randn_like(want)
    parameters = list(ebc.parameters())
    got.values().backward(grad)
    assert_close([p.grad for p in parameters], list(torch.autograd.grad(want, parameters, grad)))


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), bags=st.integers(0, 4), data=st.data())
def test_the_order_of_the_keys_does_not_matter(seed, bags, data):
    ebc = EmbeddingBagCollection(tables())
    features = batch(seed, bags, weighted=False)
    other = features.permute(data.draw(st.permutations(range(4))))
    assert_close(ebc(features).values(), ebc(other).values())


def distinct(features, places):
    """The batch of distinct bags that gives `features` once expanded by `places`."""
    strides = [[int(p.max()) + 1] for p in places]
    lengths, values, weights = [], [], []
    for key, place, (stride,) in zip(features.keys(), places, strides, strict=True):
        part = features[key]
        for bag in range(stride):
            sample = int((place == bag).nonzero()[0])
            span = slice(int(part.offsets()[sample]), int(part.offsets()[sample + 1]))
            lengths.append(part.lengths()[sample])
            values.append(part.values()[span])
            weights.append(part.weights()[span])
    return KeyedJaggedTensor(
        features.keys(),
        torch.cat(values),
        torch.cat(weights),
        lengths=torch.stack(lengths),
        stride_per_key_per_rank=strides,
        inverse_indices=(features.keys(), places),
    )


def expanded():
    """A full batch in which bags repeat, and the places of its distinct ones."""
    places = torch.tensor([[0, 1, 0, 2, 1], [0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [1, 0, 0, 1, 1]])
    small = batch(1, 5)
    pieces = {key: small[key] for key in small.keys()}
    lengths, values, weights = [], [], []
    for key, place in zip(small.keys(), places, strict=True):
        dense, scaled = pieces[key].to_dense(), pieces[key].to_dense_weights()
        lengths += [len(dense[p]) for p in place]
        values += [dense[p] for p in place]
        weights += [scaled[p] for p in place]
    full = KeyedJaggedTensor(
        small.keys(), torch.cat(values), torch.cat(weights), lengths=torch.tensor(lengths)
    )
    return full, places


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_distinct_bags_give_what_the_full_batch_gives(weighted):
    full, places = expanded()
    once = distinct(full, places)
    assert len(once.values()) < len(full.values())
    ebc = EmbeddingBagCollection(tables(), is_weighted=weighted).double()
    want, got = ebc(full).values(), ebc(once).values()
    assert_close(got, want)
    grad = torch.randn_like(want)
    parameters = list(ebc.parameters())
    assert_close(torch.autograd.grad(got, parameters, grad), torch.autograd.grad(want, parameters, grad))


def test_the_result_has_the_full_batch_of_inverse_indices():
    features = KeyedJaggedTensor(
        ["f0", "f1"],
        torch.tensor([0, 0, 2]),
        lengths=torch.tensor([1, 1, 1]),
        stride_per_key_per_rank=[[1], [2]],
        inverse_indices=(["f0", "f1"], torch.tensor([[0] * 5, [0, 1, 1, 0, 1]])),
    )
    ebc = EmbeddingBagCollection([
        EmbeddingBagConfig(10, 4, f"t{i}", feature_names=[f"f{i}"]) for i in range(2)
    ])
    assert ebc(features).values().shape == (5, 8)


@pytest.mark.parametrize("tables", [1, 3], ids=["one table", "three tables"])
def test_a_batch_of_one_key_with_distinct_bags_is_expanded(tables):
    places = torch.tensor([[1, 0, 1, 2, 2]])
    once = KeyedJaggedTensor(
        ["f"],
        torch.tensor([0, 4, 2, 3]),
        lengths=torch.tensor([2, 1, 1]),
        stride_per_key_per_rank=[[3]],
        inverse_indices=(["f"], places),
    )
    full = KeyedJaggedTensor(["f"], torch.tensor([2, 0, 4, 2, 3, 3]), lengths=torch.tensor([1, 2, 1, 1, 1]))
    ebc = EmbeddingBagCollection([
        EmbeddingBagConfig(5, 2 + i, f"t{i}", feature_names=["f"]) for i in range(tables)
    ])
    assert_close(ebc(once).values(), ebc(full).values())


def test_names_and_start_are_as_configured():
    made = tables()
    made[0].init_fn = torch.nn.init.ones_
    made[1].weight_init_min = made[1].weight_init_max = 0.25
    ebc = EmbeddingBagCollection(made)
    assert list(ebc.state_dict()) == [f"embedding_bags.t{i}.weight" for i in (1, 2, 3)]
    weights = [p.detach() for p in ebc.parameters()]
    assert (weights[0] == 1).all()
    assert (weights[1] == 0.25).all()
    assert 0.2 < weights[2].abs().max() <= 1 / 3
    assert ebc.embedding_bag_configs() == made
    assert ebc.device == torch.device("cpu")


@pytest.mark.parametrize("data_type", [DataType.FP16, DataType.BF16])
def test_tables_of_different_numbers_stand_side_by_side(data_type):
    made = tables()
    made[2].data_type = data_type
    ebc = EmbeddingBagCollection(made)
    got = ebc(batch(weighted=False))
    assert got.values().dtype == torch.float32
    part = batch(weighted=False)["c"]
    rows = ebc.embedding_bags["t3"].weight[part.values()].float()
    want = torch.stack([bag.sum(0) for bag in rows.split(part.lengths().tolist())])
    # At most 3 rows below 1/3 each are summed in float32 and rounded once.
    assert (got["c"] - want).abs().max() <= torch.finfo(data_type_of(ebc)).eps


def data_type_of(ebc):
    return ebc.embedding_bags["t3"].weight.dtype


def packed(ebc):
    return all(
        lie_together([ebc.embedding_bags[f"t{t + 1}"].weight for t in group.tables], group.layout)
        for group in ebc._plan.groups
    )


def test_tables_lie_side_by_side_and_do_so_again_after_a_move():
    ebc = EmbeddingBagCollection(tables())
    assert packed(ebc)
    parameters = list(ebc.parameters())
    want = ebc(batch(weighted=False)).values()
    moved = ebc.double()
    assert packed(moved)
    assert all(a is b for a, b in zip(parameters, moved.parameters(), strict=True))
    assert_close(moved(batch(weighted=False)).values().float(), want)
    for twin in (copy.deepcopy(ebc), pickle.loads(pickle.dumps(ebc))):
        assert packed(twin)
        assert_close(twin(batch(weighted=False)).values(), ebc(batch(weighted=False)).values())


def test_weights_put_elsewhere_are_still_looked_up():
    ebc = EmbeddingBagCollection(tables())
    ebc.load_state_dict({k: torch.ones_like(v) for k, v in ebc.state_dict().items()}, assign=True)
    assert not packed(ebc)
    features = batch(weighted=False)
    assert_close(ebc(features).values(), by_torch(ebc, features))


def test_on_the_meta_device_only_shapes_come_out():
    ebc = EmbeddingBagCollection(tables(), device="meta")
    out = ebc(batch(weighted=False).to("meta"))
    assert out.values().device.type == "meta"
    assert out.values().shape == (4, 20)
    made = ebc.to_empty(device="cpu")
    made.reset_parameters()
    assert made(batch(weighted=False)).values().isfinite().all()
    assert packed(made)


def test_mistakes_are_named():
    ebc = EmbeddingBagCollection(tables(), is_weighted=True)
    with pytest.raises(ValueError, match="has no weights"):
        ebc(batch(weighted=False))
    part = KeyedJaggedTensor(["a", "b", "c"], torch.rand(3), torch.rand(3), lengths=torch.ones(3).long())
    with pytest.raises(
        TypeError, match=r"values must be ids, \[N\] of int32 or int64, got torch.float32 \(3,\)"
    ):
        ebc(part)
    with pytest.raises(KeyError, match="EmbeddingBagCollection: no key 'a'"):
        ebc(batch(keys=("c", "b")))
    features = batch(weighted=False)
    bad = KeyedJaggedTensor(features.keys(), features.values() + 5, lengths=features.lengths())
    with pytest.raises(IndexError, match="in table 0, whose ids are 0 to 4"):
        EmbeddingBagCollection(tables())(bad)
    with pytest.raises(ValueError, match="a name of its own"):
        EmbeddingBagCollection(tables() + tables())


@pytest.mark.parametrize("shared", [False, True], ids=["one stride", "distinct bags"])
def test_it_compiles_without_a_break_for_any_batch_size(shared):
    ebc = EmbeddingBagCollection(tables(), is_weighted=True).double()
    twin = copy.deepcopy(ebc)

    def loss(module, features):
        out = module(features)
        return out["b"].sum() + out.values().square().sum()

    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for seed, bags in ((1, 5), (2, 6), (3, 9)):
        features = batch(seed, bags)
        if shared:
            places = torch.stack([torch.arange(bags) % (bags - i) for i in range(4)])
            features = distinct(expand_by(features, places), places)
        compiled(ebc, features).backward()
        loss(twin, features).backward()
        assert_close([p.grad for p in ebc.parameters()], [p.grad for p in twin.parameters()])


def expand_by(features, places):
    parts = features.to_dict()
    picked = {
        key: (
            [parts[key].to_dense()[p] for p in place],
            [parts[key].to_dense_weights()[p] for p in place],
        )
        for key, place in zip(features.keys(), places, strict=True)
    }
    values = [bag for bags, _ in picked.values() for bag in bags]
    weights = [bag for _, bags in picked.values() for bag in bags]
    lengths = torch.tensor([len(bag) for bag in values])
    return KeyedJaggedTensor(features.keys(), torch.cat(values), torch.cat(weights), lengths=lengths)
