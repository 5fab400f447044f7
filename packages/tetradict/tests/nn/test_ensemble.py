import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tetradict import TensorDict
from tetradict.nn import EnsembleModule, TensorDictModule, TensorDictSequential


def net(source="a", target="b"):
    return TensorDictModule(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), [source], [target])


def test_every_copy_has_weights_of_its_own():
    module = net()
    before = [p.clone() for p in module.parameters()]
    ensemble = EnsembleModule(module, num_copies=3)
    for leaf in ensemble.params_td._leaves():
        assert leaf.shape[0] == 3 and isinstance(leaf, nn.Parameter)
        assert not any(torch.equal(leaf[i], leaf[i - 1]) for i in range(3))
    assert_close([p.detach() for p in module.parameters()], [p.detach() for p in before])
    assert {name.partition(".")[0] for name, _ in ensemble.named_parameters()} == {"params_td"}


def test_it_equals_the_copies_one_by_one():
    module = net()
    ensemble = EnsembleModule(module, num_copies=3)
    td = TensorDict({"a": torch.randn(5, 2)}, [5])
    out = ensemble(td)
    assert out.batch_size == (3, 5) and "b" not in td
    for params, row in zip(ensemble.params_td.detach().unbind(0), out["b"], strict=True):
        with params.to_module(module):
            assert_close(row, module(td.copy())["b"])
    out["b"].sum().backward()
    assert all(p.grad is not None for p in ensemble.parameters())


def test_ensembles_follow_one_another():
    seq = TensorDictSequential(EnsembleModule(net(), 4), EnsembleModule(net("b", "c"), 4, expand_input=False))
    out = seq(TensorDict({"a": torch.randn(5, 2)}, [5]))
    assert out.batch_size == (4, 5) and out["c"].shape == (4, 5, 2)


def test_all_may_be_drawn_anew():
    ensemble = EnsembleModule(net(), 2)
    before = ensemble.params_td.clone()
    kept = list(ensemble.parameters())
    ensemble.reset_parameters_recursive()
    assert all(
        not torch.equal(a, b) for a, b in zip(before._leaves(), ensemble.params_td._leaves(), strict=True)
    )
    assert all(a is b for a, b in zip(kept, ensemble.parameters(), strict=True))
    given = ensemble.params_td.detach().clone()
    assert ensemble.reset_parameters_recursive(given) is given


def test_no_copy_is_refused():
    with pytest.raises(ValueError, match="num_copies must be at least 1, got 0"):
        EnsembleModule(net(), 0)
