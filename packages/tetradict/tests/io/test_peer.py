"""Folders go both ways between tensordict and this library; run where tensordict is installed."""

import pytest
import torch

from tetradict import NonTensorData, NonTensorStack, TensorDict

peer = pytest.importorskip("tensordict", reason="needs tensordict, to read and write its folders")

DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.complex64,
    torch.bool,
    torch.int64,
    torch.uint8,
]  # float8 it does not know


def entries():
    out = {str(dtype): torch.ones(2, 3).to(dtype) for dtype in DTYPES}
    for key in ("a/b c", "..", "%", "é", "x.y", "\n"):
        out[key] = torch.arange(2.0)
    out["none"] = torch.zeros(2, 0)
    return out


@pytest.mark.filterwarnings("default")
def test_tensordict_reads_what_we_write(tmp_path):
    source = entries()
    td = TensorDict(
        {
            **source,
            "n": {**source, "s": NonTensorData({"a": [1, "x"]}), "m": {"..": {"x": torch.ones(2)}}},
            "rows": NonTensorStack("a", "b"),
        },
        [2],
    )
    td.memmap(tmp_path / "td")
    back = peer.TensorDict.load_memmap(tmp_path / "td")
    assert back.batch_size == (2,)
    for key, value in source.items():
        for found in (back[key], back["n", key]):
            assert found.dtype == value.dtype
            assert bytes(found.reshape(-1).view(torch.uint8).tolist()) == bytes(
                value.view(-1).view(torch.uint8).tolist()
            )
    assert back["n", "m", "..", "x"].tolist() == [1, 1]
    assert back["n", "s"] == {"a": [1, "x"]}
    assert list(back["rows"]) == ["a", "b"]


@pytest.mark.filterwarnings("default")
def test_we_read_what_tensordict_writes(tmp_path):
    source = entries()
    td = peer.TensorDict(
        {
            **source,
            "n": {**source, "s": peer.NonTensorData({"a": [1, "x"]}, [2])},
            "rows": peer.NonTensorStack("a", "b"),
        },
        [2],
    )
    td["n", "m"] = peer.TensorDict({"x": torch.ones(2, 3)}, [2, 3])
    td.memmap(tmp_path / "td")
    back = TensorDict.load_memmap(tmp_path / "td")
    for key, value in source.items():
        for found in (back[key], back["n", key]):
            assert found.dtype == value.dtype
            assert found.shape == value.shape
            assert bytes(found.view(-1).view(torch.uint8).tolist()) == bytes(
                value.view(-1).view(torch.uint8).tolist()
            )
    assert back["n", "m"].batch_size == (2, 3)
    assert back["n", "s"] == {"a": [1, "x"]}
    assert back["rows"] == ["a", "b"]


@pytest.mark.filterwarnings("default")
def test_a_folder_that_was_saved_by_both_reads_as_the_last(tmp_path):
    peer.TensorDict({"a": torch.zeros(10), "b": torch.zeros(2)}, []).memmap(tmp_path / "td")
    TensorDict({"a": torch.ones(4), "c": torch.ones(2)}, []).memmap(tmp_path / "td")
    assert sorted(peer.TensorDict.load_memmap(tmp_path / "td").keys()) == ["a", "c"]
    peer.TensorDict({"a": torch.full((3,), 2.0)}, []).memmap(tmp_path / "td")
    assert TensorDict.load_memmap(tmp_path / "td")["a"].tolist() == [2, 2, 2]
