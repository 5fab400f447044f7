"""Replay buffers: what is written comes out, whatever the parts."""

import io
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tetradict import TensorDict
from torch.testing import assert_close

from tetrarl.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    RandomSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
    TensorStorage,
)


def rows(start, count):
    """``count`` transitions, each of whose entries tells its number."""
    number = torch.arange(start, start + count)
    return TensorDict(
        {
            "observation": number[:, None] + torch.tensor([0.0, 0.25]),
            "action": number,
            "next": TensorDict(
                {"reward": number[:, None].double(), "done": number[:, None] % 2 == 0}, [count]
            ),
        },
        [count],
    )


def buffer(size=10, **options):
    return TensorDictReplayBuffer(storage=LazyTensorStorage(size), **options)


class Ring:
    """The plain list that a ring buffer is."""

    def __init__(self, size):
        self.slots, self.size, self.written = [], size, 0

    def add(self, number):
        position = self.written % self.size
        if position == len(self.slots):
            self.slots.append(number)
        else:
            self.slots[position] = number
        self.written += 1
        return position


@pytest.mark.smoke
@pytest.mark.parametrize("storage", [LazyTensorStorage, ListStorage])
@given(size=st.integers(1, 9), writes=st.lists(st.integers(-1, 23), max_size=8))
def test_writing_is_writing_into_a_plain_ring(storage, size, writes):  # -1: add one row; n: extend by n rows
    ring, rb, number = Ring(size), ReplayBuffer(storage=storage(size)), 0
    for write in writes:
        count = max(write, 1) if write < 0 else write
        if write < 0:
            got = rb.add(rows(number, 1)[0])
            assert got == ring.add(number)
        else:
            got = rb.extend(rows(number, count))
            assert got.tolist() == [ring.add(n) for n in range(number, number + count)]
            assert got.dtype == torch.int64
        number += count
    assert len(rb) == len(ring.slots)
    assert rb.write_count == ring.written
    if ring.slots:
        everything = rb[torch.arange(len(rb))]
        everything = torch.stack(everything) if storage is ListStorage else everything
        assert everything["action"].tolist() == ring.slots
        assert everything["next", "reward"].flatten().tolist() == ring.slots
        assert torch.equal(everything["observation"][:, 1], torch.tensor(ring.slots) + 0.25)


@given(seed=st.integers(0, 1000), size=st.integers(1, 12), batch_size=st.integers(1, 20))
def test_a_batch_holds_the_rows_that_its_index_names(seed, size, batch_size):
    rb = buffer(size, batch_size=batch_size, generator=torch.Generator().manual_seed(seed))
    rb.extend(rows(0, size + 3))
    batch, info = rb.sample(return_info=True)
    assert batch.batch_size == torch.Size([batch_size])
    assert torch.equal(batch["index"], info["index"])
    assert_close(batch["action"], rb[:]["action"][batch["index"]])
    assert_close(batch["next", "done"], batch["action"][:, None] % 2 == 0)
    assert batch["next"].batch_size == batch.batch_size


def test_torch_manual_seed_reproduces_a_run_and_a_generator_leaves_it_alone():
    def draw(**options):
        rb = buffer(100, batch_size=8, **options)
        rb.extend(rows(0, 100))
        return torch.stack([rb.sample()["index"] for _ in range(3)])

    torch.manual_seed(3)
    first = draw()
    torch.manual_seed(3)
    assert torch.equal(draw(), first)
    torch.manual_seed(3)
    own = draw(generator=torch.Generator().manual_seed(5))
    assert torch.equal(draw(), first)
    assert torch.equal(draw(generator=torch.Generator().manual_seed(5)), own)
    assert not torch.equal(own, first)


def test_a_batch_is_a_copy():
    rb = buffer()
    rb.extend(rows(0, 10))
    rb.sample(5)["observation"].zero_()
    assert torch.equal(rb[:]["action"], torch.arange(10))
    assert rb[:]["observation"][1:].all()


def test_rows_go_from_one_buffer_into_another_with_an_index_of_their_own():
    first, second = buffer(), buffer()
    first.extend(rows(0, 10))
    second.extend(first[5:8])
    second.add(first[9])
    assert second[:]["index"].tolist() == [0, 1, 2, 3]
    assert second[:]["action"].tolist() == [5, 6, 7, 9]


def test_a_plain_buffer_adds_no_entry():
    rb = ReplayBuffer(storage=LazyTensorStorage(4), batch_size=2)
    rb.extend(rows(0, 4))
    assert set(rb.sample().keys()) == {"observation", "action", "next"}
    batch, info = rb.sample(return_info=True)
    assert info["index"].tolist() == batch["action"].tolist()


def test_reading_takes_the_indices_that_torch_takes():
    rb = buffer(10)
    rb.extend(rows(0, 6))
    for index in (
        2,
        -1,
        slice(1, 4),
        slice(None),
        slice(None, None, 2),
        slice(4, 2),
        [0, 5],
        torch.tensor([3, -2]),
        ...,
    ):
        got, want = rb[index], torch.arange(6)[index]
        assert torch.equal(got["action"], want), index
        assert torch.equal(got["index"], want), index
    mask = torch.arange(6) > 3
    assert rb[mask]["action"].tolist() == [4, 5]
    assert rb[torch.tensor([[0, 1], [2, 3]])]["action"].tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("index", [6, -7, torch.tensor([0, 6]), torch.ones(5, dtype=torch.bool)], ids=str)
