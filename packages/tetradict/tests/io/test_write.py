import json
import os
import shutil
import stat

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tetradict import MemoryMappedTensor, NonTensorStack, TensorDict, _files
from tetradict.io import load_folder, save_folder


def files(path):
    return sorted(
        os.path.relpath(os.path.join(root, name), path) for root, _, names in os.walk(path) for name in names
    )


def test_the_files_are_those_of_the_layout(tmp_path):  # as read from files that tensordict 0.14.3 wrote
    td = TensorDict(
        {
            "x.y": torch.ones(2, 3, dtype=torch.bfloat16),
            "none": torch.zeros(2, 0),
            "n": {"b": torch.tensor([True, False]), "s": "hi", "rows": NonTensorStack("a", "b")},
        },
        [2],
    )
    save_folder(td, tmp_path / "td")
    assert files(tmp_path) == [
        "td/meta.json",
        "td/n/b.memmap",
        "td/n/meta.json",
        "td/n/rows/meta.json",
        "td/n/s/meta.json",
        "td/x.y.memmap",
    ]
    assert (tmp_path / "td/n/b.memmap").read_bytes() == b"\1\0"
    assert (tmp_path / "td/x.y.memmap").read_bytes() == b"\x80\x3f" * 6
    kind = "<class 'tensordict._td.TensorDict'>"
    assert json.loads((tmp_path / "td/meta.json").read_text()) == {
        "x.y": {"device": "cpu", "shape": [2, 3], "dtype": "torch.bfloat16", "is_nested": False},
        "none": {"device": "cpu", "shape": [2, 0], "dtype": "torch.float32", "is_nested": False},
        "n": {"type": "TensorDict"},
        "shape": [2],
        "device": "cpu",
        "_type": kind,
    }
    assert json.loads((tmp_path / "td/n/meta.json").read_text())["rows"] == {"type": "NonTensorStack"}
    assert json.loads((tmp_path / "td/n/s/meta.json").read_text()) == {
        "_type": "<class 'tensordict.tensorclass.NonTensorData'>",
        "data": "hi",
        "_is_non_tensor": True,
        "_metadata": None,
    }
    assert json.loads((tmp_path / "td/n/rows/meta.json").read_text()) == {
        "_type": "<class 'tensordict.tensorclass.NonTensorStack'>",
        "stack_dim": 0,
        "device": None,
        "data": ["a", "b"],
    }


@pytest.mark.smoke
@settings(max_examples=20)
@given(data=st.data(), threads=st.sampled_from([0, 2]))
def test_a_folder_gives_back_what_it_took(data, threads, trees, assert_same, tmp_path_factory):
    td = data.draw(trees)
    if td.ndim:
        td.names = ["first", *[None] * (td.ndim - 1)]
    path = tmp_path_factory.mktemp("td")
    save_folder(td, path, num_threads=threads)
    assert_same(td.to("cpu"), load_folder(path, TensorDict))


@pytest.mark.parametrize(
    "key",
    [
        "a/b/c",
        "../up",
        "..",
        ".",
        "",
        "x.y",
        "-z",
        "meta.json",
        "meta.tetra.json",
        "other.pickle",
        "shape",
        "device",
        "_type",
        "a.memmap",
        "%2F",
        "x\ny",
        "é😀",
    ],
)
def test_any_key_is_saved_inside_the_folder(key, tmp_path):  # pytorch/tensordict#1440
    td = TensorDict({key: torch.arange(4.0), "a": torch.ones(4)}, [4])
    nested = TensorDict({key: {"x": torch.arange(4.0), key: "text"}, "a": torch.ones(4)}, [4])
    for one in (td, nested):
        one.memmap(tmp_path / "in")
        assert os.listdir(tmp_path) == ["in"]
        back = TensorDict.load_memmap(tmp_path / "in")
        assert back.keys() == one.keys()
    assert back[key, "x"].tolist() == [0, 1, 2, 3]
    assert back[key, key] == "text"


