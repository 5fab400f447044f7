"""Damaged and hostile files: each is refused with file and group, and leaves nothing behind."""

import h5py
import numpy as np
import pytest

from tetrarl.data.datasets import MinariExperienceReplay


def write(path, edit, lengths=(2, 3)):
    """A whole file in Minari's layout, then edited."""
    with h5py.File(path, "w") as file:
        for number, length in enumerate(lengths):
            group = file.create_group(f"episode_{number}")
            group["observations"] = np.ones((length + 1, 4), np.float32)
            group["actions"] = np.zeros(length, np.int64)
            group["rewards"] = np.zeros(length)
            group["terminations"] = np.arange(length) == length - 1
            group["truncations"] = np.zeros(length, bool)
            group.create_group("infos")
        edit(file)
    return path


def replaced(name, value, **options):
    def edit(file):
        del file[name]
        file.create_dataset(name, data=value, **options)

    return edit


def link(name, target):
    def edit(file):
        del file[name]
        file[name] = target

    return edit


def virtual(name):
    def edit(file):
        del file[name]
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource("/etc/hostname", "x", (3,))
        file.create_virtual_dataset(name, layout)

    return edit


def external(name):
    def edit(file):
        del file[name]
        file.create_dataset(name, (3,), "i1", external=[("/etc/hostname", 0, 3)])

    return edit


def without(*names):
    def edit(file):
        for name in names:
            del file[name]

    return edit


def a_group_in_itself(file):
    group = file.create_group("episode_1/infos/deep")
    group["deep"] = group


