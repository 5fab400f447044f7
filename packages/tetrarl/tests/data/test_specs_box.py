import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from scipy.stats import kstest
from torch.testing import assert_close

from tetrarl.data import Bounded, BoundedContinuous, Unbounded, UnboundedContinuous, UnboundedDiscrete


def test_the_dtype_chooses_the_class():
    assert type(Bounded(-1, 1, (2,))) is BoundedContinuous
    assert Bounded(0, 9, (2,), dtype=torch.int32).domain == "discrete"
    assert type(Unbounded(2)) is UnboundedContinuous
    assert type(Unbounded(2, dtype=torch.uint8)) is UnboundedDiscrete
    assert UnboundedDiscrete(2).dtype == torch.int64


def test_a_dtype_that_the_class_does_not_hold_is_refused():
    with pytest.raises(ValueError, match="Bounded takes any dtype"):
        BoundedContinuous(0, 1, (2,), dtype=torch.int64)


def test_shape_and_dtype_follow_array_bounds():
    spec = Bounded(np.zeros((2, 3)), 1)
    assert spec.shape == (2, 3) and spec.dtype == torch.float64
    assert_close(spec.high, torch.ones(2, 3, dtype=torch.float64))


def test_numbers_as_bounds_want_a_shape():
    with pytest.raises(ValueError, match=r"pass shape=\(\)"):
        Bounded(-1, 1)


def test_bounds_that_do_not_fit_or_cross_are_refused():
    with pytest.raises(ValueError, match=r"don't broadcast to shape=\[2\]"):
        Bounded(torch.zeros(3), 1, shape=2)
    with pytest.raises(ValueError, match="low must not exceed high"):
        Bounded(1, -1, ())


def test_projection_clips_rounds_and_takes_nan_for_zero():
    spec = Bounded(torch.tensor([0.0, -1.0, 2.0]), torch.tensor([1.0, 1.0, torch.inf]))
    got = spec.project(torch.tensor([5.0, torch.nan, torch.inf]))
    assert_close(got, torch.tensor([1.0, 0.0, torch.inf]))
    assert Bounded(0, 5, (), dtype=torch.int64).project(torch.tensor(2.7)).item() == 3


def test_nan_is_not_in_a_bounded_spec_and_is_in_an_unbounded_one():
    assert not Bounded(-torch.inf, torch.inf, ()).is_in(torch.tensor(torch.nan))
    assert Unbounded(()).is_in(torch.tensor(torch.nan))


@pytest.mark.parametrize(
    ("low", "high"), [(-2.0, 3.0), (-1.0, np.inf), (-np.inf, 1.0), (-np.inf, np.inf)], ids=str
)
def test_draws_follow_the_distribution_of_gymnasium_boxes(low, high):
    box = Box(low, high, (20_000,), np.float32, seed=0)
    ours = Bounded(low, high, (20_000,)).rand(generator=torch.Generator().manual_seed(0))
    assert kstest(ours.numpy(), box.sample()).pvalue > 1e-3


def test_the_widest_finite_range_does_not_overflow():
    limit = torch.finfo(torch.float32).max
    value = Bounded(-limit, limit, (1000,)).rand(generator=torch.Generator().manual_seed(0))
    assert value.isfinite().all() and (value / limit).std() > 0.5


@pytest.mark.parametrize("bounds", [(-(2**63), 2**63 - 1), (-(2**62), 2**62), (0, 2**63 - 1)], ids=str)
def test_draws_of_the_widest_whole_ranges_are_spread_evenly(bounds):
    low, high = bounds
    value = Bounded(low, high, (20_000,), dtype=torch.int64).rand(generator=torch.Generator().manual_seed(0))
    unit = (value.double() - low) / (float(high) - low)
    assert kstest(unit.numpy(), "uniform").pvalue > 1e-3


def test_every_whole_number_of_a_small_range_is_drawn_about_as_often():
    value = Bounded(-2, 3, (60_000,), dtype=torch.int8).rand(generator=torch.Generator().manual_seed(0))
    counts = (value.long() + 2).bincount(minlength=6)
    assert len(counts) == 6
    assert (counts - 10_000).abs().max() < 6 * 10_000**0.5


def test_converting_to_another_dtype_changes_the_class():
    assert Bounded(0, 5, (2,)).to(torch.int32) == Bounded(0, 5, (2,), dtype=torch.int32)
    assert Unbounded(2).to(torch.bool) == Unbounded(2, dtype=torch.bool)


def test_specs_of_different_bounds_shape_or_dtype_differ():
    spec = Bounded(-1, 1, (2,))
    others = [
        Bounded(-1, 2, (2,)),
        Bounded(-1, 1, (3,)),
        Bounded(-1, 1, (2,), dtype=torch.float64),
        Unbounded(2),
    ]
    assert all(spec != other for other in others)
    assert spec == Bounded(torch.tensor([-1.0, -1.0]), torch.tensor([1.0, 1.0]))
