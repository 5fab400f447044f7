import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import one_hot
from torch.testing import assert_close

from tetrarl.data import Categorical, OneHot


@given(n=st.integers(1, 6), shape=st.lists(st.integers(1, 3), max_size=2))
def test_index_and_one_hot_forms_translate_into_each_other(n, shape):
    index = Categorical(n, shape)
    flags = index.to_one_hot_spec()
    value = index.rand()
    assert_close(index.to_one_hot(value), one_hot(value, n).bool())
    assert_close(flags.to_categorical(index.to_one_hot(value)), value)
    assert flags.to_categorical_spec() == index
    assert flags.is_in(index.to_one_hot(value))


def test_a_mask_closes_choices_for_drawing_checking_and_projecting():
    mask = torch.tensor([True, False, False, True])
    spec = Categorical(4, mask=mask)
    draws = spec.rand((400,), generator=torch.Generator().manual_seed(0))
    assert set(draws.tolist()) == {0, 3}
    assert not spec.is_in(torch.tensor(1))
    assert [spec.project(torch.tensor(i)).item() for i in range(4)] == [0, 0, 3, 3]
    flags = OneHot(4, mask=mask)
    assert set(flags.rand((400,)).int().argmax(-1).tolist()) == {0, 3}
    assert not flags.is_in(flags.encode(1))
    assert flags.to_numpy(flags.project(flags.encode(2))) == 3


def test_masks_differ_by_row_and_follow_indexing():
    mask = torch.tensor([[True, False], [False, True]])
    spec = Categorical(2, (2,), mask=mask)
    assert spec.rand((50,)).unique(dim=0).tolist() == [[0, 1]]
    assert spec[1] == Categorical(2, mask=mask[1])
    spec.update_mask(None)
    assert spec == Categorical(2, (2,))


def test_drawing_among_open_choices_is_even():
    spec = Categorical(3, mask=torch.tensor([True, False, True]))
    counts = spec.rand((10_000,), generator=torch.Generator().manual_seed(0)).bincount(minlength=3)
    assert counts[1] == 0 and abs(counts[0] - 5000) < 6 * 50


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Categorical(0), "n must be 1 or more, got 0"),
        (lambda: OneHot(3, (3, 2)), r"last size of shape must be 3, got shape=\[3, 2\]"),
        (lambda: Categorical(2, mask=torch.ones(2)), "mask must be bool"),
        (lambda: Categorical(2, mask=torch.ones(3).bool()), r"doesn't broadcast to \[2\]"),
        (lambda: OneHot(2, mask=torch.zeros(2).bool()), "at least one choice open"),
        (lambda: OneHot(3).encode(3), "0 .. n - 1 with n = 3, got 3"),
        (lambda: OneHot(3).encode(1.0), "must be integers"),
        (lambda: OneHot(3, (2, 3)).encode([1]), r"must end in \[2\], got \[1\]"),
        (lambda: OneHot(3).encode(torch.ones(2).bool()), r"must end in \[3\], got \[2\]"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_cutting_through_a_one_hot_value_is_refused():
    with pytest.raises(IndexError, match="holds one value together"):
        OneHot(3, (2, 3))[..., 0]
    with pytest.raises(ValueError, match="holds one value together"):
        OneHot(3, (2, 3)).flatten(0, 1)


def test_one_hot_takes_indices_of_any_integer_dtype_and_flags():
    spec = OneHot(3, dtype=torch.int64)
    want = torch.tensor([0, 0, 1])
    for value in (2, [2][0], torch.tensor(2, dtype=torch.int8), torch.tensor([False, False, True])):
        assert_close(spec.encode(value), want)


def test_projection_keeps_the_greatest_entry_the_first_of_equals():
    spec = OneHot(3, dtype=torch.float32)
    got = spec.project(torch.tensor([[0.2, 0.9, 0.3], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    assert_close(got, torch.tensor([[0.0, 1, 0], [1, 0, 0], [1, 0, 0]]))


def test_two_set_flags_or_none_are_not_one_hot():
    spec = OneHot(2)
    assert not spec.is_in(torch.tensor([True, True]))
    assert not spec.is_in(torch.tensor([False, False]))


def test_safe_translation_refuses_what_is_not_legal():
    with pytest.raises(AssertionError):
        Categorical(3).to_one_hot(torch.tensor(3), safe=True)
    with pytest.raises(AssertionError):
        OneHot(2).to_categorical(torch.tensor([True, True]), safe=True)


def test_a_categorical_of_two_may_be_bool():
    spec = Categorical(2, (1,), dtype=torch.bool)
    assert spec.rand((9,)).dtype == torch.bool and spec.is_in(torch.ones(1, dtype=torch.bool))