def test_what_was_saved_before_is_replaced_and_strange_files_stay(tmp_path):
    path = tmp_path / "td"
    TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2)}, "old": {"c": torch.zeros(2)}}, [2]).memmap(
        path
    )
    for name in ("mine.txt", "n/mine.txt", "old/mine.txt", "sub/mine.txt"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(name)
    (path / "link").symlink_to("mine.txt")
    path.chmod(0o700)
    TensorDict({"b": torch.ones(2), "n": {"d": torch.ones(2)}}, [2]).memmap(path)
    assert files(path) == [
        *("b.memmap", "link", "meta.json", "mine.txt", "n/d.memmap", "n/meta.json", "n/mine.txt"),
        *("old/mine.txt", "sub/mine.txt"),
    ]
    assert (path / "sub/mine.txt").read_text() == "sub/mine.txt"
    assert (path / "link").is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert TensorDict.load_memmap(path).keys(True, True) == ["b", ("n", "d")]
    assert os.listdir(tmp_path) == ["td"]


def test_a_file_that_comes_while_saving_stays(tmp_path, monkeypatch):
    TensorDict({"a": torch.zeros(2)}, [2]).memmap(tmp_path / "td")
    real = _files._exchange

    def late(left, right):
        (right / "late.txt").write_text("late")
        return real(left, right)

    monkeypatch.setattr(_files, "_exchange", late)
    TensorDict({"b": torch.zeros(2)}, [2]).memmap(tmp_path / "td")
    assert files(tmp_path) == ["td/b.memmap", "td/late.txt", "td/meta.json"]


def test_existsok_and_files_in_the_way(tmp_path):
    td = TensorDict({"a": torch.zeros(2)}, [2])
    td.memmap(tmp_path)
    with pytest.raises(FileExistsError, match="pass existsok=True"):
        td.memmap(tmp_path, existsok=False)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="is a file"):
        td.memmap(tmp_path / "file")
    td.memmap(tmp_path / "deep" / "deeper", existsok=False)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_value_that_json_cannot_hold_is_named_and_nothing_is_written(tmp_path):
    td = TensorDict({"a": torch.zeros(2), "n": {"s": {1, 2}}}, [2])
    with pytest.raises(TypeError, match=r"save: entry \('n', 's'\): a value of type set cannot be saved"):
        td.memmap(tmp_path / "td")
    with pytest.raises(TypeError, match=r"save: entry 's': a value of type object"):
        TensorDict({"s": NonTensorStack("a", object())}, [2]).memmap(tmp_path / "td")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("exchange", [True, False])
def test_a_failed_save_leaves_the_old_one_and_no_rubbish(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(_files, "_exchange", lambda left, right: False)
    path = tmp_path / "td"
    TensorDict({"a": torch.zeros(2)}, [2]).memmap(path)
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "pwrite", lambda *args: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        )
        with pytest.raises(OSError, match="No space left"):
            TensorDict({"a": torch.ones(2), "b": torch.ones(2)}, [2]).memmap(path)
    assert os.listdir(tmp_path) == ["td"]
    assert TensorDict.load_memmap(path)["a"].tolist() == [0, 0]
    TensorDict({"a": torch.ones(2)}, [2]).memmap(path)
    assert os.listdir(tmp_path) == ["td"]
    assert TensorDict.load_memmap(path)["a"].tolist() == [1, 1]


