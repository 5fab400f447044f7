import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tetradict.nn import ProbabilisticTensorDictModule
from torch import distributions as D
from torch.testing import assert_close

from tetrarl.modules import TanhNormal


def transformed(loc, scale, low, high):
    """The same distribution made of torch's parts."""
    middle, half = (low + high) / 2, (high - low) / 2
    return D.TransformedDistribution(
        D.Normal(loc, scale), [D.TanhTransform(), D.AffineTransform(middle, half)]
    )


@given(
    loc=st.floats(-3, 3),
    scale=st.floats(0.05, 3),
    low=st.floats(-5, 4),
    width=st.floats(0.1, 9),
    u=st.floats(-0.99, 0.99),
)
def test_the_density_is_that_of_the_transformed_normal(loc, scale, low, width, u):
    loc, scale, u = (torch.tensor([x], dtype=torch.float64) for x in (loc, scale, u))
    value = low + width * (u + 1) / 2
    got = TanhNormal(loc, scale, low=low, high=low + width).log_prob(value)
    assert_close(got, transformed(loc, scale, low, low + width).log_prob(value)[0])


@pytest.mark.parametrize(("loc", "scale"), [(0.2, 1.0), (-1.0, 0.3), (0.0, 2.0)])
def test_the_density_integrates_to_one(loc, scale):
    # over the normal variable, where the integrand is smooth: dy = half (1 - tanh²) dx
    x = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    dist = TanhNormal(torch.tensor([loc]).double(), torch.tensor([scale]).double(), low=-2.0, high=3.0)
    y = 0.5 + 2.5 * x.tanh()
    density = dist.log_prob(y[:, None]).exp() * 2.5 * (1 - x.tanh() ** 2)
    inside = x.abs() < 12
    assert_close(torch.trapezoid(density[inside], x[inside]).item(), 1.0, rtol=1e-3, atol=0)


@given(loc=st.floats(-2, 2), scale=st.floats(0.1, 2))
def test_the_mode_is_the_arg_max_of_the_density(loc, scale):
    dist = TanhNormal(torch.tensor([loc], dtype=torch.float64), torch.tensor([scale], dtype=torch.float64))
    x = torch.linspace(-14, 14, 20001, dtype=torch.float64)  # a fine grid also where the interval is squeezed
    grid = x.tanh()[:, None]
    best = dist.log_prob(grid).max()
    assert dist.log_prob(dist.mode) >= best - 1e-4
    assert torch.equal(dist.get_mode(), dist.mode)


@pytest.mark.smoke
def test_the_mode_of_a_wide_one_lies_short_of_the_end():
    dist = TanhNormal(torch.tensor([0.2]), torch.tensor([1.0]), low=-1, high=1)
    assert_close(dist.mode.item(), 0.973, atol=1e-3, rtol=0)


def test_the_mode_moves_with_the_parameters_as_its_gradient_says():
    loc, scale = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in ([0.3, -0.8], [0.5, 1.2]))
    assert torch.autograd.gradcheck(lambda a, b: TanhNormal(a, b, low=-2.0, high=2.0).mode, (loc, scale))


def test_half_of_the_draws_lie_below_the_median():
    torch.manual_seed(0)
    dist = TanhNormal(torch.tensor([0.3]), torch.tensor([0.7]), low=-2.0, high=4.0)
    below = (dist.sample((20000,)) < dist.median).float().mean()
    assert abs(below - 0.5) < 5 * 0.5 / 20000**0.5
    assert_close(dist.median, 1 + 3 * torch.tensor([0.3]).tanh())
    assert_close(dist.deterministic_sample, dist.median)


@pytest.mark.parametrize(
    "ends", [(-1.0, 1.0), (torch.tensor([-2.0, 0.0]).double(), torch.tensor([1.0, 3.0]).double())]
)
def test_a_draw_comes_with_its_log_density_and_that_with_its_gradient(ends):
    def make():
        torch.manual_seed(0)
        loc, scale = (torch.tensor(x).double().requires_grad_() for x in ([0.3, -1.0], [0.5, 1.2]))
        return (loc, scale), TanhNormal(loc, scale, low=ends[0], high=ends[1])

    params, dist = make()
    value, log_prob = dist.rsample_and_log_prob((50,))
    others, other = make()
    same = other.rsample((50,))
    assert_close((value, log_prob), (same, other.log_prob(same)))
    got = torch.autograd.grad((value.sum(-1) * log_prob).sum(), params)
    assert_close(got, torch.autograd.grad((same.sum(-1) * other.log_prob(same)).sum(), others))
    assert not any(x.requires_grad for x in dist.sample_and_log_prob())


