"""Storages of tensors: every dtype and row size, every way to write, and memory maps."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tetradict import TensorDict

from tetrarl.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ReplayBuffer,
    TensorDictReplayBuffer,
    TensorStorage,
)

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
]
ROWS = [(), (1,), (3, 5), (16, 513)]  # the last is large enough for torch's own copies


@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_every_dtype_and_size_come_back_bit_for_bit(dtype, shape):
    data = torch.randint(0, 2, (6, *shape)).to(dtype)
    storage = LazyTensorStorage(5)
    storage.set(slice(0, 3), TensorDict({"x": data[:3]}, [3]))
    storage.set(3, TensorDict({"x": data[3]}, []))
    storage.set(torch.tensor([1, 4]), TensorDict({"x": data[4:]}, [2]))
    kept = torch.stack([data[0], data[4], data[2], data[3], data[5]])
    index = torch.tensor([4, 0, 0, 3])
    got = storage.get(index)["x"]
    assert got.dtype == dtype
    assert torch.equal(got, kept[index])
    assert torch.equal(storage[:]["x"], kept)


@given(batch=st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_batches_of_several_dimensions_count_rows_in_the_first(batch):
    data = TensorDict(
        {"x": torch.randn(*batch, 2), "n": TensorDict({"y": torch.randn(*batch)}, batch)}, batch
    )
    storage = LazyTensorStorage(8)
    storage.set(slice(0, batch[0]), data)
    got = storage.get(torch.arange(batch[0]))
    assert got.batch_size == got["n"].batch_size == torch.Size(batch)
    assert torch.equal(got["n", "y"], data["n", "y"])


def test_what_needs_gradients_is_kept_without_them():
    storage = LazyTensorStorage(4)
    storage.set(slice(0, 2), TensorDict({"x": torch.ones(2, requires_grad=True)}, [2]))
    storage.set(2, TensorDict({"x": torch.tensor(3.0, requires_grad=True) * 2}, []))
    assert storage[:]["x"].tolist() == [1, 1, 6]
    assert not storage[:]["x"].requires_grad


def test_a_strided_row_is_taken():
    storage = LazyTensorStorage(4)
    storage.set(slice(0, 3), torch.arange(12).reshape(4, 3).T)
    assert storage.get(torch.tensor([1])).tolist() == [[1, 4, 7, 10]]


def test_a_dtype_of_the_same_kind_is_cast_and_no_other():
    storage = LazyTensorStorage(4)
    storage.set(slice(0, 2), TensorDict({"x": torch.zeros(2), "n": torch.zeros(2, dtype=torch.int64)}, [2]))
    storage.set(0, TensorDict({"x": torch.tensor(1.5, dtype=torch.float64), "n": torch.tensor(3)}, []))
    assert storage[0]["x"] == 1.5
    with pytest.raises(
        ValueError, match=r"entry 'n': the storage holds torch.int64, got torch.float32; cast"
    ):
        storage.set(0, TensorDict({"x": torch.tensor(1.0), "n": torch.tensor(0.5)}, []))


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({"x": torch.zeros(2, 3)}, KeyError, r"missing \['n'\], new \[\]"),
        (
            {"x": torch.zeros(2, 3), "n": {"y": torch.zeros(2)}, "z": torch.zeros(2)},
            KeyError,
            r"missing \[\], new \['z'\]",
        ),
        ({"x": torch.zeros(2, 3), "n": {"w": torch.zeros(2)}}, KeyError, r"missing \['n/y'\], new \['n/w'\]"),
        (
            {"x": torch.zeros(2, 1), "n": {"y": torch.zeros(2)}},
            ValueError,
            r"'x': expected shape \(2, 3\), got \(2, 1\)",
        ),
        (
            {"x": torch.zeros(2, 3), "n": torch.zeros(2)},
            TypeError,
            r"expected a TensorDict with \['n/y'\], got Tensor",
        ),
        (
            {"x": {"y": torch.zeros(2)}, "n": {"y": torch.zeros(2)}},
            TypeError,
            r"'x': a tensor storage holds tensors",
        ),
    ],
)
def test_rows_unlike_the_first_are_refused_and_change_nothing(data, error, message):
    storage = LazyTensorStorage(4)
    storage.set(slice(0, 2), TensorDict({"x": torch.ones(2, 3), "n": {"y": torch.ones(2)}}, [2]))
    for rows in (slice(0, 2), slice(2, 4)):
        with pytest.raises(error, match=message):
            storage.set(rows, TensorDict(data, [2]))
    assert len(storage) == 2
    assert storage[:]["x"].all()
    assert storage[:]["n", "y"].all()


def test_what_is_no_tensor_is_refused_with_the_mend():
    with pytest.raises(
        TypeError, match=r"entry 'name': a tensor storage holds tensors, got .*; use ListStorage"
    ):
        LazyTensorStorage(4).set(slice(0, 1), TensorDict({"name": "a"}, [1]))


def test_a_gap_of_rows_without_data_is_refused():
    storage = LazyTensorStorage(4)
    with pytest.raises(IndexError, match="rows 1 to 1 of 0"):
        storage.set(1, torch.zeros(()))
    with pytest.raises(IndexError, match="rows 0 to 4 of 0 that hold data, room for 4"):
        storage.set(slice(0, 5), torch.zeros(5))
    with pytest.raises(IndexError, match="no row yet"):
        storage.get(torch.tensor([0]))
    storage.set(torch.tensor([1, 0]), torch.ones(2))
    with pytest.raises(IndexError, match="rows 3 to 3 of 2"):
        storage.set(torch.tensor([0, 3]), torch.ones(2))
    assert len(storage) == 2


def test_given_tensors_are_full_from_the_start_and_written_in_place():
    data = TensorDict({"x": torch.arange(4.0)}, [4])
    storage = TensorStorage(data)
    assert len(storage) == storage.max_size == 4
    storage.set(2, TensorDict({"x": torch.tensor(9.0)}, []))
    assert data["x"].tolist() == [0, 1, 9, 3]
    with pytest.raises(ValueError, match="first dimension of rows"):
        TensorStorage(TensorDict({"x": torch.zeros(3)}, []))


def test_the_device_of_the_first_write_can_be_taken():
    storage = LazyTensorStorage(3, device="auto")
    storage.set(0, torch.zeros(2))
    assert storage.device == torch.device("cpu")
    assert storage.get(torch.tensor([0])).device == storage.device


def test_rows_lie_on_the_device_of_their_storage_and_are_read_there():
    row = TensorDict(
        {"x": torch.ones(2, 3), "n": {"y": torch.ones(2)}}, [2]
    )  # "meta" stands for any other device
    storage = LazyTensorStorage(4, device="meta")
    storage.set(slice(0, 2), row)
    storage.set(torch.tensor([0, 2]), row)
    for got in (storage.get(torch.tensor([2, 0])), storage[:2]):
        assert got.device == got["x"].device == got["n", "y"].device == torch.device("meta")
        assert got["x"].shape == (2, 3)


def test_a_memmap_storage_reads_onto_another_device(tmp_path):
    storage = LazyMemmapStorage(4, scratch_dir=tmp_path, device="meta")
    storage.set(slice(0, 2), TensorDict({"x": torch.ones(2, 3)}, [2]))
    assert storage.get(torch.tensor([0]))["x"].device == storage[:]["x"].device == torch.device("meta")


def test_another_process_opens_what_a_memmap_storage_writes(tmp_path):
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(5, scratch_dir=tmp_path / "rb"), batch_size=4)
    rb.extend(TensorDict({"x": torch.arange(3.0), "next": {"y": torch.arange(6).reshape(3, 2)}}, [3]))
    rb.add(TensorDict({"x": torch.tensor(7.0), "next": {"y": torch.tensor([8, 9])}}, []))
    code = (
        "import sys; from tetradict import TensorDict; td = TensorDict.load_memmap(sys.argv[1]);"
        "print(td.batch_size[0], td['x'].tolist(), td['next', 'y'].tolist())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "rb")], capture_output=True, text=True, timeout=120
    )
    assert run.stdout.strip() == "5 [0.0, 1.0, 2.0, 7.0, 0.0] [[0, 1], [2, 3], [4, 5], [8, 9], [0, 0]]", (
        run.stderr
    )
    batch = rb.sample()
    assert torch.equal(batch["x"], rb[:]["x"][batch["index"]])


def test_a_folder_that_holds_a_collection_is_not_written_over_unasked(tmp_path):
    row = TensorDict({"x": torch.ones(1)}, [1])
    LazyMemmapStorage(3, scratch_dir=tmp_path).set(slice(0, 1), row)
    with pytest.raises(FileExistsError, match="existsok=True"):
        LazyMemmapStorage(3, scratch_dir=tmp_path).set(slice(0, 1), row * 2)
    assert TensorDict.load_memmap(tmp_path)["x"].tolist() == [1, 0, 0]
    LazyMemmapStorage(2, scratch_dir=tmp_path, existsok=True).set(slice(0, 1), row * 2)
    assert TensorDict.load_memmap(tmp_path)["x"].tolist() == [2, 0]


def test_a_temporary_folder_goes_with_its_storage():
    storage = LazyMemmapStorage(3)
    storage.set(0, TensorDict({"x": torch.ones(1)}, []))
    folder = storage.scratch_dir
    assert folder.is_dir()
    del storage
    assert not folder.exists()


def test_a_memmap_buffer_crosses_to_a_spawned_process_and_shares_its_rows(tmp_path):
    rb = ReplayBuffer(storage=LazyMemmapStorage(5, scratch_dir=tmp_path / "rb"), batch_size=2)
    rb.extend(TensorDict({"x": torch.arange(4.0)}, [4]))
    row = TensorDict({"x": torch.tensor(100.0)}, [])
    context = torch.multiprocessing.get_context("spawn")
    process = context.Process(target=rb.__setitem__, args=(-1, row), daemon=True)
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert rb[:]["x"].tolist() == [0, 1, 2, 100]
