"""One safetensors file: what was saved is there again, others read it, and no file does harm."""

import json
import multiprocessing
import os
import pickle
import random
import signal
import struct
import subprocess
import sys
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetradict import MemoryMappedTensor, NonTensorData, NonTensorStack, TensorDict, verify


@given(data=st.data(), checksum=st.booleans())
def test_what_was_saved_is_loaded(trees, assert_same, tmp_path_factory, data, checksum):
    td = data.draw(trees)
    path = tmp_path_factory.mktemp("one") / "x.safetensors"
    saved = td.save(path, checksum=checksum)
    back = TensorDict.load(path)
    assert back.is_locked
    assert_same(back, td.to("cpu"))
    assert_same(saved, back)
    if checksum:
        verify(path)


DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128, torch.complex64),
    *(
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.uint16,
        torch.uint32,
        torch.uint64,
    ),
    *(torch.bool, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.complex32),
]


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 2)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_keeps_its_bits(tmp_path, dtype, shape):
    raw = torch.randint(0, 2 if dtype is torch.bool else 100, (*shape, dtype.itemsize), dtype=torch.uint8)
    tensor = raw.view(dtype).view(shape)
    td = TensorDict({"odd": torch.ones(3, dtype=torch.uint8), "x": tensor, "y": tensor.clone()}, [])
    back = td.save(tmp_path / "x.td")["x"]
    assert back.dtype is dtype and back.shape == shape
    assert torch.equal(back.contiguous().view(-1).view(torch.uint8), tensor.reshape(-1).view(torch.uint8))


def test_tensors_of_any_layout_are_written_in_order(tmp_path):
    base = torch.arange(24.0).view(2, 3, 4)
    odd = {
        "turned": base.permute(2, 0, 1),
        "step": base[..., ::2],
        "wide": torch.ones(1).expand(5),
        "conj": torch.tensor([1 + 2j]).conj(),
        "neg": torch.tensor([1 + 2j]).conj().imag,
        "grad": torch.ones(2, requires_grad=True),
        "param": torch.nn.Parameter(torch.ones(2)),
    }
    back = TensorDict(odd, []).save(tmp_path / "x.safetensors")
    for key, tensor in odd.items():
        assert_close(back[key], tensor.detach(), rtol=0, atol=0)


def test_writes_in_place_reach_the_file_and_do_not_touch_other_entries(tmp_path):
    td = TensorDict({"x": torch.zeros(3), "y": torch.ones(3)}, [3]).save(tmp_path / "x.td")
    leaf = td["y"].clone().requires_grad_()
    product = (leaf * td["y"]).sum()
    td["x"][1] = 5
    product.backward()  # the write to x is none to y
    td[0] = TensorDict({"x": torch.tensor(7.0), "y": torch.tensor(8.0)}, [])
    assert TensorDict.load(tmp_path / "x.td")["x"].tolist() == [7, 5, 0]
    assert isinstance(td["x"], MemoryMappedTensor) and td["x"].filename == str(tmp_path / "x.td")


def test_a_mapped_entry_pickles_as_its_place_in_the_file(tmp_path):
    td = TensorDict({"a": torch.arange(5.0), "b": torch.arange(6)}, []).save(tmp_path / "x.td")
    sent = pickle.dumps(td["b"][2:])
    assert len(sent) < 1000
    back = pickle.loads(sent)
    assert back.tolist() == [2, 3, 4, 5] and back.filename == td["b"].filename


def test_any_key_comes_back(tmp_path):
    keys = ["__metadata__", "a.b", "../up", "", "é", "a/b", "tetradict", "x" * 300]
    td = TensorDict(
        {key: torch.full((2,), i) for i, key in enumerate(keys)} | {"a": {"b": torch.ones(2)}}, [2]
    )
    back = td.save(tmp_path / "x.safetensors")
    assert os.listdir(tmp_path) == ["x.safetensors"]
    assert set(back.keys()) == {*keys, "a"}
    for i, key in enumerate(keys):
        assert back[key].tolist() == [i, i]
    assert back["a", "b"].tolist() == [1, 1]


def test_values_come_back_as_what_they_were(tmp_path):
    values = [None, 1, 2.5, float("inf"), "text", b"bytes", (1, [2]), {3: {4}}, 1j, torch.float16, [], {}]
    td = TensorDict({str(i): NonTensorData(value) for i, value in enumerate(values)}, [])
    td["names"] = NonTensorData({"a": ("b", "c")})
    rows = TensorDict(
        {"s": NonTensorStack("ab", "", "é"), "m": NonTensorStack(1, "a", None)}, [3], names=["row"]
    )
    td["rows"] = rows
    back = td.save(tmp_path / "x.td")
    for i, value in enumerate(values):
        assert back[str(i)] == value and type(back[str(i)]) is type(value)
    assert back["rows"]["s"] == ["ab", "", "é"] and back["rows"]["m"] == [1, "a", None]
    assert back["rows"].names == ["row"]


