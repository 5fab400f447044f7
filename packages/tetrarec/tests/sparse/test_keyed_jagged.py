import pytest
import torch
from torch.testing import assert_close

from tetrarec.sparse import JaggedTensor, KeyedJaggedTensor, kjt_is_equal


def batch(**options):
    return KeyedJaggedTensor(
        ["user", "film"], torch.tensor([3, 1, 4, 1]), lengths=torch.tensor([1, 0, 1, 2]), **options
    )


def distinct_bags(weights=None):
    """f0 has one distinct bag [0]; f1 three, [0], [], [2]; the full batch is 5."""
    places = torch.tensor([[0, 0, 0, 0, 0], [0, 1, 1, 0, 2]])
    return KeyedJaggedTensor(
        ["f0", "f1"],
        torch.tensor([0, 0, 2]),
        weights,
        lengths=torch.tensor([1, 1, 0, 1]),
        stride_per_key_per_rank=[[1], [3]],
        inverse_indices=(["f0", "f1"], places),
    )


@pytest.mark.smoke
def test_a_batch_tells_what_it_holds():
    got = batch()
    assert got.keys() == ["user", "film"]
    assert got.stride() == 2
    assert got.stride_per_key() == [2, 2]
    assert got.stride_per_key_per_rank() == []
    assert not got.variable_stride_per_key()
    assert got.length_per_key_or_none() is None
    assert got.length_per_key() == [1, 3]
    assert got.offset_per_key() == [0, 1, 4]
    assert got.lengths_offset_per_key() == [0, 2, 4]
    assert got.index_per_key() == {"user": 0, "film": 1}
    assert_close(got.offsets(), torch.tensor([0, 1, 1, 2, 4]))
    assert got.device() == torch.device("cpu")
    assert got["film"].to_dense()[1].tolist() == [4, 1]


def test_offsets_are_as_good_as_lengths():
    got = KeyedJaggedTensor(
        ["user", "film"], torch.tensor([3, 1, 4, 1]), offsets=torch.tensor([0, 1, 1, 2, 4])
    )
    assert got.lengths_or_none() is None
    assert kjt_is_equal(got, batch())
    again = KeyedJaggedTensor.from_offsets_sync(["user", "film"], got.values(), got.offsets())
    assert again.length_per_key_or_none() == [1, 3]


def test_sync_fills_the_sums_and_unsync_drops_them():
    got = KeyedJaggedTensor.from_lengths_sync(
        ["user", "film"], torch.tensor([3, 1, 4, 1]), torch.tensor([1, 0, 1, 2])
    )
    assert got.length_per_key_or_none() == [1, 3]
    assert got.offset_per_key_or_none() == [0, 1, 4]
    assert got.unsync() is got
    assert got.length_per_key_or_none() is None
    assert got.offset_per_key_or_none() is None


def test_a_key_of_its_own_stride_is_counted_by_bags():
    got = distinct_bags()
    assert got.stride() == 5
    assert got.stride_per_key() == [1, 3]
    assert got.stride_per_key_per_rank() == [[1], [3]]
    assert got.length_per_key() == [1, 2]
    assert [bag.tolist() for bag in got["f1"].to_dense()] == [[0], [], [2]]
    assert got.inverse_indices()[0] == ["f0", "f1"]
    with pytest.raises(ValueError, match="has no inverse_indices"):
        batch().inverse_indices()


def test_strides_may_be_a_tensor_or_one_number_a_key():
    values, lengths = torch.tensor([0, 0, 2]), torch.tensor([1, 1, 0, 1])
    by_rank = KeyedJaggedTensor(
        ["a", "b"], values, lengths=lengths, stride_per_key_per_rank=torch.tensor([[1, 0], [2, 1]])
    )
    assert by_rank.stride_per_key_per_rank() == [[1, 0], [2, 1]]
    by_key = KeyedJaggedTensor(["a", "b"], values, lengths=lengths, stride_per_key=[1, 3])
    assert by_key.stride_per_key() == by_rank.stride_per_key() == [1, 3]
    assert by_key.stride() == 3  # without inverse indices the largest


def test_it_prints_a_key_a_line():
    assert repr(batch()) == 'KeyedJaggedTensor({\n    "user": [[3], []],\n    "film": [[1], [4, 1]]\n})'
    weighted = repr(batch(weights=torch.tensor([1.0, 2.0, 3.0, 0.5])))
    assert '"film": [[1], [4, 1]], weights [[2.0], [3.0, 0.5]]' in weighted
    long = KeyedJaggedTensor(["a"], torch.arange(100), lengths=torch.tensor([10] * 10))
    assert "... 10 bags" in repr(long)
    assert "... 10 values" in repr(long)
    assert repr(batch().to("meta")).endswith("on meta; user: 2 bags, film: 2 bags)")
    assert repr(KeyedJaggedTensor.empty()) == "KeyedJaggedTensor({})"


def test_moving_keeps_everything():
    weighted = distinct_bags(torch.rand(3)).sync()
    moved = weighted.to("meta")
    assert moved.values().is_meta
    assert moved.weights().is_meta
    assert moved.inverse_indices()[1].is_meta
    assert moved.length_per_key_or_none() == [1, 2]
    assert moved.stride() == 5
    half = weighted.to("cpu", dtype=torch.float16)
    assert half.weights().dtype == torch.float16
    assert half.values().dtype == torch.int64
    assert weighted.size_in_bytes() == (3 + 4 + 5 + 10) * 8 + 3 * 4


