import copy
import pickle
from concurrent.futures import Future

import pytest
import torch

import tetradict
from tetradict import MemoryMappedTensor, TensorDict


def example():
    return TensorDict({"a": torch.arange(6.0).view(3, 2), "n": {"b": torch.arange(3), "s": "text"}}, [3])


@pytest.mark.smoke
def test_memmap_saves_and_gives_the_mapped_collection(tmp_path):
    td = example()
    mapped = td.memmap(tmp_path / "td")
    assert mapped.is_memmap()
    assert mapped.is_locked
    assert mapped.device == torch.device("cpu")
    assert not td.is_memmap()
    assert not td.is_locked
    mapped[0] = mapped[1].clone()
    mapped["n"].zero_()
    back = TensorDict.load_memmap(tmp_path / "td")
    assert back["a"].tolist() == [[2, 3], [2, 3], [4, 5]]
    assert back["n", "b"].tolist() == [0, 0, 0]
    assert back["n", "s"] == "text"
    assert back[1].is_memmap()
    assert not (back + 1).is_memmap()


def test_memmap_in_place_maps_the_collection_itself(tmp_path):
    td = example()
    n = td["n"]
    assert td.memmap_(tmp_path / "td") is td
    assert td.is_memmap()
    assert td.is_locked
    assert td["n"] is n
    assert n["b"].filename == str(tmp_path / "td/n/b.memmap")
    assert td.memmap_(tmp_path / "td", existsok=True) is td


def test_without_a_folder_it_is_shared_memory():
    td = example()
    for mapped in (td.memmap(), td.memmap_like(), td.memmap_()):
        assert mapped.is_memmap()
        assert mapped.is_shared()
        assert mapped.is_locked
        assert mapped["a"].filename is None
        assert mapped["n", "s"] == "text"
    assert td.is_memmap()


def test_memmap_like_makes_room_for_many_from_one(tmp_path):
    item = example()[0]
    store = item.expand(100_000).memmap_like(tmp_path / "store")
    assert store.batch_size == (100_000,)
    assert store["a"].shape == (100_000, 2)
    assert store["n", "b"].dtype is torch.int64
    assert store["a"].sum() == 0
    assert sum(file.stat().st_blocks * 512 for file in (tmp_path / "store").rglob("*")) < 1 << 20
    store[99_999] = item + 1
    assert TensorDict.load_memmap(tmp_path / "store")[99_999]["a"].tolist() == [1, 2]
    with pytest.raises(FileExistsError):
        item.memmap_like(tmp_path / "store", existsok=False)


def test_return_early_gives_a_future(tmp_path):
    future = example().memmap(tmp_path / "td", num_threads=2, return_early=True)
    assert isinstance(future, Future)
    assert future.result(60)["a"].filename == str(tmp_path / "td/a.memmap")
    bad = TensorDict({"s": {1}}, []).memmap(tmp_path / "bad", return_early=True)
    with pytest.raises(TypeError, match="entry 's'"):
        bad.result(60)


def test_save_and_load_are_a_round_trip(tmp_path, assert_same):
    td = example()
    td.save(tmp_path / "td", durable=True)
    for load in (TensorDict.load, TensorDict.load_memmap, tetradict.load, tetradict.load_memmap):
        assert_same(td.to("cpu").lock_(), load(tmp_path / "td"))
    assert TensorDict.load(tmp_path / "td", device="meta")["a"].device.type == "meta"
    for name in ("x.safetensors", "x.td"):
        td.save(tmp_path / name)
        assert_same(td.to("cpu").lock_(), TensorDict.load(tmp_path / name))


def test_a_pickle_of_a_mapped_collection_maps_the_same_files(tmp_path):
    td = example().memmap(tmp_path / "td")
    back = pickle.loads(pickle.dumps(td))
    assert back.is_memmap()
    assert back.is_locked
    back["a"][0] = 9
    assert td["a"][0].tolist() == [9, 9]
    assert not copy.deepcopy(td).is_memmap()


def test_a_subclass_loads_as_itself(tmp_path):
    class Mine(TensorDict):
        pass

    assert type(Mine(example(), [3]).memmap(tmp_path / "td")) is Mine
    with_kind = Mine.load_memmap(tmp_path / "td")
    assert isinstance(with_kind, TensorDict)


def test_a_relative_folder_is_the_same_from_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mapped = example().memmap("td")
    assert mapped["a"].filename == str(tmp_path / "td/a.memmap")
    assert isinstance(mapped["a"], MemoryMappedTensor)
