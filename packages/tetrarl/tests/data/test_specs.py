"""What every spec promises, whatever its kind."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetrarl.data import (
    Binary,
    Bounded,
    Categorical,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)

SIZES = st.lists(st.integers(0, 3), max_size=2).map(tuple)
FLOATS = st.sampled_from([torch.float32, torch.float64, torch.float16])
INTS = st.sampled_from([torch.int64, torch.int32, torch.int8, torch.uint8])
NUMBERS = st.integers(0, 100)


@st.composite
def masks(draw, n):
    if draw(st.booleans()):
        return None
    return torch.tensor(draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any)))


@st.composite
def specs(draw):
    shape, n = draw(SIZES), draw(st.integers(1, 5))
    nvec = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    low, high = sorted((draw(NUMBERS), draw(NUMBERS)))
    ends = draw(st.sampled_from([(-1.5, 2.5), (-torch.inf, 3.0), (-3.0, torch.inf), (-torch.inf, torch.inf)]))
    kinds = [
        lambda: Bounded(*ends, shape=shape, dtype=draw(FLOATS)),
        lambda: Bounded(low, high, shape=shape, dtype=draw(INTS)),
        lambda: Unbounded(shape, dtype=draw(FLOATS)),
        lambda: Unbounded(shape, dtype=draw(INTS)),
        lambda: Categorical(n, shape, mask=draw(masks(n))),
        lambda: OneHot(n, (*shape, n), mask=draw(masks(n))),
        lambda: Binary(n, (*shape, n)),
        lambda: MultiCategorical(nvec, (*shape, len(nvec))),
        lambda: MultiOneHot(nvec, (*shape, sum(nvec))),
    ]
    return draw(st.sampled_from(kinds))()


def noise(spec, seed):
    """Any tensor of the right shape and dtype: mostly not legal."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn((2, *spec.shape), generator=generator) * 50).to(spec.dtype)


@pytest.mark.smoke
@given(spec=specs(), batch=SIZES)
def test_rand_is_in_and_has_the_batch_in_front(spec: TensorSpec, batch):
    value = spec.rand(batch)
    assert value.shape == (*batch, *spec.shape) and value.dtype == spec.dtype
    assert spec.is_in(value)
    spec.assert_is_in(value)


@given(spec=specs(), seed=st.integers(0, 99))
def test_project_lands_in_and_a_second_time_changes_nothing(spec, seed):
    once = spec.project(noise(spec, seed))
    assert spec.is_in(once)
    assert spec.project(once) is once


@given(spec=specs(), seed=st.integers(0, 99))
def test_a_legal_value_is_projected_to_itself(spec, seed):
    value = spec.rand((2,), generator=torch.Generator().manual_seed(seed))
    assert spec.project(value) is value


@given(spec=specs())
def test_what_goes_out_to_numpy_comes_back_encoded(spec):
    value = spec.rand((2,))
    array = spec.to_numpy(value)
    assert isinstance(array, np.ndarray)
    assert_close(spec.encode(array), value, rtol=0, atol=0)
    assert_close(spec.encode(array.tolist() if array.size else array), value, rtol=0, atol=0)


@given(spec=specs())
def test_zero_and_one_fill_the_shape(spec):
    assert_close(spec.zero((2,)), torch.zeros(2, *spec.shape, dtype=spec.dtype))
    assert_close(spec.one((2,)), torch.ones(2, *spec.shape, dtype=spec.dtype))


@given(spec=specs())
def test_expanding_and_indexing_give_the_spec_back(spec):
    wide = spec.expand(2, 3, *spec.shape)
    assert wide.shape == (2, 3, *spec.shape)
    assert wide[1, 2] == spec
    assert wide.unbind(0)[1] == wide[0]
    assert wide.reshape(6, *spec.shape).unflatten(0, (2, 3)) == wide == wide.flatten(0, 1).view(*wide.shape)
    assert spec.unsqueeze(0).squeeze(0) == spec
    assert wide.is_in(wide.rand())


@given(spec=specs())
def test_a_clone_a_pickle_and_a_round_trip_of_devices_are_equal(spec):
    assert spec.clone() == spec == pickle.loads(pickle.dumps(spec))
    assert spec.to("cpu") == spec == spec.cpu()
    assert spec.to("meta").device.type == "meta" and spec.to("meta") != spec
    assert eval(repr(spec.shape.numel())) == spec.shape.numel() and type(spec).__name__ in repr(spec)


@given(spec=specs(), seed=st.integers(0, 99))
def test_a_generator_decides_the_draw(spec, seed):
    draws = [spec.rand((3,), generator=torch.Generator().manual_seed(seed)) for _ in range(2)]
    assert torch.equal(*draws)


@given(spec=specs())
def test_values_of_another_shape_dtype_or_kind_are_not_in(spec):
    value = spec.rand()
    if spec.shape:
        assert not spec.is_in(value.unsqueeze(-1).expand(*value.shape, 7))
    assert not spec.is_in(value.to(torch.complex64))
    assert not spec.is_in(value.tolist())


@pytest.mark.smoke
def test_assert_is_in_tells_value_spec_and_mend():
    with pytest.raises(
        AssertionError, match=r"float32 tensor of shape \[2\].*\[2\.0, 0\.0\].*low=-1.*project"
    ):
        Bounded(-1, 1, (2,)).assert_is_in(torch.tensor([2.0, 0.0]))


def test_encoding_the_wrong_shape_tells_both_shapes():
    with pytest.raises(ValueError, match=r"must end in \[3\], got \[4\]"):
        Unbounded(3).encode([1.0, 2.0, 3.0, 4.0])


def test_to_numpy_checks_when_asked():
    spec = Bounded(-1, 1, ())
    assert spec.to_numpy(torch.tensor(2.0)) == 2.0
    with pytest.raises(AssertionError):
        spec.to_numpy(torch.tensor(2.0), safe=True)


def test_unbinding_a_missing_dimension_is_refused():
    with pytest.raises(IndexError, match="no dimension 1"):
        Unbounded(3).unbind(1)
