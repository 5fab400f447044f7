import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tetrarec.sparse import KeyedJaggedTensor, kjt_is_equal


@st.composite
def batches(draw):
    """Any keyed batch: with or without weights, keys of one stride or of their own."""
    keys = [f"f{i}" for i in range(draw(st.integers(1, 4)))]
    variable = draw(st.booleans())
    stride = draw(st.integers(0, 4))
    strides = [draw(st.integers(0, 4)) if variable else stride for _ in keys]
    lengths = torch.tensor(
        draw(st.lists(st.integers(0, 3), min_size=sum(strides), max_size=sum(strides))), dtype=torch.int64
    )
    values = torch.arange(int(lengths.sum())) * 7 % 11
    weights = torch.arange(len(values)) / 2 if draw(st.booleans()) else None
    inverse = None
    if variable and min(strides) > 0 and draw(st.booleans()):
        inverse = (keys[::-1], torch.stack([torch.arange(5) % size for size in strides[::-1]]))
    return KeyedJaggedTensor(
        keys,
        values,
        weights,
        lengths=lengths,
        stride_per_key=strides if variable else None,
        inverse_indices=inverse,
    )


def bags(batch):
    """The plain program's view of a batch: key to lists."""
    out, first = {}, 0
    offsets = batch.offsets().tolist()
    for key, size in zip(batch.keys(), batch.stride_per_key(), strict=True):
        spans = zip(offsets[first : first + size], offsets[first + 1 : first + size + 1], strict=True)
        out[key] = [batch.values()[a:b].tolist() for a, b in spans]
        first += size
    return out


@given(batch=batches(), data=st.data())
def test_split_then_concat_is_the_batch(batch, data):
    cut = data.draw(st.integers(0, len(batch.keys())))
    pieces = batch.split([cut, len(batch.keys()) - cut])
    assert [piece.keys() for piece in pieces] == [batch.keys()[:cut], batch.keys()[cut:]]
    again = KeyedJaggedTensor.concat(pieces)
    assert kjt_is_equal(again, batch)
    assert again.variable_stride_per_key() == batch.variable_stride_per_key()
    assert again.length_per_key_or_none() == batch.length_per_key()


@given(batch=batches(), data=st.data())
def test_a_permutation_and_its_inverse_is_the_batch(batch, data):
    order = data.draw(st.permutations(range(len(batch.keys()))))
    there = batch.permute(order)
    assert bags(there) == {key: bags(batch)[key] for key in there.keys()}
    inverse = [order.index(place) for place in range(len(order))]
    assert kjt_is_equal(there.permute(inverse), batch)
    assert kjt_is_equal(batch.permute(order, torch.tensor(order)), there)


@given(batch=batches(), data=st.data())
def test_permute_repeats_and_drops_keys(batch, data):
    chosen = data.draw(st.lists(st.integers(0, len(batch.keys()) - 1), max_size=5))
    got = batch.permute(chosen)
    want = [bags(batch)[batch.keys()[place]] for place in chosen]
    assert [
        bags(piece)[key] for piece, key in zip(got.split([1] * len(chosen)), got.keys(), strict=True)
    ] == want
    assert got.length_per_key() == got.unsync().length_per_key()


@given(batch=batches())
def test_the_parts_by_key_are_the_batch(batch):
    parts = batch.to_dict()
    assert {key: [bag.tolist() for bag in part.to_dense()] for key, part in parts.items()} == bags(batch)
    assert all(part.offsets().tolist() == batch[key].offsets().tolist() for key, part in parts.items())
    again = KeyedJaggedTensor.from_jt_dict(parts, force_variable_stride=batch.variable_stride_per_key())
    assert kjt_is_equal(again, batch)


def test_pieces_keep_reading_the_full_batch_they_belong_to():
    places = torch.tensor([[0, 1, 1], [0, 0, 0]])
    batch = KeyedJaggedTensor(
        ["a", "b"],
        torch.tensor([1, 2, 3]),
        lengths=torch.tensor([1, 1, 1]),
        stride_per_key_per_rank=[[2], [1]],
        inverse_indices=(["a", "b"], places),
    )
    assert [piece.stride() for piece in batch.split([1, 1])] == [3, 3]
    assert batch.permute([1]).stride() == 3
    joined = KeyedJaggedTensor.concat(batch.split([1, 1]))
    assert joined.inverse_indices()[0] == ["a", "b"]
    assert joined.inverse_indices()[1].equal(places)


def test_batches_that_do_not_fit_are_refused():
    two = KeyedJaggedTensor(["a"], torch.tensor([1]), lengths=torch.tensor([1, 0]))
    three = KeyedJaggedTensor(["b"], torch.tensor([1]), lengths=torch.tensor([1, 0, 0]))
    with pytest.raises(ValueError, match=r"stride must be the same, got \[2, 3\]"):
        KeyedJaggedTensor.concat([two, three])
    weighted = KeyedJaggedTensor(["b"], torch.tensor([1]), torch.ones(1), lengths=torch.tensor([1, 0]))
    with pytest.raises(ValueError, match="all must have weights or none, got weights in 1 of 2"):
        KeyedJaggedTensor.concat([two, weighted])
    with pytest.raises(ValueError, match="needs at least one batch"):
        KeyedJaggedTensor.concat([])
    with pytest.raises(ValueError, match=r"segments must add up to 1 keys, got \[2\]"):
        two.split([2])
    with pytest.raises(ValueError, match=r"indices must be 0 to 0, got \[1\]"):
        two.permute([1])
    with pytest.raises(ValueError, match="indices_tensor must hold the 1 indices"):
        two.permute([0], torch.tensor([0, 0]))
    inverse = KeyedJaggedTensor(
        ["b"],
        torch.tensor([1]),
        lengths=torch.tensor([1]),
        stride_per_key=[1],
        inverse_indices=(["b"], torch.tensor([[0, 0]])),
    )
    with pytest.raises(ValueError, match="all must have inverse_indices or none"):
        KeyedJaggedTensor.concat([two, inverse])
