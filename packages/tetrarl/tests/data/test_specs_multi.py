import pytest
import torch
from torch.testing import assert_close

from tetrarl.data import Binary, Categorical, MultiCategorical, MultiOneHot


def test_columns_and_groups_translate_into_each_other():
    index = MultiCategorical([2, 3], (4, 2))
    flags = index.to_one_hot_spec()
    value = index.rand()
    assert_close(flags.to_categorical(index.to_one_hot(value)), value)
    assert flags.is_in(index.to_one_hot(value)) and flags.to_categorical_spec() == index
    assert flags == MultiOneHot([2, 3], (4, 5))


def test_every_combination_is_drawn():
    draws = MultiCategorical([2, 3]).rand((300,), generator=torch.Generator().manual_seed(0))
    assert len(draws.unique(dim=0)) == 6
    assert len(Binary(3).rand((200,)).unique(dim=0)) == 8


def test_projection_works_column_by_column():
    assert MultiCategorical([2, 3]).project(torch.tensor([-1, 9])).tolist() == [0, 2]
    got = MultiOneHot([2, 2], dtype=torch.float32).project(torch.tensor([0.1, 0.2, 0.9, 0.3]))
    assert_close(got, torch.tensor([0.0, 1, 1, 0]))


def test_binary_takes_its_length_from_n_or_from_the_shape():
    assert Binary(3) == Binary(shape=3) == Binary(3, shape=(3,))
    assert isinstance(Binary(3), Categorical)
    with pytest.raises(ValueError, match="pass n"):
        Binary()
    with pytest.raises(ValueError, match="must be 3"):
        Binary(3, shape=(2,))


@pytest.mark.parametrize("nvec", [[], [2, 0], [[1, 2]], [1.5]], ids=str)
def test_a_strange_nvec_is_refused(nvec):
    with pytest.raises(ValueError, match="list of positive integers"):
        MultiCategorical(nvec)


def test_indices_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"got \[1, 3\]"):
        MultiOneHot([2, 3]).encode([1, 3])


def test_flags_pass_through_the_encoder():
    flags = torch.tensor([True, False, False, True])
    assert_close(MultiOneHot([2, 2], dtype=torch.int64).encode(flags), flags.long())
