"""Where new rows go."""

import pytest
import torch
from tetradict import TensorDict

from tetrarl.data import (
    ImmutableDatasetWriter,
    LazyTensorStorage,
    ReplayBuffer,
    RoundRobinWriter,
    TensorDictRoundRobinWriter,
    TensorStorage,
)


def test_nothing_written_is_nothing_changed():
    writer, storage = RoundRobinWriter(), LazyTensorStorage(3)
    writer.register_storage(storage)
    assert writer.extend(torch.zeros(0, 2)).shape == (0,)
    assert (len(storage), writer.write_count) == (0, 0)


def test_more_rows_than_room_leave_the_last_ones_where_a_ring_has_them():
    writer, storage = RoundRobinWriter(), LazyTensorStorage(4)
    writer.register_storage(storage)
    assert writer.extend(torch.arange(11)).tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
    assert storage[:].tolist() == [8, 9, 10, 7]


def test_a_tensordict_writer_leaves_a_stale_index_out():
    writer, storage = TensorDictRoundRobinWriter(), LazyTensorStorage(4)
    writer.register_storage(storage)
    writer.extend(TensorDict({"x": torch.zeros(2), "index": torch.ones(2)}, [2]))
    assert set(storage[:].keys()) == {"x"}


def test_a_read_only_buffer_refuses_every_write():
    rb = ReplayBuffer(storage=TensorStorage(torch.zeros(3)), writer=ImmutableDatasetWriter())
    for write in (lambda: rb.add(torch.zeros(())), lambda: rb.extend(torch.zeros(2)), rb.empty):
        with pytest.raises(RuntimeError, match="read only"):
            write()
    assert len(rb) == 3