def test_a_folder_that_cannot_be_renamed_is_written_inside(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "ismount", lambda path: True)
    path = tmp_path / "td"
    TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2)}}, [2]).memmap(path)
    for name in ("mine.txt", "n/mine.txt", "m/mine.txt"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("mine")
    inode = path.stat().st_ino
    TensorDict({"a": torch.ones(2), "m": {"b": torch.ones(2)}}, [2]).memmap(path)
    assert path.stat().st_ino == inode
    assert files(path) == [
        "a.memmap",
        "m/b.memmap",
        "m/meta.json",
        "m/mine.txt",
        "meta.json",
        "mine.txt",
        "n/mine.txt",
    ]
    assert TensorDict.load_memmap(path)["a"].tolist() == [1, 1]


def test_tensors_that_are_mapped_from_the_folder_keep_their_files(tmp_path):
    first = TensorDict({"a": torch.zeros(2), "b": torch.zeros(2)}, [2]).memmap(tmp_path / "td")
    loaded = TensorDict.load_memmap(tmp_path / "td")
    loaded.unlock_()
    loaded["c"] = torch.ones(2)
    again = loaded.memmap(tmp_path / "td")
    again["a"][0] = 5
    assert first["a"].tolist() == loaded["a"].tolist() == [5, 0]
    assert TensorDict.load_memmap(tmp_path / "td")["a"].tolist() == [5, 0]
    assert TensorDict.load_memmap(tmp_path / "td")["c"].tolist() == [1, 1]


def test_tensors_of_a_replaced_folder_are_written_as_they_are(tmp_path):
    old = TensorDict({"a": torch.zeros(2)}, [2]).memmap(tmp_path / "td")
    TensorDict({"a": torch.ones(2)}, [2]).memmap(tmp_path / "td")
    old.memmap(tmp_path / "td")
    assert TensorDict.load_memmap(tmp_path / "td")["a"].tolist() == [0, 0]


def test_tensors_that_are_mapped_elsewhere_are_copied_only_when_told(tmp_path):
    td = TensorDict({"a": torch.ones(2)}, [2]).memmap(tmp_path / "one")
    for one in (td, td[:1]):
        with pytest.raises(RuntimeError, match="pass copy_existing=True"):
            one.memmap(tmp_path / "two")
    assert os.listdir(tmp_path) == ["one"]
    two = td.memmap(tmp_path / "two", copy_existing=True)
    two["a"].zero_()
    assert td["a"].tolist() == [1, 1]
    assert isinstance(two["a"], MemoryMappedTensor)


def killed_at(step, action):
    """Run ``action`` in a child that is killed before its ``step``-th call to the system; say whether it was."""
    pid = os.fork()
    if pid == 0:
        left = [step]

        def watched(real):
            def call(*args, **kwargs):
                if left[0] == 0:
                    os._exit(9)
                left[0] -= 1
                return real(*args, **kwargs)

            return call

        for name in (
            "open",
            "pwrite",
            "fsync",
            "mkdir",
            "rename",
            "replace",
            "link",
            "unlink",
            "rmdir",
            "close",
        ):
            setattr(os, name, watched(getattr(os, name)))
        _files._exchange = watched(_files._exchange)
        shutil.rmtree = watched(shutil.rmtree)
        action()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("exchange", "durable"),
    [
        (True, False),
        pytest.param(True, True, marks=pytest.mark.slow),
        pytest.param(False, False, marks=pytest.mark.slow),
    ],
)
def test_a_save_that_is_killed_anywhere_leaves_the_old_or_the_new(tmp_path, monkeypatch, exchange, durable):
    if not exchange:
        monkeypatch.setattr(_files, "_exchange", lambda left, right: False)
    old = TensorDict(
        {"a": torch.zeros(4), "n": {"b": torch.zeros(4), "s": "old"}, "gone": torch.zeros(4)}, [4]
    )
    new = TensorDict({"a": torch.ones(4), "n": {"b": torch.ones(4), "s": "new"}, "more": torch.ones(4)}, [4])
    path = tmp_path / "td"
    seen = set()
    for step in range(200):
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        old.memmap(path)
        (path / "mine.txt").write_text("mine")
        killed = killed_at(step, lambda: new.memmap(path, durable=durable))
        found = TensorDict.load_memmap(path)
        want = new if ("more" in found) else old
        assert (found == want).all()
        seen.add(want["n", "s"])
        if path.exists():
            assert (path / "mine.txt").read_text() == "mine"
        if not killed:
            break
    assert not killed
    assert want is new
    assert step > 20
    assert seen == {"old", "new"}
