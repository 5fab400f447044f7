import math

import pytest
import torch
from torch import distributions as D
from torch.testing import assert_close

from tetrarl.modules import IndependentNormal


@pytest.mark.parametrize(("event_dim", "batch"), [(1, (5, 2)), (2, (5,))])
def test_the_last_dimensions_are_summed(event_dim, batch):
    loc, scale = torch.randn(5, 2, 3), torch.rand(5, 2, 3) + 0.1
    dist = IndependentNormal(loc, scale, event_dim=event_dim)
    value = dist.rsample()
    want = D.Normal(loc, scale).log_prob(value).sum(tuple(range(-event_dim, 0)))
    assert dist.batch_shape == batch
    assert_close(dist.log_prob(value), want)


def test_all_its_middles_are_the_location():
    dist = IndependentNormal(torch.arange(3.0), 1.0)
    for value in (dist.mode, dist.mean, dist.deterministic_sample):
        assert_close(value, torch.arange(3.0))


def test_tanh_loc_bounds_the_location():
    dist = IndependentNormal(torch.tensor([100.0, 0.1]), 1.0, upscale=2.0, tanh_loc=True)
    assert_close(dist.mode, torch.tensor([2.0, 2 * math.tanh(0.05)]))


def test_it_compiles_in_one_graph():
    def run(loc, scale):
        dist = IndependentNormal(loc, scale)
        draw = dist.rsample()
        return draw, dist.log_prob(draw)

    loc, scale = torch.randn(5, 2), torch.rand(5, 2) + 0.1
    draw, log_prob = torch.compile(run, backend="aot_eager", fullgraph=True)(loc, scale)
    assert_close(log_prob, IndependentNormal(loc, scale).log_prob(draw))