def test_what_no_file_can_hold_is_named_and_nothing_is_written(tmp_path):
    td = TensorDict({"n": {"f": NonTensorData(object())}}, [])
    with pytest.raises(TypeError, match=r"'n\.f' holds a object"):
        td.save(tmp_path / "x.td")
    with pytest.raises(TypeError, match=r"'s' is torch\.sparse_coo"):
        TensorDict({"s": torch.eye(2).to_sparse()}, []).save(tmp_path / "x.td")
    assert not os.listdir(tmp_path)


def test_a_file_that_is_there_is_replaced_or_kept_as_asked(tmp_path):
    path = tmp_path / "x.td"
    old = TensorDict({"x": torch.zeros(2)}, [2]).save(path)
    path.chmod(0o600)
    with pytest.raises(FileExistsError, match="existsok"):
        TensorDict({"x": torch.ones(2)}, [2]).save(path, existsok=False)
    TensorDict({"x": old["x"] + 1}, [2]).save(path, durable=True)
    assert TensorDict.load(path)["x"].tolist() == [1, 1]
    assert old["x"].tolist() == [0, 0]  # whoever mapped the old one still has it
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "f.td").mkdir()
    with pytest.raises(FileExistsError, match="is a folder"):
        old.save(tmp_path / "f.td")
    with pytest.raises(ValueError, match=r"give .* a suffix"):
        old.save(tmp_path / "folder", checksum=True)


def test_a_collection_can_be_saved_onto_itself(tmp_path):
    td = TensorDict({"x": torch.arange(4.0)}, [4]).save(tmp_path / "x.td")
    td["x"].mul_(2)
    assert td.save(tmp_path / "x.td")["x"].tolist() == [0, 2, 4, 6]


def test_saving_can_go_on_in_the_background(tmp_path):
    future = TensorDict({"x": torch.ones(4)}, [4]).save(tmp_path / "x.td", return_early=True)
    assert future.result(timeout=30)["x"].sum() == 4


def test_many_threads_write_what_one_writes(tmp_path):
    sizes = {"large": 5_000_000, "turned": 2_000_000, **{f"s{i}": i for i in range(1500)}}
    td = TensorDict({key: torch.rand(size) for key, size in sizes.items()}, [])
    td["turned"] = td["turned"].view(1000, 2000).t()
    td.save(tmp_path / "1.td", num_threads=1)
    td.save(tmp_path / "4.td", num_threads=4, checksum=True)
    assert verify(tmp_path / "4.td") == len(sizes)
    one, four = TensorDict.load(tmp_path / "1.td"), TensorDict.load(tmp_path / "4.td")
    assert (one == td).all() and (four == td).all()


def test_the_meta_device_gives_the_structure_alone(tmp_path):
    TensorDict({"x": torch.ones(4, 2)}, [4]).save(tmp_path / "x.td")
    td = TensorDict.load(tmp_path / "x.td", device="meta")
    assert td["x"].device.type == "meta" and td.batch_size == (4,)


# --- others' files, and others' readers


