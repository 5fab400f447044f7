import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tetrarec.ops import lengths_to_offsets


@given(lengths=st.lists(st.integers(0, 9), max_size=8), dtype=st.sampled_from([torch.int32, torch.int64]))
def test_offsets_are_the_running_sum_in_the_same_dtype(lengths, dtype):
    got = lengths_to_offsets(torch.tensor(lengths, dtype=dtype))
    assert got.dtype == dtype
    assert got.tolist() == [sum(lengths[:n]) for n in range(len(lengths) + 1)]


def test_only_a_vector_has_offsets():
    with pytest.raises(ValueError, match=r"must be \[B\], got shape \(1, 2\)"):
        lengths_to_offsets(torch.ones(1, 2, dtype=torch.long))
