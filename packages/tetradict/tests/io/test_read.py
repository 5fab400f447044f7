import json
import os
import pickle

import pytest
import torch

from tetradict import TensorDict
from tetradict.io import _layout, load_folder


@pytest.fixture
def saved(tmp_path):
    td = TensorDict(
        {"a": torch.arange(6.0).view(3, 2), "n": {"b": torch.arange(3), "s": "text", "r": ["x", "y", "z"]}},
        [3],
        names=["t"],
    )
    td.memmap(tmp_path / "td")
    return tmp_path / "td"


def edit(path, change):
    meta = json.loads(path.read_text())
    change(meta)
    path.write_text(json.dumps(meta))


def test_it_is_mapped_locked_and_on_the_cpu(saved):
    td = TensorDict.load_memmap(saved)
    assert td.is_memmap()
    assert td.is_locked
    assert td.device == td["n"].device == torch.device("cpu")
    assert td.names == td["n"].names == ["t"]
    assert td["n", "r"] == ["x", "y", "z"]
    td["a"][0, 0] = 7
    assert TensorDict.load_memmap(str(saved))["a"][0, 0] == 7


BREAKS = {
    "no meta": (lambda p: (p / "meta.json").unlink(), FileNotFoundError, "holds no saved collection"),
    "no child meta": (lambda p: (p / "n/meta.json").unlink(), FileNotFoundError, "holds no saved collection"),
    "no file": (
        lambda p: (p / "a.memmap").unlink(),
        FileNotFoundError,
        "entry 'a' lies in 'a.memmap', which is missing",
    ),
    "short file": (
        lambda p: os.truncate(p / "a.memmap", 23),
        ValueError,
        "takes 24 bytes, but 'a.memmap' has 23",
    ),
    "empty file": (
        lambda p: os.truncate(p / "a.memmap", 0),
        ValueError,
        "takes 24 bytes, but 'a.memmap' has 0",
    ),
    "not JSON": (lambda p: (p / "meta.json").write_text("{"), ValueError, "is not JSON"),
    "not UTF-8": (lambda p: (p / "meta.json").write_bytes(b'{"\xff": 1}'), ValueError, "is not JSON"),
    "no object": (
        lambda p: (p / "meta.json").write_text("[]"),
        ValueError,
        "expected a JSON object, got a list",
    ),
    "bad shape": (
        lambda p: edit(p / "meta.json", lambda m: m["a"].update(shape=[3, -2])),
        ValueError,
        "'a' must have a dtype",
    ),
    "huge shape": (
        lambda p: edit(p / "meta.json", lambda m: m["a"].update(shape=[3, 1 << 60])),
        ValueError,
        "bytes, but",
    ),
    "bad dtype": (
        lambda p: edit(p / "meta.json", lambda m: m["a"].update(dtype="os.path")),
        ValueError,
        "'os.path'",
    ),
    "no dtype": (lambda p: edit(p / "meta.json", lambda m: m["a"].pop("dtype")), ValueError, "got None"),
    "misfit": (
        lambda p: edit(p / "meta.json", lambda m: m["a"].update(shape=[2, 2])),
        ValueError,
        r"begins with \[3\]",
    ),
    "bad entry": (
        lambda p: edit(p / "meta.json", lambda m: m.update(a=3)),
        ValueError,
        "described by an object, got 3",
    ),
    "bad batch": (
        lambda p: edit(p / "meta.json", lambda m: m.update(shape="3")),
        ValueError,
        "'shape' must be a list",
    ),
    "bad child": (
        lambda p: ((p / "meta.tetra.json").unlink(), edit(p / "meta.json", lambda m: m.update(shape=[3, 2]))),
        ValueError,
        r"'n' has batch size \(3,\), which does not begin with \(3, 2\)",
    ),
    "no child": (
        lambda p: edit(p / "meta.json", lambda m: m.update(q={"type": "TensorDict"})),
        FileNotFoundError,
        "missing",
    ),
    "nested": (
        lambda p: edit(p / "meta.json", lambda m: m["a"].update(is_nested=True)),
        ValueError,
        "nested tensor",
    ),
    "bad names": (
        lambda p: edit(p / "meta.tetra.json", lambda m: m.update(names=["x", "y"])),
        ValueError,
        "'names'",
    ),
    "bad rows": (
        lambda p: edit(p / "n/r/meta.json", lambda m: m.update(data=["x"])),
        ValueError,
        r"\(1,\), expected \(3,\)",
    ),
    "no rows": (
        lambda p: edit(p / "n/r/meta.json", lambda m: m.update(data=3)),
        ValueError,
        "'data' that is lists",
    ),
    "pickled": (
        lambda p: edit(p / "n/s/meta.json", lambda m: m.pop("data")),
        ValueError,
        "nothing is unpickled here",
    ),
    "lazy": (
        lambda p: edit(p / "meta.json", lambda m: m.update(_type="<class 'x.L'>", stack_dim=0)),
        ValueError,
        "lazy stack",
    ),
    "fifo": (lambda p: ((p / "a.memmap").unlink(), os.mkfifo(p / "a.memmap")), ValueError, "bytes, but"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_files_that_do_not_go_together_are_refused(name, saved):
    damage, error, match = BREAKS[name]
    damage(saved)
    with pytest.raises(error, match=match):
        load_folder(saved, TensorDict)


def test_nothing_is_mapped_before_all_is_checked(saved, monkeypatch):
    (saved / "n/b.memmap").unlink()
    monkeypatch.setattr(torch, "from_file", None)
    with pytest.raises(FileNotFoundError, match=r"b.memmap"):
        load_folder(saved, TensorDict)


@pytest.mark.parametrize("name", ["a.memmap", "n", "meta.json", "n/s"])
def test_a_link_that_leads_out_is_not_followed(name, saved, tmp_path):
    os.rename(saved / name, tmp_path / "outside")
    (saved / name).symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match=r"is a link that leads out of|links to folders are not followed"):
        load_folder(saved, TensorDict)


def test_a_link_that_stays_inside_is_followed(saved):
    os.rename(saved / "a.memmap", saved / "real")
    (saved / "a.memmap").symlink_to("real")
    assert load_folder(saved, TensorDict)["a"].shape == (3, 2)


def test_a_folder_may_be_reached_by_a_link(saved, tmp_path):
    (tmp_path / "link").symlink_to(saved)
    td = load_folder(tmp_path / "link", TensorDict)
    assert td["a"].shape == (3, 2)
    TensorDict({"a": torch.ones(3)}, [3]).memmap(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load_folder(saved, TensorDict)["a"].shape == (3,)


@pytest.mark.parametrize("key", ["../../outside", "/etc/passwd", "..", "a/../../x"])
def test_a_key_from_a_file_leads_nowhere_else(key, saved, tmp_path):
    for about in ({"dtype": "torch.uint8", "shape": [3], "device": "cpu"}, {"type": "TensorDict"}):
        (tmp_path / "outside.memmap").write_bytes(bytes(3))
        edit(saved / "meta.json", lambda m, about=about: m.update({key: about}))
        with pytest.raises(FileNotFoundError, match="missing"):
            load_folder(saved, TensorDict)


def test_a_pickle_is_never_opened(saved):
    class Boom:
        def __reduce__(self):
            return (os.mkdir, (str(saved / "boom"),))

    (saved / "n/s/other.pickle").write_bytes(pickle.dumps(Boom()))
    edit(saved / "n/s/meta.json", lambda m: m.pop("data"))
    with pytest.raises(ValueError, match=r"other.pickle"):
        load_folder(saved, TensorDict)
    assert not (saved / "boom").exists()


def test_longer_files_and_unknown_facts_are_fine(
    saved,
):  # what tensordict leaves when it saves over a longer one
    with open(saved / "a.memmap", "ab") as file:
        file.write(b"more")
    edit(saved / "meta.json", lambda m: m["a"].update(extra=1))
    assert load_folder(saved, TensorDict)["a"].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_class_that_is_not_known_is_loaded_as_a_plain_collection_with_a_warning(
    saved,
):  # pytorch/tensordict#1051
    edit(saved / "meta.json", lambda m: m.update(_type="<class 'not_there.Gone'>"))
    with pytest.warns(UserWarning, match="saved as <class 'not_there.Gone'>"):
        td = TensorDict.load_memmap(saved)
    assert type(td) is TensorDict
    assert td["a"].shape == (3, 2)


def test_a_tensorclass_is_loaded_as_its_fields(saved, tmp_path):
    (tmp_path / "tc").mkdir()
    os.rename(saved, tmp_path / "tc/_tensordict")
    (tmp_path / "tc/meta.json").write_text(json.dumps({"_type": "<class 'mod.Name'>"}))
    with pytest.warns(UserWarning, match="mod.Name"):
        assert load_folder(tmp_path / "tc", TensorDict)["a"].shape == (3, 2)


def test_folders_of_other_names_that_tensordict_gives_are_found(tmp_path):
    td = TensorDict({"n.json": {"a": torch.zeros(3)}}, [3])
    td.memmap(tmp_path / "td")
    os.rename(tmp_path / "td" / _layout.child_folder("n.json"), tmp_path / "td/n.json")
    assert load_folder(tmp_path / "td", TensorDict)["n.json", "a"].shape == (3,)