def other_writer(path, tensors, metadata=None):
    """A safetensors file by another program: tensors in any order, no padding."""
    about, at, data = {}, 0, b""
    for name, (code, shape, raw) in tensors.items():
        about[name] = {"dtype": code, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        data += raw
    if metadata is not None:
        about["__metadata__"] = metadata
    text = json.dumps(about).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_a_file_of_others_is_a_flat_collection(tmp_path):
    raw = struct.pack("<2d", 1.5, 2.5)
    other_writer(
        tmp_path / "o.safetensors", {"b": ("U8", [1], b"\x07"), "m.w": ("F64", [2], raw)}, {"format": "pt"}
    )
    td = TensorDict.load(tmp_path / "o.safetensors")
    assert td.batch_size == () and td["b"].tolist() == [7] and td["m.w"].tolist() == [1.5, 2.5]


def test_the_formats_own_library_reads_ours_and_we_read_its(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = {"a": torch.rand(3, 2), "b": torch.arange(5), "c": torch.ones(2, dtype=torch.bfloat16)}
    TensorDict(tensors, []).save(tmp_path / "x.safetensors")
    assert_close(safetensors.load_file(tmp_path / "x.safetensors"), tensors)
    safetensors.save_file(tensors, tmp_path / "y.safetensors")
    assert_close(dict(TensorDict.load(tmp_path / "y.safetensors").items()), tensors, check_stride=False)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "x.td"
    td = TensorDict({"x": torch.arange(40.0).view(4, 10), "n": {"y": torch.ones(4), "s": "text"}}, [4])
    td["names"] = NonTensorStack("a", "b", "c", "d")
    td.save(path, checksum=True)
    return path


def test_a_flipped_bit_is_found_wherever_it_is(saved):
    content = saved.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    places = [*random.Random(0).sample(range(length), 150), *range(length, len(content), 3)]
    for at in places:
        mutated = bytearray(content)
        mutated[at] ^= 1 << (at % 8)
        saved.write_bytes(mutated)
        if content[at : at + 1] == b" " and at < length:  # the padding may hold any blank
            continue
        with pytest.raises(ValueError, match=str(saved)):
            verify(saved)
    saved.write_bytes(content)
    assert verify(saved) == 4


def test_a_file_that_was_cut_off_is_refused(saved):
    content = saved.read_bytes()
    for length in (0, 1, 8, 20, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:length])
        with pytest.raises(ValueError, match=str(saved)):
            TensorDict.load(saved)


def hostile(tree):
    return {"x": ("U8", [2], b"ab")}, {"tetradict": tree if isinstance(tree, str) else json.dumps(tree)}


@pytest.mark.parametrize(
    "tree",
    [
        "[" * 100_000,
        "{" * 10,
        [],
        {"size": [2]},
        {"size": [-1], "entries": {}},
        {"size": [True], "entries": {}},
        {"size": [3], "entries": {"x": 0}},
        {"size": [], "names": ["a"], "entries": {}},
        {"size": [], "entries": {"gone": 0}},
        {"size": [], "entries": {"x": 1}},
        {"size": [], "entries": {"x": {"tensor": "x", "dtype": "load"}}},
        {"size": [], "entries": {"x": {"tensor": "x", "dtype": "float64"}}},
        {"size": [], "entries": {"x": {"node": {"size": [], "entries": {"y": {"node": 3}}}}}},
        {"size": [2], "entries": {"x": {"node": {"size": [3], "entries": {}}}}},
        {"size": [], "entries": {"x": {"value": {"$pickle": "gASVAAAA"}}}},
        {"size": [], "entries": {"x": {"rows": [1, 2], "size": [3]}}},
        {"size": [], "entries": {"x": {"rows": [], "size": [0, 4611686018427387904]}}},
        {"size": [], "entries": {"x": {"strings": ["x", "x"], "size": [1]}}},
    ],
    ids=lambda tree: str(tree)[:60],
)
def test_a_tree_that_does_not_fit_its_file_is_refused(tmp_path, tree):
    other_writer(tmp_path / "h.td", *hostile(tree))
    with pytest.raises(ValueError, match=r"h\.td|\$pickle|offsets"):
        TensorDict.load(tmp_path / "h.td")


SAVER = """
import sys, torch
from tetradict import TensorDict
path = sys.argv[1]
data = {str(i): torch.full((200_000,), 0.0) for i in range(16)}
print("ready", flush=True)
for round in range(1, 10_000):
    TensorDict({key: tensor.fill_(round) for key, tensor in data.items()}, []).save(path, num_threads=2)
    print(round, flush=True)
"""


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path):
    moments = random.Random(1)
    path = tmp_path / "x.td"
    for _ in range(50):
        writer = subprocess.Popen([sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE, text=True)
        while writer.stdout.readline().strip() != "1":
            pass
        time.sleep(moments.random() * 0.05)
        writer.send_signal(signal.SIGKILL)
        writer.wait(timeout=30)
        told = [line for line in writer.stdout.read().split() if line.isdigit()]
        td = TensorDict.load(path)
        rounds = {float(value) for tensor in td.values() for value in (tensor.min(), tensor.max())}
        assert len(rounds) == 1
        assert rounds.pop() - int(told[-1] if told else 1) in {0, 1}


def _load_mutated(path, seed, count, results):
    """Load ``count`` mutations of a file; what is no data and no clear error ends the process."""
    draw = random.Random(seed)
    content = path.read_bytes()
    mutated = path.with_name(f"m{seed}.td")
    outcomes = {"data": 0, "error": 0}
    for _ in range(count):
        raw = bytearray(content)
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(raw)) if draw.random() < 0.3 else draw.randrange(min(600, len(raw)))
            kind = draw.randrange(4)
            if kind == 0:
                raw[at] = draw.randrange(256)
            elif kind == 1:
                raw[at:at] = bytes(draw.choices(b'0123456789[]{}",:-', k=draw.randint(1, 8)))
            elif kind == 2:
                del raw[at : at + draw.randint(1, 16)]
            else:
                raw[:8] = len(raw).to_bytes(8, "little") if draw.random() < 0.1 else raw[:8]
            raw = raw or bytearray(b"x")
        mutated.write_bytes(raw)
        try:
            td = TensorDict.load(mutated)
            [leaf.numel() and leaf.flatten()[-1] for leaf in td.values(True, True)]
            outcomes["data"] += 1
        except (ValueError, FileNotFoundError):
            outcomes["error"] += 1
    results.put(outcomes)


@pytest.mark.slow
def test_ten_thousand_mutated_files_give_data_or_a_clear_error(saved):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    worker = context.Process(target=_load_mutated, args=(saved, 0, 10_000, results))
    worker.start()
    outcomes = results.get(timeout=300)
    worker.join(timeout=30)
    assert worker.exitcode == 0
    assert sum(outcomes.values()) == 10_000 and outcomes["data"] > 100 < outcomes["error"]
    assert {path.name for path in saved.parent.iterdir()} == {saved.name, "m0.td"}
