"""Which rows a batch is made of."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tetrarl.data import LazyTensorStorage, RandomSampler, SamplerWithoutReplacement, TensorStorage


def storage(rows):
    return TensorStorage(torch.zeros(rows))


def test_random_rows_are_uniform_and_independent():
    sampler = RandomSampler()
    sampler.generator = torch.Generator().manual_seed(0)
    rows, draws = 20, 40_000
    index, _ = sampler.sample(storage(rows), draws)
    counts = torch.bincount(index, minlength=rows).double()
    expected = draws / rows
    assert ((counts - expected).pow(2) / expected).sum() < 45  # chi-square, 19 degrees: p = 0.0007
    pairs = torch.bincount(index[:-1] * rows + index[1:], minlength=rows * rows).double()
    expected = (draws - 1) / rows**2
    assert ((pairs - expected).pow(2) / expected).sum() < 493  # 399 degrees: p = 0.001


@given(
    rows=st.integers(1, 20), batch_size=st.integers(1, 25), shuffle=st.booleans(), passes=st.integers(1, 3)
)
def test_a_pass_gives_each_row_once(rows, batch_size, shuffle, passes):
    sampler = SamplerWithoutReplacement(shuffle=shuffle)
    for _ in range(passes):
        seen = []
        while True:
            seen += sampler.sample(storage(rows), batch_size)[0].tolist()
            if sampler.ran_out:
                break
        assert (sorted(seen) if shuffle else seen) == list(range(rows))


@given(rows=st.integers(1, 20), batch_size=st.integers(1, 25))
def test_drop_last_gives_full_batches_alone(rows, batch_size):
    sampler = SamplerWithoutReplacement(drop_last=True)
    if batch_size > rows:
        with pytest.raises(RuntimeError, match=f"{rows} rows never fills {batch_size}"):
            sampler.sample(storage(rows), batch_size)
        return
    batches = []
    while not batches or not sampler.ran_out:
        batches.append(sampler.sample(storage(rows), batch_size)[0])
    assert [len(batch) for batch in batches] == [batch_size] * (rows // batch_size)
    assert len(torch.cat(batches).unique()) == len(torch.cat(batches))


def test_a_larger_batch_than_is_left_starts_a_new_pass_with_drop_last():
    sampler = SamplerWithoutReplacement(drop_last=True, shuffle=False)
    sizes = [2, 5, 6]
    assert [sampler.sample(storage(6), size)[0].tolist() for size in sizes] == [
        [0, 1],
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4, 5],
    ]


def test_a_pass_starts_over_when_the_storage_grew():
    sampler = SamplerWithoutReplacement(shuffle=False)
    sampler.sample(storage(4), 2)
    assert sampler.sample(storage(5), 2)[0].tolist() == [0, 1]


@pytest.mark.parametrize("sampler", [RandomSampler, SamplerWithoutReplacement])
def test_an_empty_storage_is_refused_with_the_mend(sampler):
    with pytest.raises(RuntimeError, match=r"LazyTensorStorage holds no row yet; extend"):
        sampler().sample(LazyTensorStorage(3), 1)
