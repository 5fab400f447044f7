import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad
from torch.testing import assert_close

from tetradict import TensorDict, TensorDictParams


class Tower(nn.Module):
    """Nested modules, a buffer, and one layer that stands in two places."""

    def __init__(self):
        super().__init__()
        shared = nn.Linear(4, 4)
        self.body = nn.Sequential(nn.Linear(3, 4), shared, nn.BatchNorm1d(4), shared)
        self.head = nn.Linear(4, 2, bias=False)

    def forward(self, x):
        return self.head(self.body(x))


MODULES = [
    lambda: (nn.Linear(3, 2), torch.randn(5, 3)),
    lambda: (Tower().eval(), torch.randn(5, 3)),
    lambda: (nn.LSTM(3, 2), torch.randn(5, 1, 3)),
]
each = pytest.mark.parametrize("make", MODULES, ids=["linear", "tower", "lstm"])


def first(out):
    return out[0] if isinstance(out, tuple) else out


def state(module):
    return [
        (name, id(value))
        for part in (module.named_parameters(), module.named_buffers())
        for name, value in part
    ]


@each
def test_the_entries_are_the_modules_own_tensors(make):
    module, _ = make()
    td = TensorDict.from_module(module)
    assert td.is_locked and td.batch_size == ()
    named = dict(module.named_parameters(remove_duplicate=False)) | dict(
        module.named_buffers(remove_duplicate=False)
    )
    assert {".".join(k) if isinstance(k, tuple) else k for k in td.keys(True, True)} == set(named)
    assert all(td[tuple(name.split("."))] is value for name, value in named.items())


@each
@pytest.mark.parametrize("options", [{}, {"preserve_module_state": False}, {"inplace": True}], ids=str)
def test_a_block_runs_with_other_weights_as_functional_call_does(make, options):
    module, x = make()
    torch.manual_seed(0)
    td = TensorDict.from_module(module).apply(lambda p: torch.rand_like(p.detach().float()).to(p.dtype))
    flat = {".".join(k) if isinstance(k, tuple) else k: v for k, v in td.items(True, True)}
    twin = copy.deepcopy(module)
    twin.load_state_dict(flat)
    before, plain = state(module), first(module(x))
    with td.to_module(module, **options):
        assert_close(first(module(x)), first(twin(x)))
    assert state(module) == before
    assert_close(first(module(x)), plain, rtol=0, atol=0)


def test_an_error_in_the_block_puts_the_weights_back_too():
    module = nn.Linear(3, 2)
    before = state(module)
    with pytest.raises(ZeroDivisionError), TensorDict.from_module(module).clone().to_module(module):
        _ = 1 / 0
    assert state(module) == before


def test_without_a_block_the_weights_stay_and_the_old_ones_come_back_as_a_collection():
    module = nn.Linear(3, 2)
    old = [module.weight, module.bias]
    new = TensorDict(weight=torch.zeros(2, 3), bias=torch.ones(2))
    swap = new.to_module(module)
    assert isinstance(module.weight, nn.Parameter) and list(module.state_dict()) == ["weight", "bias"]
    assert_close(module(torch.randn(4, 3)), torch.ones(4, 2))
    assert swap["weight"] is old[0] and swap["bias"] is old[1]
    swap.to_module(module)
    assert [module.weight, module.bias] == old or (module.weight is old[0] and module.bias is old[1])
    assert new.to_module(module, return_swap=False) is None


def test_what_stood_in_a_parameters_place_keeps_its_kind_unless_told():
    module = nn.BatchNorm1d(3)
    module.weight.requires_grad_(False)
    td = TensorDict(weight=torch.ones(3), running_mean=nn.Parameter(torch.ones(3)))
    td.to_module(module)
    assert isinstance(module.weight, nn.Parameter) and not module.weight.requires_grad
    assert not isinstance(module.running_mean, nn.Parameter) and "running_mean" in module.state_dict()
    TensorDict(weight=torch.ones(3)).to_module(module, preserve_module_state=False)
    assert "weight" not in dict(module.named_parameters()) and type(module.weight) is torch.Tensor


def test_gradients_reach_the_tensors_that_were_put_in():
    module = nn.Linear(3, 2)
    weight = torch.randn(2, 3, requires_grad=True)
    with TensorDict(weight=2 * weight, bias=torch.zeros(2)).to_module(module):
        module(torch.ones(3)).sum().backward()
    assert_close(weight.grad, torch.full((2, 3), 2.0))
    assert module.weight.grad is None