def test_draws_keep_off_the_ends_and_have_a_density_and_a_gradient():
    loc = torch.tensor([30.0, -30.0], requires_grad=True)
    dist = TanhNormal(loc, torch.ones(2), low=-3.0, high=5.0)
    x = dist.rsample((100,))
    assert (x < 5).all() and (x > -3).all()
    dist.log_prob(x).sum().backward()
    assert loc.grad.isfinite().all()


@pytest.mark.parametrize("end", [-1.0, 1.0, 7.0])
def test_a_value_on_or_past_an_end_has_a_finite_density(end):
    dist = TanhNormal(torch.zeros(1), torch.ones(1))
    assert dist.log_prob(torch.tensor([end])).isfinite()


def test_gradients_agree_with_finite_differences():
    loc, scale, value = (torch.rand(3, dtype=torch.float64, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(
        lambda a, b, v: TanhNormal(a, b + 0.2).log_prob(v * 0.9), (loc, scale, value)
    )


@pytest.mark.parametrize(("event_dims", "batch"), [(None, (5, 2)), (0, (5, 2, 3)), (1, (5, 2)), (2, (5,))])
def test_event_dims_are_summed(event_dims, batch):
    dist = TanhNormal(torch.zeros(5, 2, 3), torch.ones(5, 2, 3), event_dims=event_dims)
    assert dist.batch_shape == batch
    assert dist.log_prob(dist.sample()).shape == batch
    assert dist.sample((7,)).shape == (7, 5, 2, 3)
    assert dist.support.check(dist.sample()).shape == batch


def test_a_number_of_its_own_is_one_event():
    dist = TanhNormal(torch.tensor(0.0), 1.0)
    assert dist.log_prob(dist.sample()).shape == ()


def test_ends_may_differ_by_dimension():
    low, high = torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 10.0])
    dist = TanhNormal(torch.zeros(5, 2), 1.0, low=low, high=high)
    assert_close(dist.median, torch.tensor([0.0, 5.0]).expand(5, 2))
    want = transformed(torch.zeros(5, 2), 1.0, low, high).log_prob(dist.median + 0.1).sum(-1)
    assert_close(dist.log_prob(dist.median + 0.1), want)


def test_tanh_loc_bounds_the_location():
    dist = TanhNormal(torch.tensor([100.0, 0.1]), 1.0, upscale=2.0, tanh_loc=True)
    assert_close(dist.loc, torch.tensor([2.0, 2 * math.tanh(0.05)]))


def test_it_expands():
    dist = TanhNormal(torch.zeros(3), torch.ones(3), low=-2.0, high=2.0).expand((4,))
    assert dist.batch_shape == (4,) and dist.rsample().shape == (4, 3) and dist.high == 2.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_dtype_is_kept(dtype):
    dist = TanhNormal(torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype))
    for value in (dist.rsample(), dist.mode, dist.median):
        assert (
            value.dtype == dtype and dist.log_prob(value).dtype == dtype and dist.log_prob(value).isfinite()
        )


def test_a_mean_is_left_to_draws():
    with pytest.raises(NotImplementedError):
        _ = TanhNormal(torch.zeros(1), 1.0).mean


def test_ends_the_wrong_way_round_are_refused():
    with pytest.raises(ValueError, match=r"low must be below high, got low=1, high=-1"):
        TanhNormal(torch.zeros(1), 1.0, low=1, high=-1)


@pytest.mark.parametrize("kind", ["random", "deterministic", "mode"])
def test_it_compiles_in_one_graph(kind):
    module = ProbabilisticTensorDictModule(
        ["loc", "scale"],
        ["action"],
        distribution_class=TanhNormal,
        return_log_prob=True,
        default_interaction_type=kind,
    )
    loc, scale = torch.randn(5, 2), torch.rand(5, 2) + 0.1
    action, log_prob = torch.compile(module, backend="aot_eager", fullgraph=True)(loc, scale)
    assert_close(TanhNormal(loc, scale).log_prob(action), log_prob)