RAGGED = h5py.vlen_dtype(np.float32)
CASES = {
    "a column missing": (
        without("episode_1/rewards"),
        r"{file}: episode_1: rewards missing; found \['actions'",
    ),
    "no episode": (without("episode_0", "episode_1"), r"{file}: holds no group 'episode_<number>'"),
    "another group": (
        lambda f: f.create_group("episode_x"),
        r"{file}: 'episode_x' is not called 'episode_<number>'",
    ),
    "the same twice": (lambda f: f.copy("episode_1", "episode_01"), "are the same episode"),
    "a dataset for a group": (replaced("episode_1", 1.0), "episode_1: expected a group, found a dataset"),
    "a group for a dataset": (
        lambda f: (f.__delitem__("episode_1/rewards"), f.create_group("episode_1/rewards")),
        "episode_1/rewards: expected a dataset of numbers",
    ),
    "an empty observation": (
        lambda f: (f.__delitem__("episode_1/observations"), f.create_group("episode_1/observations")),
        "episode_1/observations: an empty group",
    ),
    "too few actions": (
        replaced("episode_1/actions", [1, 2]),
        "{file}: episode_1: action has 2 rows, expected 3",
    ),
    "too many flags": (
        replaced("episode_1/terminations", [True] * 9),
        "episode_1: terminated has 9 rows, expected 3",
    ),
    "too many observations": (
        replaced("episode_1/observations", np.ones((7, 4), "f4")),
        "observation has 7 rows, expected 3 or 4",
    ),
    "another shape": (
        replaced("episode_1/observations", np.ones((4, 5), "f4")),
        r"episode_1: observation has rows of shape \(5,\)",
    ),
    "another dtype": (
        replaced("episode_1/observations", np.ones((4, 4))),
        "episode_1: observation has rows of .*float64",
    ),
    "flags that are none": (
        replaced("episode_1/truncations", [0, 7, 0]),
        "episode_1: truncated must hold 0 and 1",
    ),
    "an entry of one episode alone": (
        replaced("episode_1/infos", 1.0),
        "infos: expected a group, found a dataset",
    ),
    "an info of one episode alone": (
        lambda f: f.create_dataset("episode_1/infos/x", data=[0, 0, 0]),
        "info/x.* in one of them alone",
    ),
    "text for a number": (
        replaced("episode_1/rewards", ["a", "b", "c"]),
        "episode_1/rewards: expected a dataset of numbers",
    ),
    "rows of varying length": (
        replaced("episode_1/actions", [np.ones(1), np.ones(2), np.ones(3)], dtype=RAGGED),
        "rows of varying length",
    ),
    "a compound": (
        replaced("episode_1/actions", np.zeros(3, [("a", "i4"), ("b", "f4")])),
        "which torch can't hold",
    ),
    "a link to another file": (
        link("episode_1/actions", h5py.ExternalLink("/etc/x.h5", "a")),
        "'actions' is a link to somewhere else",
    ),
    "a soft link": (
        link("episode_1/actions", h5py.SoftLink("/episode_0")),
        "'actions' is a link to somewhere else",
    ),
    "rows of another file": (virtual("episode_1/rewards"), "episode_1/rewards: its rows lie in another file"),
    "bytes of another file": (
        external("episode_1/actions"),
        "episode_1/actions: its rows lie in another file",
    ),
    "a name that climbs": (
        lambda f: f.create_dataset("episode_1/infos/a\\b", data=[0] * 4),
        "can't be the name of an entry",
    ),
    "two names for one entry": (
        lambda f: [f.create_dataset(f"episode_1/infos/{name}", data=[0] * 4) for name in ("0", "_index_0")],
        "'_index_0' can't be the name of an entry",
    ),
    "a group in itself": (a_group_in_itself, "groups within groups without end"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_minari_does_not_write_is_refused_by_name_and_leaves_nothing(case, tmp_path):
    edit, message = CASES[case]
    file = write(tmp_path / "main_data.hdf5", edit)
    with pytest.raises(ValueError, match=message.replace("{file}", str(file))):
        MinariExperienceReplay.from_files(file, root=tmp_path / "root")
    assert not [path for path in (tmp_path / "root").rglob("*") if path.is_file()]


def test_what_is_no_hdf5_file_is_refused(tmp_path):
    file = write(tmp_path / "main_data.hdf5", lambda file: None)
    whole = file.read_bytes()
    for content in (b"", b"hello", whole[: len(whole) // 2]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"main_data\.hdf5: not a whole HDF5 file .*again"):
            MinariExperienceReplay.from_files(file, root=tmp_path / "root")
    assert not [path for path in (tmp_path / "root").rglob("*") if path.is_file()]


def test_rows_that_can_not_be_unpacked_are_refused_by_name(tmp_path):
    rows = np.random.default_rng(0).normal(size=(4, 4)).astype("f4")
    file = write(
        tmp_path / "main_data.hdf5",
        replaced("episode_1/observations", rows, compression="gzip", chunks=(4, 4)),
    )
    with h5py.File(file) as opened:
        chunk = opened["episode_1/observations"].id.get_chunk_info(0)
    damaged = bytearray(file.read_bytes())
    damaged[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    file.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"episode_1/observations: its rows can't be read"):
        MinariExperienceReplay.from_files(file, root=tmp_path / "root")
    assert not [path for path in (tmp_path / "root").rglob("*") if path.is_file()]


def test_more_rows_than_the_disk_has_room_for_are_refused_before_anything_is_written(tmp_path):
    def edit(file):
        huge = 1 << 50
        for name, shape, dtype in (
            ("observations", (huge + 1, 4), "f4"),
            ("actions", (huge,), "i8"),
            ("rewards", (huge,), "f8"),
            ("terminations", (huge,), "?"),
            ("truncations", (huge,), "?"),
        ):
            del file[f"episode_1/{name}"]
            file.create_dataset(
                f"episode_1/{name}", shape, dtype, chunks=True
            )  # no chunk is written: a small file

    file = write(tmp_path / "main_data.hdf5", edit)
    with pytest.raises(OSError, match=r"needs \d+ bytes in .*, where \d+ are free; pass root="):
        MinariExperienceReplay.from_files(file, root=tmp_path / "root")
    assert not [path for path in (tmp_path / "root").rglob("*") if path.is_file()]
