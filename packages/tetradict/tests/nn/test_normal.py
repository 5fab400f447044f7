import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetradict.nn import (
    AddStateIndependentNormalScale,
    NormalParamExtractor,
    add_custom_mapping,
    biased_softplus,
    inv_softplus,
    mappings,
)

NAMES = [
    "softplus",
    "exp",
    "relu",
    "expln",
    "biased_softplus",
    "biased_softplus_0.5",
    "biased_softplus_2.0_0.1",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_mapping_is_positive_and_never_falls(name):
    y = mappings(name)(torch.linspace(-8, 8, 200).double())
    assert (y >= 0).all() and (y.diff() >= 0).all()


@given(bias=st.floats(0.1, 20), floor=st.floats(0, 0.09))
def test_a_biased_softplus_meets_its_bias_and_its_floor(bias, floor):
    f = biased_softplus(bias, floor)
    assert_close(f(torch.zeros((), dtype=torch.float64)).item(), bias)
    assert_close(f(torch.tensor(-1000.0, dtype=torch.float64)).item(), floor)


@given(x=st.floats(0.01, 50))
def test_inv_softplus_undoes_softplus(x):
    tensor = torch.tensor(x, dtype=torch.float64)
    assert_close(torch.nn.functional.softplus(torch.tensor(inv_softplus(x), dtype=torch.float64)), tensor)
    assert_close(torch.nn.functional.softplus(inv_softplus(tensor)), tensor)


def test_expln_and_its_slope_are_continuous_at_zero():
    x = torch.tensor([-1e-9, 0.0, 1e-9], dtype=torch.float64, requires_grad=True)
    y = mappings("expln")(x)
    assert_close(y, torch.ones(3, dtype=torch.float64))
    y.sum().backward()
    assert_close(x.grad, torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize(
    "name", ["tanh", "biased_softplus_x", "biased_softplus_1_2_3", "biased_softplus_0.001"]
)
def test_an_unknown_mapping_is_refused(name):
    with pytest.raises(ValueError, match="mappings: expected"):
        mappings(name)


@pytest.mark.parametrize("D", [1, 3])
def test_the_last_dimension_is_split(D):
    x = torch.randn(5, 2 * D)
    loc, scale = NormalParamExtractor(scale_mapping="exp", scale_lb=0.2)(x)
    assert_close(loc, x[:, :D])
    assert_close(scale, x[:, D:].exp().clamp(min=0.2))


def test_more_tensors_are_passed_through():
    extra = torch.ones(3)
    assert NormalParamExtractor()(torch.zeros(5, 2), extra)[2] is extra


def test_an_odd_dimension_is_refused():
    with pytest.raises(ValueError, match=r"must be even, got shape \(5, 3\)"):
        NormalParamExtractor()(torch.zeros(5, 3))


def test_it_compiles_in_one_graph():
    module = NormalParamExtractor()
    x = torch.randn(4, 6)
    assert_close(torch.compile(module, backend="aot_eager", fullgraph=True)(x), module(x))


def test_a_scale_of_its_own_follows_the_shape_of_the_location():
    module = AddStateIndependentNormalScale(4, scale_mapping="relu", init_value=2.0)
    loc, scale, extra = module(torch.randn(3, 2, 4), "extra")
    assert loc.shape == scale.shape == (3, 2, 4) and (scale == 2).all() and extra == "extra"
    scale.sum().backward()
    assert [name for name, p in module.named_parameters() if p.grad is not None] == [
        "state_independent_scale"
    ]
    kept = AddStateIndependentNormalScale(4, make_param=False, scale_lb=5.0)
    assert not list(kept.parameters()) and (kept(torch.zeros(4))[1] == 5).all()
    with pytest.raises(RuntimeError, match=r"expected a location that ends in \(4,\), got \(3,\)"):
        module(torch.zeros(3))


def test_a_mapping_may_be_added():
    add_custom_mapping("test_square", torch.square)
    assert_close(mappings("test_square")(torch.tensor(3.0)), torch.tensor(9.0))
    with pytest.raises(ValueError, match="there is a mapping 'exp' already"):
        add_custom_mapping("exp", torch.exp)
