"""A collection appears when it is whole, whatever happens to the process that writes it."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from tetradict import TensorDict

from tetrarl.data.datasets import RawEpisode, to_ted
from tetrarl.data.datasets._manifest import Manifest
from tetrarl.data.datasets._writer import write_collection


def episodes(lengths=(2, 3, 1)):
    for number, length in enumerate(lengths):
        yield RawEpisode(
            "T+1",
            observation={"x": np.random.default_rng(number).normal(size=(length + 1, 3))},
            action=np.arange(length),
            reward=np.ones(length, np.float32),
            terminated=np.arange(length) == length - 1,
            number=number * 2,
            where=f"episode {number}",
        )


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_the_collection_is_the_episodes_end_to_end(tmp_path):
    write_collection(tmp_path / "made", "toy", {"path": "x"}, episodes)
    want = torch.cat([to_ted(episode) for episode in episodes()])
    got = TensorDict.load_memmap(tmp_path / "made/data")
    assert set(got.keys(True, True)) == set(want.keys(True, True))
    assert all(torch.equal(got[key], want[key]) for key in want.keys(True, True))
    manifest = Manifest.read(tmp_path / "made/manifest.json")
    assert (manifest.rows, manifest.lengths, manifest.numbers) == (6, (2, 3, 1), (0, 2, 4))
    assert (manifest.dataset_id, manifest.source, manifest.without_next) == ("toy", {"path": "x"}, ())
    assert all((tmp_path / "made/data" / name).stat().st_mode & 0o222 == 0 for name in manifest.files)
    assert set(manifest.files) == {
        p.relative_to(tmp_path / "made/data").as_posix()
        for p in (tmp_path / "made/data").rglob("*")
        if p.is_file()
    }


def test_the_checksums_are_those_of_sha256sum(tmp_path):
    write_collection(tmp_path / "made", "toy", {}, episodes)
    file = "next/observation/x.memmap"
    want = subprocess.run(
        ["sha256sum", tmp_path / "made/data" / file], capture_output=True, text=True, check=True
    )
    facts = Manifest.read(tmp_path / "made/manifest.json").files[file]
    assert facts == {"sha256": want.stdout.split()[0], "bytes": 6 * 3 * 8}


@pytest.mark.parametrize("reading", [1, 2])
def test_a_source_that_fails_leaves_nothing(reading, tmp_path):
    readings = iter(range(1, 3))

    def failing():
        now = next(readings)
        yield from episodes((2, 3))
        if now == reading:
            raise ConnectionError("gone")
        yield from episodes((1,))

    with pytest.raises(ConnectionError, match="gone"):
        write_collection(tmp_path / "made", "toy", {}, failing)
    assert everything(tmp_path) == []


@pytest.mark.parametrize(
    ("second", "message"),
    [((2,), "went missing"), ((2, 4), "episode 1: changed"), ((2, 3, 1), "episode 2: changed")],
)
def test_a_source_that_changes_between_counting_and_filling_leaves_nothing(second, message, tmp_path):
    given = iter([episodes((2, 3)), episodes(second)])
    with pytest.raises(ValueError, match=message):
        write_collection(tmp_path / "made", "toy", {}, lambda: next(given))
    assert everything(tmp_path) == []


def test_a_source_without_a_row_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"toy: .*holds no transition"):
        write_collection(tmp_path / "made", "toy", {}, lambda: episodes((0, 0)))
    assert everything(tmp_path) == []


def test_an_episode_without_a_move_has_no_row_and_keeps_its_place(tmp_path):
    write_collection(tmp_path / "made", "toy", {}, lambda: episodes((2, 0, 1)))
    assert Manifest.read(tmp_path / "made/manifest.json").lengths == (2, 0, 1)


def test_who_finishes_second_leaves_the_first_in_place(tmp_path):
    def overtaken():
        yield from episodes()
        if not (tmp_path / "made").exists():
            write_collection(tmp_path / "made", "first", {}, episodes)

    write_collection(tmp_path / "made", "second", {}, overtaken)
    assert Manifest.read(tmp_path / "made/manifest.json").dataset_id == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


KILLED = """
import importlib.util, os, signal, sys
from pathlib import Path
from tetrarl.data.datasets import _writer
from tetrarl.data.datasets._manifest import Manifest
spec = importlib.util.spec_from_file_location("given", sys.argv[1])
given = importlib.util.module_from_spec(spec); spec.loader.exec_module(given)

def deadly(real, call):
    calls = []
    def wrapped(*args, **options):
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    return wrapped

owners = {"writer": _writer, "manifest": Manifest, "path": Path}
for number, (place, name, call) in enumerate(given.MOMENTS):
    child = os.fork()
    if not child:
        setattr(owners[place], name, deadly(getattr(owners[place], name), call))
        _writer.write_collection(Path(sys.argv[2]) / str(number) / "made", "toy", {}, given.episodes)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, (place, name, call)
"""
MOMENTS = [  # whose which call kills
    ("writer", "_allocate", 1),
    ("writer", "ted_arrays", 1),
    ("writer", "ted_arrays", 3),
    ("writer", "checksums", 1),
    ("manifest", "write", 1),
    ("path", "rename", 2),  # the first gives the folder its hidden name
]


def test_a_killed_writer_leaves_nothing_that_is_seen_and_the_next_cleans_up(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", KILLED, __file__, str(tmp_path)], capture_output=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    for number in range(len(MOMENTS)):
        parent = tmp_path / str(number)
        (left,) = parent.iterdir()
        assert left.name.startswith(".unfinished-")
        write_collection(parent / "made", "toy", {}, episodes)
        assert [path.name for path in parent.iterdir()] == ["made"]


def test_what_another_process_is_writing_is_left_alone(tmp_path):
    def interrupted():
        yield from episodes()
        if not (tmp_path / "other").exists():
            before = list(tmp_path.glob(".unfinished-*"))
            write_collection(tmp_path / "other", "toy", {}, episodes)
            assert list(tmp_path.glob(".unfinished-*")) == before

    write_collection(tmp_path / "made", "toy", {}, interrupted)
    assert {path.name for path in tmp_path.iterdir()} == {"made", "other"}
