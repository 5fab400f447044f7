import pytest
import torch
from torch.distributions import Normal
from torch.testing import assert_close

from tetradict.nn import TruncatedNormal

stats = pytest.importorskip("scipy.stats", reason="needs scipy, whose truncnorm is the oracle")

CASES = [
    (0.0, 1.0, -1.0, 1.0),
    (1.0, 2.0, 3.0, 9.0),
    (-2.0, 0.5, -4.0, 1.0),
    (0.0, 1.0, 4.0, 6.0),
    (0.0, 3.0, -9.0, 0.5),
]


def both(*case):
    loc, scale, a, b = case
    ours = TruncatedNormal(*(torch.tensor(v, dtype=torch.float64) for v in case))
    return ours, stats.truncnorm((a - loc) / scale, (b - loc) / scale, loc, scale)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_moments_are_those_of_scipy(case):
    ours, scipy = both(*case)
    for name in ("mean", "variance", "median"):
        want = {"mean": scipy.mean, "variance": scipy.var, "median": scipy.median}[name]()
        assert_close(float(getattr(ours, name)), float(want), rtol=1e-9, atol=1e-9)
    assert_close(float(ours.entropy()), float(scipy.entropy()), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_density_and_quantiles_are_those_of_scipy(case):
    ours, scipy = both(*case)
    x = torch.linspace(case[2], case[3], 101, dtype=torch.float64)
    p = torch.linspace(0, 1, 101, dtype=torch.float64)
    assert_close(ours.log_prob(x), torch.as_tensor(scipy.logpdf(x)), rtol=1e-9, atol=1e-9)
    assert_close(ours.cdf(x), torch.as_tensor(scipy.cdf(x)), rtol=1e-9, atol=1e-10)
    assert_close(ours.icdf(p), torch.as_tensor(scipy.ppf(p)), rtol=1e-7, atol=1e-7)
    assert_close(ours.cdf(ours.icdf(p)), p, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_far_tail_is_nearly_exponential(side):
    """Beyond 30 deviations what is left decays as exp(-30 x): mean excess 1/30, to the next order 1/30 - 2/30^3."""
    bounds = sorted([30.0 * side, 60.0 * side])
    dist = TruncatedNormal(*(torch.tensor(v, dtype=torch.float64) for v in (0.0, 1.0, *bounds)))
    excess = 1 / 30 - 2 / 30**3
    assert_close(float(dist.mean) * side, 30 + excess, rtol=1e-6, atol=0)
    draws = dist.rsample((2000,))
    assert draws.isfinite().all() and (draws * side >= 30).all()
    assert_close(float((draws * side - 30).mean()), excess, rtol=0, atol=5 * excess / 2000**0.5)


def test_without_bounds_it_is_normal():
    inf = torch.tensor(float("inf"), dtype=torch.float64)
    loc = torch.tensor([0.5, -3.0], dtype=torch.float64)
    dist, normal = TruncatedNormal(loc, loc.abs(), -inf, inf, validate_args=False), Normal(loc, loc.abs())
    assert_close(dist.mean, normal.mean)
    assert_close(dist.variance, normal.variance)
    assert_close(dist.entropy(), normal.entropy())
    x = torch.linspace(-5, 5, 11, dtype=torch.float64)[:, None]
    assert_close(dist.log_prob(x), normal.log_prob(x))


def test_draws_have_the_gradient_of_the_quantile():
    case = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.3, 1.2, -1.0, 2.0)]
    p = torch.tensor(0.37, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *c: TruncatedNormal(*c, validate_args=False).icdf(p), case)
    (TruncatedNormal(*case).rsample((3,)).sum()).backward()
    assert all(value.grad is not None for value in case)


def test_outside_of_the_bounds_there_is_nothing():
    dist = TruncatedNormal(torch.zeros(1), torch.ones(1), -1.0, 1.0, validate_args=False)
    assert (dist.log_prob(torch.tensor([[-1.5], [2.0]])) == -torch.inf).all()
    assert_close(dist.cdf(torch.tensor([[-1.5], [2.0]])), torch.tensor([[0.0], [1.0]]))
    assert_close(TruncatedNormal(torch.zeros(1), torch.ones(1), 1.0, 2.0).mode, torch.ones(1))


def test_bounds_the_wrong_way_round_are_refused():
    with pytest.raises(ValueError, match="the lower bound a must be below"):
        TruncatedNormal(torch.zeros(1), torch.ones(1), 1.0, -1.0, validate_args=True)
