"""Minari's datasets: every row equals what minari's own reader gives, and every trap of the format is met."""

import json
import os
import warnings

import gymnasium
import h5py
import minari
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from minari.data_collector import EpisodeBuffer

from tetrarl.data import SamplerWithoutReplacement
from tetrarl.data.datasets import MinariExperienceReplay, decode_text
from tetrarl.data.datasets.minari_data import MinariExperienceReplay as SameUnderTheirPath

BOX = spaces.Box(-1e6, 1e6, (2,), np.float32)


@pytest.fixture
def minari_folder(tmp_path, monkeypatch):
    """Where Minari keeps its datasets, and where ours are converted to, for one test."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "minari"


def _by_minari(write, *args, **options):
    """Let minari write a dataset; it warns of every fact about its origin that a test has no use for."""
    facts = dict.fromkeys(("algorithm_name", "author", "author_email", "code_permalink", "description"), "x")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return write(*args, **facts, **options)


def create(buffers, observation_space=BOX, action_space=None, dataset_id="toy/x-v0", **options):
    """A dataset of these episodes, written by minari."""
    return _by_minari(
        minari.create_dataset_from_buffers,
        dataset_id,
        buffers,
        observation_space=observation_space,
        action_space=spaces.Discrete(3) if action_space is None else action_space,
        **options,
    )


def episode(number, length, **changes):
    """One that tells its number and steps: observation 1000 * number + step."""
    observations = np.stack([np.full(2, 1000 * number + step, np.float32) for step in range(length + 1)])
    columns = {
        "observations": observations,
        "actions": np.arange(length) % 3,
        "rewards": np.arange(length, dtype=np.float64) / 7,
        "terminations": np.arange(length) == length - 1,
        "truncations": np.zeros(length, bool),
        "infos": {},
    }
    return EpisodeBuffer(id=number, seed=number, **{**columns, **changes})


def write_plainly(path, lengths, edit=None):
    """An HDF5 file in Minari's layout, written without minari; ``edit`` may change it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for number, length in enumerate(lengths):
            group = file.create_group(f"episode_{number}")
            for name, column in vars(episode(number, length)).items():
                if isinstance(column, np.ndarray):
                    group[name] = column
            group.create_group("infos")
        if edit is not None:
            edit(file)
    return path


def assert_equals_minari(dataset, theirs):
    """Every row of every episode, against minari's reader."""
    assert dataset.num_episodes == theirs.total_episodes
    assert len(dataset) == theirs.total_steps
    for ours, want in zip(dataset.episodes(), theirs.iterate_episodes(), strict=True):
        assert (ours["episode"] == want.id).all()
        _assert_tree(ours["observation"], want.observations, slice(None, -1))
        _assert_tree(ours["next", "observation"], want.observations, slice(1, None))
        _assert_tree(ours["action"], want.actions, slice(None))
        _assert_tree(ours["next", "reward"][:, 0], want.rewards, slice(None))
        _assert_tree(ours["next", "terminated"][:, 0], want.terminations, slice(None))
        if want.terminations[-1] or want.truncations[-1]:
            _assert_tree(ours["next", "truncated"][:, 0], want.truncations, slice(None))


def _assert_tree(ours, theirs, rows):
    if isinstance(theirs, dict | tuple):
        items = (
            theirs.items() if isinstance(theirs, dict) else ((str(i), part) for i, part in enumerate(theirs))
        )
        for name, part in items:
            _assert_tree(ours[name], part, rows)
    elif isinstance(theirs, list):
        assert decode_text(ours) == theirs[rows]
    else:
        assert ours.numpy().dtype == theirs.dtype
        np.testing.assert_array_equal(ours.numpy(), theirs[rows])


# --- against minari's own reader


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # minari drops its own folders
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_every_row_that_a_collector_recorded_comes_back(name, minari_folder):
    env = minari.DataCollector(gymnasium.make(name, max_episode_steps=30), record_infos=True)
    for seed in range(11):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        done = False
        while not done:
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            done = terminated or truncated
    theirs = _by_minari(env.create_dataset, "toy/recorded-v0", eval_env=name)
    env.close()
    dataset = MinariExperienceReplay("toy/recorded-v0", batch_size=32)
    assert_equals_minari(dataset, theirs)
    assert dataset.verify(dataset.sample()).rows == 32
    assert dataset.verify().rows == theirs.total_steps