def test_grad_of_torch_func_goes_through():
    module, x = nn.Linear(3, 2), torch.randn(3)
    td = TensorDict.from_module(module).detach()

    def loss(params):
        with params.to_module(module):
            return module(x).square().sum()

    def plain(params):
        return functional_call(module, params, x).square().sum()

    want = grad(plain)(dict(td.items()))
    got = grad(loss)(td)
    assert isinstance(got, TensorDict)
    for key, value in want.items():
        assert_close(got[key], value)


def test_what_the_module_lacks_is_refused_by_name():
    with pytest.raises(
        KeyError, match=r"a Linear has no parameter, buffer or submodule 'scale'; it has \['weight'"
    ):
        TensorDict(scale=torch.ones(2)).to_module(nn.Linear(3, 2))


@pytest.mark.parametrize("inplace", [False, True])
def test_state_dict_hooks_may_take_part(inplace):
    module = nn.Linear(3, 2)
    td = TensorDict.from_module(module, use_state_dict=True).clone().unlock_()
    td["weight"].zero_()
    before = module.weight.clone()
    with td.to_module(module, use_state_dict=True, inplace=inplace):
        assert (module.weight == 0).all()
    assert_close(module.weight, before)


def test_several_modules_are_stacked_into_new_parameters():
    modules = [nn.BatchNorm1d(3) for _ in range(4)]
    td = TensorDict.from_modules(*modules)
    assert td.batch_size == () or td.batch_size == (4,)
    assert isinstance(td["weight"], nn.Parameter) and td["weight"].shape == (4, 3)
    assert not isinstance(td["running_mean"], nn.Parameter)
    assert_close(td["weight"], torch.stack([m.weight for m in modules]))
    params = TensorDict.from_modules(*modules, as_module=True)
    assert isinstance(params, TensorDictParams) and params.batch_size == (4,)
    with pytest.raises(ValueError, match="at least one module"):
        TensorDict.from_modules()
    with pytest.raises(ValueError, match="choose one"):
        TensorDict.from_modules(*modules, as_module=True, lazy_stack=True)


def test_what_all_modules_share_may_be_expanded():
    module = nn.Linear(3, 2)
    td = TensorDict.from_modules(module, module, expand_identical=True)
    assert td["weight"].shape == (2, 2, 3) and td["weight"].data_ptr() == module.weight.data_ptr()


@pytest.mark.parametrize("kind", ["plain", "params"])
def test_vmap_over_parameters_equals_the_calls_one_by_one(kind):
    modules = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(5)]
    td = TensorDict.from_modules(*modules, as_module=kind == "params")
    empty, x = copy.deepcopy(modules[0]).to("meta"), torch.randn(7, 3)

    def call(params, x):
        assert params.batch_size == ()
        with params.to_module(empty):
            return empty(x)

    want = torch.stack([module(x) for module in modules])
    assert_close(torch.vmap(call, (0, None))(td, x), want)
    compiled = torch.compile(torch.vmap(call, (0, None)), fullgraph=True, backend="aot_eager")
    assert_close(compiled(td, x), want)


@pytest.mark.parametrize("preserve", [True, False])
def test_a_block_compiles_in_one_graph(preserve):
    module, x = nn.Linear(3, 2), torch.randn(4, 3)
    before = state(module)
    td = TensorDict(weight=torch.randn(2, 3, requires_grad=True), bias=torch.zeros(2))

    def call(td, x):
        with td.to_module(module, preserve_module_state=preserve):
            return module(x)

    out = torch.compile(call, fullgraph=True, backend="aot_eager")(td, x)
    assert_close(out, x @ td["weight"].T)
    out.sum().backward()
    assert td["weight"].grad is not None and state(module) == before


def test_names_of_nn_are_found_at_the_top_too():
    import tetradict.nn

    assert tetradict.as_tensordict_module is tetradict.nn.as_tensordict_module
    assert set(tetradict.from_module(nn.Linear(2, 2)).keys()) == {"weight", "bias"}
    assert tetradict.from_modules(nn.Linear(2, 2), nn.Linear(2, 2))["bias"].shape == (2, 2)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tetradict.nothing