def test_reading_where_nothing_was_written_is_refused(index):
    rb = buffer(10)
    rb.extend(rows(0, 6))
    with pytest.raises(IndexError, match="6"):
        rb[index]


def test_rows_are_replaced_in_place():
    rb = buffer(10)
    rb.extend(rows(0, 6))
    rb[1] = rows(50, 1)[0]
    rb[3:5] = rows(60, 2)
    rb[torch.tensor([0, -1])] = rows(70, 2)
    assert rb[:]["action"].tolist() == [70, 50, 2, 60, 61, 71]
    assert len(rb) == 6
    with pytest.raises(IndexError):
        rb[6] = rows(0, 1)[0]


def test_emptying_starts_over():
    rb = buffer(4, batch_size=2)
    rb.extend(rows(0, 3))
    rb.empty()
    assert len(rb) == rb.write_count == 0
    with pytest.raises(RuntimeError, match="no row yet"):
        rb.sample()
    assert rb.extend(rows(9, 1)).tolist() == [0]
    rb.empty(empty_write_count=False)
    assert rb.write_count == 1


def test_iterating_makes_one_pass_without_replacement_and_none_ends_with_it():
    rb = buffer(10, sampler=SamplerWithoutReplacement(), batch_size=3)
    rb.extend(rows(0, 10))
    for _ in range(2):
        batches = [batch["action"] for batch in rb]
        assert [len(batch) for batch in batches] == [3, 3, 3, 1]
        assert sorted(torch.cat(batches).tolist()) == list(range(10))
    next(iter(rb))  # a pass that was broken off doesn't shorten the next
    assert len(list(rb)) == 4
    endless = buffer(10, batch_size=3)
    endless.extend(rows(0, 10))
    assert len(list(itertools.islice(endless, 50))) == 50


def test_transforms_see_what_is_handed_out():
    rb = buffer(10, batch_size=4, transform=lambda td: td.set("twice", td["action"] * 2))
    rb.append_transform(lambda td: td.set("thrice", td["twice"] + td["action"]))
    rb.extend(rows(0, 10))
    for batch in (rb.sample(), rb[2:5], next(iter(rb))):
        assert torch.equal(batch["thrice"], batch["action"] * 3)
    assert "twice" not in rb.storage[:].keys()


def test_collate_fn_makes_the_batch():
    rb = ReplayBuffer(storage=ListStorage(5), collate_fn=lambda found: "+".join(sorted(found)), batch_size=2)
    rb.extend(["a"])
    assert rb.sample() == "a+a"


def test_the_default_storage_takes_any_object():
    rb = ReplayBuffer(batch_size=3)
    rb.extend([{"a": 1}, {"a": 1}])
    assert rb.sample() == [{"a": 1}] * 3
    rb = ReplayBuffer(batch_size=3)
    rb.extend(torch.arange(4))
    assert rb.sample().shape == (3,)


@pytest.mark.parametrize("sampler", [RandomSampler, SamplerWithoutReplacement])
@pytest.mark.parametrize("written", [5, 11])
@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyMemmapStorage, ListStorage])
def test_a_saved_state_goes_on_exactly_where_it_was(storage, sampler, written):
    def make():
        return ReplayBuffer(
            storage=storage(8), sampler=sampler(), batch_size=3, generator=torch.Generator().manual_seed(1)
        )

    rb, other = make(), make()
    rb.extend(rows(0, written))
    rb.sample()
    file = io.BytesIO()
    torch.save(rb.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=storage is not ListStorage))
    for _ in range(4):
        assert torch.equal(rb.sample()["action"], other.sample()["action"])
    assert torch.equal(rb.extend(rows(20, 3)), other.extend(rows(20, 3)))
    assert (len(other), other.write_count) == (8, written + 3)


def test_a_state_saves_no_row_without_data():
    rb = buffer(1_000_000)
    rb.extend(rows(0, 3))
    file = io.BytesIO()
    torch.save(rb.state_dict(), file)
    assert file.tell() < 10_000


def test_a_state_that_does_not_fit_is_refused():
    rb = buffer(8)
    rb.extend(rows(0, 8))
    with pytest.raises(ValueError, match="room for 4 rows, the state holds 8"):
        buffer(4).load_state_dict(rb.state_dict())
    with pytest.raises(ValueError, match="only one of the two buffers has a generator"):
        buffer(8, generator=torch.Generator()).load_state_dict(rb.state_dict())


def test_an_empty_state_can_be_loaded():
    other = buffer()
    other.extend(rows(0, 3))
    other.load_state_dict(buffer().state_dict())
    assert len(other) == 0


def test_a_batch_size_must_be_told_and_positive():
    rb = TensorDictReplayBuffer(storage=TensorStorage(rows(0, 3)))
    with pytest.raises(ValueError, match="no batch_size"):
        rb.sample()
    with pytest.raises(ValueError, match="1 or more, got 0"):
        rb.sample(0)
    with pytest.raises(ValueError, match="1 or more, got -1"):
        buffer(batch_size=-1)
    with pytest.raises(TypeError, match="expected a Sampler, got int"):
        buffer(sampler=3)


def test_the_repr_tells_the_parts():
    text = repr(buffer(batch_size=3))
    for part in ("LazyTensorStorage", "RandomSampler", "TensorDictRoundRobinWriter", "batch_size=3"):
        assert part in text