@settings(max_examples=10)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=14))
def test_every_row_of_episodes_of_any_length_comes_back(lengths, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    file = write_plainly(folder / "data" / "main_data.hdf5", lengths)
    dataset = MinariExperienceReplay.from_files(file, root=folder / "root")
    number = torch.cat([torch.full((length,), k) for k, length in enumerate(lengths)])
    step = torch.cat([torch.arange(length) for length in lengths])
    data = dataset[:]
    assert torch.equal(data["episode"], number)
    assert torch.equal(data["observation"][:, 0], 1000.0 * number + step)
    assert torch.equal(data["next", "observation"][:, 1], 1000.0 * number + step + 1)
    assert torch.equal(data["next", "reward"][:, 0], step.double() / 7)
    assert data["next", "done"].sum() == len(lengths)
    assert dataset.verify(data).entries == dataset.verify().entries


def test_dict_observations_and_tuple_actions_become_nested_entries(minari_folder):
    observation_space = spaces.Dict({"a": BOX, "b": spaces.Dict({"c": spaces.Discrete(9)})})
    action_space = spaces.Tuple((spaces.Discrete(3), spaces.Tuple((BOX,))))

    def nested(number, length):
        steps = np.arange(length + 1)
        move = np.arange(length)
        return episode(
            number,
            length,
            observations={"a": np.stack([steps, -steps], 1).astype(np.float32), "b": {"c": steps}},
            actions=(move % 3, (np.stack([move, move], 1).astype(np.float32),)),
        )

    theirs = create([nested(k, 3 + k) for k in range(3)], observation_space, action_space)
    dataset = MinariExperienceReplay("toy/x-v0", batch_size=4)
    assert_equals_minari(dataset, theirs)
    assert dataset[0]["observation", "b", "c"] == 0
    assert dataset[1]["action", "1", "0"].tolist() == [1, 1]
    assert "observation/b/c" in dataset.verify(dataset.sample()).entries


def test_text_is_kept_as_padded_utf8_and_decoded(minari_folder):
    space = spaces.Dict({"mission": spaces.Text(40), "x": BOX})
    words = [["gö", "go on", "", "stop"], ["a much longer mission", "b"]]
    buffers = [
        episode(
            k, len(texts) - 1, observations={"mission": texts, "x": np.zeros((len(texts), 2), np.float32)}
        )
        for k, texts in enumerate(words)
    ]
    theirs = create(buffers, space)
    dataset = MinariExperienceReplay("toy/x-v0", batch_size=3)
    assert_equals_minari(dataset, theirs)
    assert decode_text(dataset[:]["next", "observation", "mission"]) == ["go on", "", "stop", "b"]
    assert dataset.verify(dataset.sample()).rows == 3
    assert dataset.verify().rows == 4


@pytest.mark.parametrize("jpeg", [True, False])
def test_frames_are_decoded_as_minari_decodes_them(jpeg, minari_folder):
    space = spaces.Box(0, 255, (32, 36, 3), np.uint8)
    random = np.random.default_rng(0)
    frames = [random.integers(256, size=(n + 1, 32, 36, 3), dtype=np.uint8) for n in (2, 3)]
    buffers = [episode(k, len(rows) - 1, observations=rows) for k, rows in enumerate(frames)]
    theirs = create(buffers, space, jpeg_encoding=jpeg)
    dataset = MinariExperienceReplay("toy/x-v0")
    assert_equals_minari(dataset, theirs)
    assert dataset[0]["observation"].shape == (32, 36, 3)
    assert dataset.verify().rows == 5


def test_bytes_that_begin_as_a_jpeg_are_no_frame_where_the_space_is_flat(minari_folder):
    rows = np.tile(np.array([255, 216, 255, 0], np.uint8), (4, 1))
    create([episode(0, 3, observations=rows)], spaces.Box(0, 255, (4,), np.uint8))
    assert MinariExperienceReplay("toy/x-v0")[:]["observation"].tolist() == rows[:3].tolist()


@pytest.mark.smoke
def test_a_local_dataset_loads_also_with_a_single_episode(minari_folder):  # pytorch/rl issue 3067
    for name, lengths in (("toy/many-v0", [3, 5] * 6), ("toy/one-v0", [4])):
        create([episode(k, length) for k, length in enumerate(lengths)], dataset_id=name)
        data = MinariExperienceReplay(name, batch_size=4, load_from_local_minari=True)[:]
        assert len(data) == sum(lengths)
        start = 0
        for number, length in enumerate(lengths):
            rows = data[start : start + length]
            assert rows["observation"][:, 0].tolist() == [1000 * number + step for step in range(length)]
            assert rows["next", "observation"][-1, 0].item() == 1000 * number + length
            assert rows["next", "done"].flatten().tolist() == [False] * (length - 1) + [True]
            start += length


# --- traps


def test_episodes_come_by_number_not_as_text(tmp_path):
    file = write_plainly(tmp_path / "main_data.hdf5", [1] * 12)
    assert list(h5py.File(file))[:3] == ["episode_0", "episode_1", "episode_10"]
    assert MinariExperienceReplay.from_files(file, root=tmp_path)[:]["episode"].tolist() == list(range(12))


@pytest.mark.parametrize("missing_first", [False, True])
def test_infos_stand_beside_the_observation_they_came_with(missing_first, tmp_path):
    def edit(file):
        for number in range(2):
            values = np.arange(4.0) + 10 * number
            file[f"episode_{number}/infos/x"] = values[1:] if missing_first else values

    file = write_plainly(tmp_path / "main_data.hdf5", [3, 3], edit)
    dataset = MinariExperienceReplay.from_files(file, root=tmp_path)
    assert dataset[:]["info", "x"].tolist() == (
        [0, 1, 2, 0, 11, 12] if missing_first else [0, 1, 2, 10, 11, 12]
    )
    assert dataset[:]["next", "info", "x"].tolist() == [1, 2, 3, 11, 12, 13]
    assert "next/info/x" in dataset.verify().entries


def test_infos_that_fit_no_row_are_refused_and_can_be_left_out(tmp_path):
    file = write_plainly(
        tmp_path / "main_data.hdf5", [3], lambda file: file["episode_0/infos"].create_dataset("x", data=1.0)
    )
    with pytest.raises(ValueError, match=r"episode_0: info/x is a single value.*infos=False"):
        MinariExperienceReplay.from_files(file, root=tmp_path / "root")
    dataset = MinariExperienceReplay.from_files(file, root=tmp_path / "root", infos=False)
    assert "info" not in dataset[:].keys()


def test_an_episode_that_lacks_its_last_observation_keeps_all_its_rows(tmp_path):  # Minari issue 199
    def edit(file):
        rows = file["episode_1/observations"][:-1]
        del file["episode_1/observations"]
        file["episode_1/observations"] = rows

    file = write_plainly(tmp_path / "main_data.hdf5", [2, 3, 2], edit)
    dataset = MinariExperienceReplay.from_files(file, root=tmp_path)
    assert [len(rows) for rows in dataset.episodes()] == [2, 3, 2]
    last = dataset.episode(1)[-1]
    assert last["next", "reward"].item() == pytest.approx(2 / 7)
    assert last["next", "observation"].tolist() == [0, 0]
    assert bool(last["next", "done"])
    assert dataset.verify().rows == 7


def test_an_unfinished_last_episode_is_truncated_where_the_file_ends(tmp_path):
    def edit(file):
        file["episode_1/terminations"][...] = False

    file = write_plainly(tmp_path / "main_data.hdf5", [2, 3], edit)
    dataset = MinariExperienceReplay.from_files(file, root=tmp_path)
    after = dataset.episode(1)["next"]
    assert after["truncated"].flatten().tolist() == after["done"].flatten().tolist() == [False, False, True]
    assert not after["terminated"].any()
    assert dataset.verify(dataset[:]).rows == 5


def test_a_time_limit_is_truncated_and_not_terminated(tmp_path):
    def edit(file):
        file["episode_0/terminations"][...] = False
        file["episode_0/truncations"][-1] = True

    file = write_plainly(tmp_path / "main_data.hdf5", [3], edit)
    data = MinariExperienceReplay.from_files(file, root=tmp_path)[:]
    assert data["next", "truncated"].flatten().tolist() == [False, False, True]
    assert not data["next", "terminated"].any()
    for flag in ("done", "terminated", "truncated"):
        assert not data[flag].any()


# --- where things are


def test_an_id_that_is_not_there_is_told_with_the_folder_and_the_command(minari_folder):
    create([episode(0, 2)], dataset_id="toy/cart-v0")
    with pytest.raises(FileNotFoundError) as caught:
        MinariExperienceReplay("toy/card-v0")
    for part in (
        str(minari_folder / "toy/card-v0/data/main_data.hdf5"),
        "['toy/cart-v0']",
        "minari download toy/card-v0",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize("dataset_id", ["../outside-v0", "/etc/x-v0", "", "a//b-v0", "a/../b-v0"])
def test_an_id_can_not_leave_the_folder(dataset_id, minari_folder):
    with pytest.raises(ValueError, match="no dataset id"):
        MinariExperienceReplay(dataset_id)


def test_another_format_of_minari_is_told(minari_folder):
    folder = minari_folder / "toy/x-v0/data"
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text(json.dumps({"data_format": "arrow"}))
    with pytest.raises(
        FileNotFoundError, match="keeps its rows as arrow; this version reads data_format='hdf5'"
    ):
        MinariExperienceReplay("toy/x-v0")
    (folder / "metadata.json").write_text("{")
    with pytest.raises(ValueError, match="metadata of a Minari dataset"):
        MinariExperienceReplay("toy/x-v0")


def test_downloading_is_refused_with_the_command(minari_folder):
    with pytest.raises(ValueError, match="minari download toy/x-v0"):
        MinariExperienceReplay("toy/x-v0", load_from_local_minari=False)


def test_a_file_or_its_folder_can_be_given(tmp_path):
    file = write_plainly(tmp_path / "mine" / "data" / "main_data.hdf5", [2])
    for path in (file, file.parent, file.parent.parent, str(file)):
        dataset = MinariExperienceReplay.from_files(path, root=tmp_path / "root", batch_size=2)
        assert dataset.sample().batch_size == torch.Size([2])
    assert len(list((tmp_path / "root").rglob("manifest.json"))) == 1
    with pytest.raises(FileNotFoundError, match=r"nowhere/data/main_data\.hdf5"):
        MinariExperienceReplay.from_files(tmp_path / "nowhere")


def test_the_same_name_in_two_folders_are_two_datasets(tmp_path):
    for name, lengths in (("one", [2]), ("two", [3])):
        write_plainly(tmp_path / name / "x-v0" / "data" / "main_data.hdf5", lengths)
    sizes = [
        len(MinariExperienceReplay.from_files(tmp_path / n / "x-v0", root=tmp_path / "root"))
        for n in ("one", "two")
    ]
    assert sizes == [2, 3]


def test_the_second_opening_does_not_convert_and_a_changed_file_is_read_anew(minari_folder, monkeypatch):
    file = write_plainly(minari_folder / "toy/x-v0/data/main_data.hdf5", [2, 3])
    first = MinariExperienceReplay("toy/x-v0")
    assert first.data_path.is_relative_to(minari_folder.parent / "cache/tetrarl/minari/toy/x-v0")
    with monkeypatch.context() as patched:
        patched.setattr(h5py, "File", None)  # whoever reads the source again fails
        assert MinariExperienceReplay("toy/x-v0").data_path == first.data_path
    write_plainly(file, [2, 3, 4])
    second = MinariExperienceReplay("toy/x-v0")
    assert len(second) == 9
    assert not first.data_path.exists()
    assert first[:]["observation"].shape == (5, 2)  # still mapped
    with pytest.raises(FileNotFoundError, match="open it anew"):
        first.verify(first[:])


def test_what_was_converted_outlives_its_source(minari_folder):
    file = write_plainly(minari_folder / "toy/x-v0/data/main_data.hdf5", [2, 3])
    rows = len(MinariExperienceReplay("toy/x-v0"))
    file.unlink()
    dataset = MinariExperienceReplay("toy/x-v0")
    assert len(dataset) == rows
    assert dataset.verify().entries == ()  # nothing left to compare with
    with pytest.raises(FileNotFoundError, match="minari download"):
        dataset.verify(dataset[:])
    with pytest.raises(FileNotFoundError, match="minari download"):
        MinariExperienceReplay("toy/x-v0", infos=False)  # not what was converted
    dataset.delete()
    with pytest.raises(FileNotFoundError):
        MinariExperienceReplay("toy/x-v0")


def test_h5py_is_asked_for_when_it_is_missing(tmp_path, monkeypatch):
    file = write_plainly(tmp_path / "main_data.hdf5", [2])
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(ImportError, match=r"pip install 'tetrarl\[data\]'"):
        MinariExperienceReplay.from_files(file, root=tmp_path / "root")
    assert not list((tmp_path / "root").rglob("*.memmap"))


# --- as a buffer


def test_a_dataset_is_a_read_only_buffer_with_the_samplers_of_any(tmp_path):
    file = write_plainly(tmp_path / "main_data.hdf5", [2, 3, 4])
    dataset = MinariExperienceReplay.from_files(
        file,
        batch_size=4,
        root=tmp_path,
        sampler=SamplerWithoutReplacement(),
        generator=torch.Generator().manual_seed(0),
    )
    batches = list(dataset)
    assert sorted(torch.cat([batch["index"] for batch in batches]).tolist()) == list(range(9))
    with pytest.raises(RuntimeError, match="read only"):
        dataset.extend(batches[0])
    assert dataset.num_episodes == 3
    assert len(dataset.episode(-1)) == 4
    with pytest.raises(IndexError, match="episode 3 of 3"):
        dataset.episode(3)
    assert "rows=9, episodes=3" in repr(dataset)
    assert SameUnderTheirPath is MinariExperienceReplay
    assert os.path.isdir(dataset.data_path)
