"""Verification finds every single change, and names it."""

import json

import h5py
import numpy as np
import pytest
import torch

from tetrarl.data.datasets import MinariExperienceReplay


@pytest.fixture
def dataset(tmp_path):
    with h5py.File(tmp_path / "main_data.hdf5", "w") as file:
        for number, length in enumerate((2, 3, 4)):
            random = np.random.default_rng(number)
            group = file.create_group(f"episode_{number}")
            group["observations/a"] = random.normal(size=(length + 1, 2))
            group["observations/b"] = random.integers(9, size=length + 1)
            group["actions"] = random.integers(9, size=length)
            group["rewards"] = np.where(np.arange(length) == 1, np.nan, random.normal(size=length))
            group["terminations"] = np.arange(length) == length - 1
            group["truncations"] = np.zeros(length, bool)
            group["infos/x"] = random.normal(size=length + 1)
    return MinariExperienceReplay.from_files(
        tmp_path / "main_data.hdf5", root=tmp_path / "root", batch_size=16
    )


ENTRIES = [
    "observation/a", "observation/b", "action", "info/x", "episode", "done", "terminated", "truncated",
    "next/observation/a", "next/observation/b", "next/reward", "next/info/x", "next/done", "next/terminated",
    "next/truncated",
]  # fmt: skip


def changed(value):
    return ~value if value.dtype == torch.bool else value + 1


def test_a_batch_and_the_whole_are_found_equal_also_where_they_hold_nan(dataset):
    batch = dataset.sample()
    assert batch["next", "reward"].isnan().any()
    found = dataset.verify(batch)
    assert (found.rows, found.entries) == (16, tuple(sorted(ENTRIES)))
    found = dataset.verify()
    assert (found.rows, found.episodes, found.entries) == (9, 3, tuple(sorted(ENTRIES)))
    assert found.files == len(ENTRIES) + 6  # and the meta.json of six levels


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_changed_value_of_a_batch_is_named_with_episode_and_step(entry, dataset):
    key = tuple(entry.split("/"))
    batch = dataset[torch.tensor([8, 0, 4])]  # row 4: episode 1, step 2
    batch[key][2] = changed(batch[key][2])
    with pytest.raises(
        ValueError, match=rf"{entry} differs from the file at episode 1, step 2: .* here, .* in the file"
    ):
        dataset.verify(batch)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_flipped_byte_of_any_file_is_named(entry, dataset):
    file = dataset.data_path / f"{entry}.memmap"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(
        ValueError, match=rf"{entry}\.memmap has sha256 .*, the manifest says .*; delete the folder"
    ):
        dataset.verify()


def test_a_missing_and_an_unexpected_file_are_named(dataset):
    (dataset.data_path / "extra").write_text("x")
    with pytest.raises(ValueError, match="extra is not in the manifest"):
        dataset.verify()
    (dataset.data_path / "extra").unlink()
    (dataset.data_path / "action.memmap").unlink()
    with pytest.raises(ValueError, match=r"action\.memmap is missing"):
        dataset.verify()


def _reseal(dataset):
    """Make the manifest agree with the changed files, as a faulty converter would."""
    from tetrarl.data.datasets._manifest import checksums

    path = dataset.data_path.parent / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": checksums(dataset.data_path)}))
    dataset._manifest = type(dataset._manifest).read(path)


@pytest.mark.parametrize(
    ("entry", "row", "message"),
    [
        ("done", 3, "root done is True at row 3"),
        ("terminated", 0, "root terminated is True at row 0"),
        ("next/done", 4, "an episode ends at row 4, which is not done"),
        ("episode", 2, "rows 2 to 5 are not all of episode 1"),
        ("observation/a", 3, "next/observation/a of row 2 is not the observation/a of the row after it"),
        ("next/observation/b", 6, "next/observation/b of row 6 is not the observation/b of the row after it"),
        ("next/info/x", 0, "next/info/x of row 0 is not the info/x of the row after it"),
        ("action", 7, "action differs from the file at episode 2, step 2"),
        ("next/reward", 0, "next/reward differs from the file at episode 0, step 0"),
        ("next/observation/a", 8, "next/observation/a differs from the file at episode 2, step 3"),
    ],
)
def test_a_wrong_row_under_a_right_checksum_is_found(entry, row, message, dataset):
    values = dataset.storage[:][tuple(entry.split("/"))]
    values[row] = changed(values[row])
    _reseal(dataset)
    with pytest.raises(ValueError, match=message):
        dataset.verify()


def test_a_batch_that_can_not_be_compared_is_refused(dataset):
    batch = dataset.sample()
    with pytest.raises(ValueError, match="no entry 'index'"):
        dataset.verify(batch.exclude("index"))
    with pytest.raises(ValueError, match="nothing to compare: the rows hold"):
        dataset.verify(batch.select("index").set("other", batch["action"]))
    with pytest.raises(ValueError, match="index 0 to 9 of 9 rows"):
        dataset.verify(dataset[torch.tensor([0, 1])].set("index", torch.tensor([0, 9])))
    with pytest.raises(ValueError, match=r"action is int32 .*, in the file int64"):
        dataset.verify(batch.set("action", batch["action"].int()))


def test_one_row_and_batches_of_several_dimensions_can_be_compared(dataset):
    assert dataset.verify(dataset[5]).rows == 1
    grid = dataset[torch.arange(8).reshape(2, 4)]
    assert dataset.verify(grid).rows == 8
    grid["action"][1, 2] += 1
    with pytest.raises(ValueError, match="action differs from the file at episode 2, step 1"):
        dataset.verify(grid)


def test_a_damaged_collection_is_not_opened(dataset, tmp_path):
    manifest = dataset.data_path.parent / "manifest.json"
    content = json.loads(manifest.read_text())
    for change, message in (
        ({"rows": 8}, "contradict each other"),
        ({"format": 99}, "another format"),
        ({"lengths": "x"}, "not a manifest"),
    ):
        manifest.write_text(json.dumps({**content, **change}))
        with pytest.raises(ValueError, match=message):
            MinariExperienceReplay.from_files(tmp_path / "main_data.hdf5", root=tmp_path / "root")
    manifest.write_text(json.dumps({**content, "rows": 8, "lengths": [2, 3, 3]}))
    with pytest.raises(ValueError, match=r"holds \[9\] rows, its manifest says 8"):
        MinariExperienceReplay.from_files(tmp_path / "main_data.hdf5", root=tmp_path / "root")
    manifest.write_text(json.dumps(content))
    (dataset.data_path / "action.memmap").write_bytes(b"12")
    with pytest.raises(ValueError, match=r"not a whole collection .* delete the folder"):
        MinariExperienceReplay.from_files(tmp_path / "main_data.hdf5", root=tmp_path / "root")
