"""The list storage, and what every storage promises."""

import pytest
import torch
from tetradict import TensorDict

from tetrarl.data import ListStorage, Storage


def test_a_list_keeps_the_objects_themselves():
    storage, thing = ListStorage(3), object()
    storage.set(0, thing)
    assert storage[0] is thing
    assert storage.get(torch.tensor([0, 0])) == [thing, thing]
    assert len(storage) == 1


def test_a_batch_of_rows_is_taken_apart():
    storage = ListStorage(5)
    storage.set(slice(0, 2), TensorDict({"x": torch.arange(2)}, [2]))
    storage.set([0], torch.full((1, 3), 7))
    assert torch.equal(storage[0], torch.full((3,), 7))
    assert storage[1]["x"].item() == 1


def test_tensors_are_stacked_and_other_things_left_in_a_list():
    storage = ListStorage()
    assert storage.collate([torch.zeros(2), torch.ones(2)]).tolist() == [[0, 0], [1, 1]]
    assert storage.collate([TensorDict({"x": torch.zeros(2)}, [])] * 3).batch_size == torch.Size([3])
    assert storage.collate(["a", "b"]) == ["a", "b"]


def test_a_gap_or_a_row_too_many_is_refused():
    storage = ListStorage(2)
    with pytest.raises(IndexError, match="row 1 of 0"):
        storage.set(1, "a")
    storage.set(slice(0, 2), "ab")
    with pytest.raises(IndexError, match=r"row 2 of 2 \(room for 2\)"):
        storage.set(2, "c")
    with pytest.raises(ValueError, match="2 positions for 3 rows"):
        storage.set(slice(0, 2), "abc")


def test_no_room_is_refused():
    with pytest.raises(ValueError, match="max_size must be 1 or more, got 0"):
        ListStorage(0)


def test_a_state_too_long_is_refused():
    with pytest.raises(ValueError, match="room for 1 rows, the state holds 2"):
        ListStorage(1).load_state_dict({"rows": [1, 2]})


def test_a_storage_of_ones_own_needs_the_protocol_alone():
    with pytest.raises(TypeError, match="abstract"):
        Storage(3)