def test_an_empty_batch_can_be_asked_everything():
    got = KeyedJaggedTensor.empty(is_weighted=True, values_dtype=torch.int64)
    assert (got.keys(), got.stride(), got.length_per_key(), got.to_dict()) == ([], 0, [], {})
    assert KeyedJaggedTensor.empty_like(batch()).values().dtype == torch.int64
    none = KeyedJaggedTensor(["a", "b"], torch.empty(0).long(), lengths=torch.zeros(4).long())
    assert [none.to_dict()[key].lengths().tolist() for key in "ab"] == [[0, 0], [0, 0]]
    assert none.permute([1, 0]).keys() == ["b", "a"]
    assert KeyedJaggedTensor.concat(none.split([1, 1])).lengths().tolist() == [0] * 4
    no_sample = KeyedJaggedTensor(["a", "b"], torch.empty(0).long(), lengths=torch.zeros(0).long())
    assert no_sample.stride() == 0
    assert no_sample.length_per_key() == [0, 0]
    assert no_sample.permute([1]).stride() == 0


def test_an_empty_float_is_taken_for_no_lengths():
    got = KeyedJaggedTensor(["a"], torch.tensor([]), lengths=torch.tensor([]))
    assert got.lengths().dtype == torch.int64
    assert got["a"].to_dense() == []


def test_on_the_meta_device_the_sums_stay_unknown():
    parts = torch.zeros(2).long().to("meta"), torch.zeros(3).long().to("meta")
    got = KeyedJaggedTensor.from_offsets_sync(["a", "b"], *parts)
    assert got.stride() == 1
    assert got.length_per_key_or_none() is None


def test_batches_that_differ_are_not_equal():
    assert not kjt_is_equal(batch(), "batch")
    assert kjt_is_equal(batch(), batch())
    assert not kjt_is_equal(batch(), batch().permute([1, 0]))
    assert not kjt_is_equal(batch(), batch(weights=torch.ones(4)))
    assert not kjt_is_equal(
        batch(), KeyedJaggedTensor(["user", "film"], batch().values(), lengths=torch.tensor([1, 0, 2, 1]))
    )


@pytest.mark.smoke
def test_lengths_that_do_not_divide_among_keys_are_refused():
    with pytest.raises(ValueError, match=r"lengths must hold keys x stride items, a multiple of 3 .*got 7"):
        KeyedJaggedTensor(["a", "b", "c"], torch.arange(7), lengths=torch.ones(7).long())


def test_a_length_per_key_that_contradicts_lengths_is_refused():
    lengths = torch.tensor([1, 1, 1, 0, 0, 1, 1, 1, 1, 1])
    with pytest.raises(
        ValueError, match=r"length_per_key must be the sums of lengths, \[3, 5\].*got \[5, 3\]"
    ):
        KeyedJaggedTensor(["user", "item"], torch.arange(8), lengths=lengths, length_per_key=[5, 3])
    good = KeyedJaggedTensor(["user", "item"], torch.arange(8), lengths=lengths, length_per_key=[3, 5])
    assert good["user"].values().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 3}, "keys x stride = 2 x 3 items, got 4"),
        ({"length_per_key": [1]}, "one number for each of 2 keys"),
        ({"length_per_key": [1, 2]}, "adding up to the 4 values"),
        ({"stride_per_key": [1]}, "one size for each of 2 keys"),
        ({"stride_per_key": [1, 2]}, "lengths must hold 3 items"),
        ({"stride_per_key": [1, 3], "stride_per_key_per_rank": [[2], [2]]}, "must be the sums of"),
        ({"stride_per_key": [1, 3], "stride": 2}, "stride must be the full batch, 3, got 2"),
        ({"inverse_indices": (["user", "film"], torch.zeros(2, 2).long())}, "need stride_per_key_per_rank"),
        (
            {"stride_per_key": [1, 3], "inverse_indices": (["user"], torch.zeros(2, 2).long())},
            "got 1 keys and",
        ),
        (
            {"stride_per_key": [1, 3], "inverse_indices": (["user", "x"], torch.zeros(2, 2).long())},
            r"a row for each key, got none for \['film'\]",
        ),
        ({"weights": torch.ones(3)}, "one for each of the 4 values"),
    ],
)
def test_fields_that_contradict_each_other_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        batch(**options)


def test_without_keys_there_are_no_lengths():
    with pytest.raises(ValueError, match="must be empty without keys"):
        KeyedJaggedTensor([], torch.zeros(0), lengths=torch.zeros(1).long())


def test_a_missing_key_names_the_nearest():
    with pytest.raises(KeyError, match="no key 'flim'; nearest of 2: 'film'"):
        batch()["flim"]
    with pytest.raises(ValueError, match="has no weights"):
        batch().weights()


def test_a_dict_of_batches_becomes_one():
    parts = {"a": JaggedTensor(torch.tensor([1, 2]), lengths=torch.tensor([2, 0])), "b": batch()["film"]}
    got = KeyedJaggedTensor.from_jt_dict(parts)
    assert (got.stride(), got.variable_stride_per_key()) == (2, False)
    assert got["b"].to_dense()[1].tolist() == [4, 1]
    assert KeyedJaggedTensor.from_jt_dict(parts, force_variable_stride=True).stride_per_key_per_rank() == [
        [2],
        [2],
    ]
    parts["b"] = JaggedTensor(torch.tensor([5]), lengths=torch.tensor([0, 1, 0]))
    assert KeyedJaggedTensor.from_jt_dict(parts).stride_per_key() == [2, 3]
    with pytest.raises(ValueError, match="needs at least one key"):
        KeyedJaggedTensor.from_jt_dict({})
