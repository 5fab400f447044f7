import pytest
import torch

from tetrarec.modules import EmbeddingBagConfig
from tetrarec.sparse import KeyedJaggedTensor, validate_keyed_jagged_tensor
from tetrarec.sparse._make import make


def raw(keys, values, lengths=None, offsets=None, **fields):
    """A batch that no constructor has seen."""
    tensors = {"values": torch.tensor(values), **fields}
    if lengths is not None:
        tensors["lengths"] = torch.tensor(lengths)
    if offsets is not None:
        tensors["offsets"] = torch.tensor(offsets)
    return make(KeyedJaggedTensor, keys=keys, **tensors)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (raw(["a", "a"], [1, 2], [1, 1]), "keys must be different"),
        (raw(["a"], [1, 2], [-1, 3]), "lengths must not be negative, got -1"),
        (raw(["a"], [1, 2], [1, 2]), "lengths must add up to the 2 values, got 3"),
        (raw(["a"], [1, 2], offsets=[1, 2, 3]), "offsets must go from 0 to the 2 values, got 1 to 3"),
        (raw(["a"], [1, 2], [1, 1], [0, 2, 2]), "running sum of lengths"),
        (
            raw(["a"], [1], [1], strides=[[1]], stride=2, inverse=(["a"], torch.tensor([[0, 1]]))),
            "inverse_indices of 'a' must be 0 to 0, got 1",
        ),
    ],
)
def test_what_metadata_cannot_show_is_found(batch, message):
    with pytest.raises(ValueError, match=message):
        validate_keyed_jagged_tensor(batch)


def test_ids_are_held_against_the_tables():
    tables = [EmbeddingBagConfig(4, 2, "films", feature_names=["film", "seen"])]
    batch = KeyedJaggedTensor(["film", "seen"], torch.tensor([3, 0]), lengths=torch.tensor([1, 0, 1, 0]))
    validate_keyed_jagged_tensor(batch, tables)
    with pytest.raises(ValueError, match="ids of 'film' must be 0 to 3, the rows of table 'films', got 4"):
        validate_keyed_jagged_tensor(
            KeyedJaggedTensor(batch.keys(), batch.values() + 1, lengths=batch.lengths()), tables
        )
    with pytest.raises(ValueError, match="keys must have 'seen', which table 'films' looks up"):
        validate_keyed_jagged_tensor(batch.permute([0]), tables)


def test_a_good_batch_passes():
    validate_keyed_jagged_tensor(KeyedJaggedTensor.empty())
    batch = KeyedJaggedTensor(
        ["a", "b"],
        torch.tensor([1, 2]),
        lengths=torch.tensor([1, 1, 0]),
        stride_per_key=[1, 2],
        inverse_indices=(["a", "b", "c"], torch.tensor([[0, 0], [1, 0], [9, 9]])),
    )
    validate_keyed_jagged_tensor(batch)
