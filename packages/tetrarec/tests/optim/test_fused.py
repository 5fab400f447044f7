import pytest
import torch

from tetrarec.modules import EmbeddingBagConfig, FusedEmbeddingBagCollection, PoolingType
from tetrarec.optim import RowWiseAdagrad
from tetrarec.sparse import KeyedJaggedTensor

TABLES = [
    EmbeddingBagConfig(4, 2, "users", feature_names=["user"]),
    EmbeddingBagConfig(6, 3, "films", feature_names=["film"], pooling=PoolingType.MEAN),
]
BATCH = KeyedJaggedTensor(["user", "film"], torch.tensor([3, 1, 4, 1]), lengths=torch.tensor([1, 0, 1, 2]))


def trained(rate=0.5):
    bags = FusedEmbeddingBagCollection(TABLES, RowWiseAdagrad, {"lr": rate})
    bags(BATCH).values().sum().backward()
    return bags


def test_a_scheduler_sets_the_rate_that_backward_uses():
    bags = trained()
    optimizer = bags.fused_optimizer()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.0)
    optimizer.step()
    scheduler.step()
    before = [p.clone() for p in bags.parameters()]
    bags(BATCH).values().sum().backward()
    assert all(p.equal(old) for p, old in zip(bags.parameters(), before, strict=True))


@pytest.mark.parametrize("call", ["step", "zero_grad", "state_dict"])
def test_a_plain_number_is_taken_over(call):
    bags = trained()
    optimizer = bags.fused_optimizer()
    assert [group["lr"].item() for group in optimizer.param_groups] == [0.5, 0.5]
    for group in optimizer.param_groups:
        group["lr"] = 0.25
    getattr(optimizer, call)()
    assert [group["lr"].item() for group in optimizer.param_groups] == [0.25, 0.25]
    bags.set_learning_rate(0.125)
    assert [group["lr"].item() for group in optimizer.param_groups] == [0.125, 0.125]


def test_a_closure_computes_and_thereby_updates():
    bags = trained()
    before = bags.embedding_bags["users"].weight.clone()

    def closure():
        loss = bags(BATCH).values().sum()
        loss.backward()
        return loss

    assert bags.fused_optimizer().step(closure) is not None
    assert not bags.embedding_bags["users"].weight.equal(before)


def test_state_goes_out_and_in_by_table_name():
    bags = trained()
    saved = bags.fused_optimizer().state_dict()
    assert set(saved["state"]) == {"users.weight", "films.weight"}
    sums = saved["state"]["users.weight"]["users.weight.momentum_1"]
    torch.testing.assert_close(sums, torch.tensor([0.0, 0, 0, 1]))
    assert [(group["lr"], group["eps"]) for group in saved["param_groups"]] == [(0.5, 1e-8)] * 2
    other = FusedEmbeddingBagCollection(TABLES, RowWiseAdagrad, {"lr": 0.1})
    other.load_state_dict(bags.state_dict())
    other.fused_optimizer().load_state_dict(saved)
    for module in (bags, other):
        module(BATCH).values().sum().backward()
    for mine, theirs in zip(bags.parameters(), other.parameters(), strict=True):
        assert mine.equal(theirs)


def test_state_that_does_not_fit_is_refused():
    optimizer = trained().fused_optimizer()
    saved = optimizer.state_dict()
    with pytest.raises(KeyError, match=r"no state for 'users\.weight'"):
        optimizer.load_state_dict({"state": {}})
    saved["state"]["users.weight"] = {"users.weight.momentum_1": torch.zeros(5)}
    with pytest.raises(ValueError, match=r"users\.weight\.momentum_1 must be \(4,\), got \(5,\)"):
        optimizer.load_state_dict(saved)
