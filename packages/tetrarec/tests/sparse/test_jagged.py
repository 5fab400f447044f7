import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetrarec.sparse import JaggedTensor, jt_is_equal

LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=6)


def jagged(lengths, **options):
    lengths = torch.tensor(lengths)
    return JaggedTensor(torch.arange(1.0, int(lengths.sum()) + 1), lengths=lengths, **options)


@given(lengths=LENGTHS)
def test_dense_pieces_put_together_again_are_the_same_batch(lengths):
    batch = jagged(lengths)
    assert jt_is_equal(JaggedTensor.from_dense(batch.to_dense()), batch)


@given(lengths=LENGTHS)
def test_lengths_and_offsets_give_each_other(lengths):
    batch = jagged(lengths)
    again = JaggedTensor(batch.values(), offsets=batch.offsets())
    assert again.lengths_or_none() is None
    assert_close(again.lengths(), batch.lengths())
    assert len(again) == len(batch) == len(lengths)


@given(lengths=LENGTHS, size=st.integers(1, 6))
def test_padding_then_unpadding_keeps_what_fits(lengths, size):
    batch = jagged(lengths)
    padded = batch.to_padded_dense(size, padding_value=-1.0)
    want = [bag[:size].tolist() + [-1.0] * (size - len(bag)) for bag in batch.to_dense()]
    assert padded.tolist() == want
    again = JaggedTensor.from_dense_lengths(padded, batch.lengths().clamp(max=size))
    assert [bag.tolist() for bag in again.to_dense()] == [bag[:size].tolist() for bag in batch.to_dense()]


def test_padding_defaults_to_the_longest_bag():
    assert_close(jagged([1, 3]).to_padded_dense(), torch.tensor([[1.0, 0, 0], [2, 3, 4]]))


def test_padding_takes_rows_and_gives_their_gradient():
    values = torch.randn(3, 2, requires_grad=True)
    padded = JaggedTensor(values, lengths=torch.tensor([2, 0, 1])).to_padded_dense(1)
    assert padded.shape == (3, 1, 2)
    padded.sum().backward()
    assert values.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]


def test_padding_nothing_gives_padding():
    batch = JaggedTensor(torch.empty(0, 2), lengths=torch.zeros(3, dtype=torch.long))
    assert_close(batch.to_padded_dense(2, -1.0), torch.full((3, 2, 2), -1.0))
    assert JaggedTensor.empty().to_padded_dense().shape == (0, 0)


def test_weights_go_along():
    batch = JaggedTensor.from_dense(
        [torch.tensor([1, 2]), torch.tensor([3])], [torch.ones(2), torch.zeros(1)]
    )
    assert [w.tolist() for w in batch.to_dense_weights()] == [[1.0, 1.0], [0.0]]
    assert batch.to_padded_dense_weights(1).tolist() == [[1.0], [0.0]]
    assert repr(batch) == "JaggedTensor([[1, 2], [3]], weights=[[1.0, 1.0], [0.0]])"


def test_padding_exports_with_a_dynamic_length():
    class Padder(torch.nn.Module):
        def forward(self, values, lengths):
            return JaggedTensor(values, lengths=lengths).to_padded_dense(4)

    dim = torch.export.Dim("n", min=2, max=64)
    shapes = {"values": {0: dim}, "lengths": None}
    program = torch.export.export(Padder(), (torch.arange(5.0), torch.tensor([2, 3])), dynamic_shapes=shapes)
    got = program.module()(torch.arange(3.0), torch.tensor([1, 2]))
    assert_close(got, torch.tensor([[0.0, 0, 0, 0], [1, 2, 0, 0]]))


def test_dense_pieces_off_the_default_device_keep_lengths_there():
    batch = JaggedTensor.from_dense([torch.empty(2, device="meta"), torch.empty(3, device="meta")])
    assert batch.lengths().device.type == batch.offsets().device.type == "meta"
    assert "meta" in repr(batch)


def test_moving_and_copying_shapes():
    batch = JaggedTensor.from_dense([torch.ones(2), torch.ones(1)], [torch.ones(2), torch.ones(1)])
    assert batch.to("meta").weights().device.type == "meta"
    assert JaggedTensor.empty_like(batch, device="meta").values().shape == (3,)
    assert batch.size_in_bytes() == 3 * 4 + 3 * 4 + 2 * 8 + 3 * 8


def test_missing_weights_are_named():
    with pytest.raises(ValueError, match="has no weights; weights_or_none"):
        jagged([1]).weights()
    assert jagged([1]).weights_or_none() is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "needs lengths or offsets, got neither"),
        ({"lengths": torch.ones(2)}, "lengths must be int32 or int64, got torch.float32"),
        ({"offsets": torch.ones(2)}, "offsets must be int32 or int64, got torch.float32"),
        ({"lengths": torch.ones(2, 2, dtype=torch.long)}, r"lengths must be 1-D, got \(2, 2\)"),
        ({"offsets": torch.ones(0, dtype=torch.long)}, "offsets must hold one more item"),
        ({"lengths": torch.ones(2).long(), "offsets": torch.ones(2).long()}, "got 2 offsets for 2 lengths"),
        ({"lengths": torch.ones(2).long(), "weights": torch.ones(3)}, "one for each of the 2 values, got"),
        ({"lengths": torch.ones(2, device="meta").long()}, "lengths must lie on cpu"),
    ],
)
def test_bad_metadata_is_named(fields, message):
    with pytest.raises(ValueError, match=message):
        JaggedTensor(torch.zeros(2), **fields)


def test_a_scalar_and_an_empty_list_are_refused():
    with pytest.raises(ValueError, match="values must be"):
        JaggedTensor(torch.tensor(1.0), lengths=torch.ones(1).long())
    with pytest.raises(ValueError, match="needs at least one tensor"):
        JaggedTensor.from_dense([])
    with pytest.raises(ValueError, match=r"weights must have the lengths of values, \[1\], got \[2\]"):
        JaggedTensor.from_dense([torch.ones(1)], [torch.ones(2)])


def test_batches_that_differ_are_not_equal():
    batch = jagged([1, 2])
    assert not jt_is_equal(batch, jagged([2, 1]))
    assert not jt_is_equal(batch, "batch")
    assert not jt_is_equal(batch, JaggedTensor(batch.values() + 1, lengths=batch.lengths()))
    weighted = JaggedTensor(batch.values(), batch.values(), batch.lengths())
    assert not jt_is_equal(batch, weighted)
    assert not jt_is_equal(weighted, JaggedTensor(batch.values(), batch.values() + 1, batch.lengths()))
    assert jt_is_equal(weighted, JaggedTensor(batch.values(), batch.values(), offsets=batch.offsets()))
