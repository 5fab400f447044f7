import copy
import multiprocessing
import operator
import os
import pickle
import stat
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tetradict import MemoryMappedTensor, TensorDict
from tetradict._torch_compat import nested_view

DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(
        torch.complex64,
        torch.complex128,
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
    ),
    *(torch.uint16, torch.uint32, torch.uint64),
]


def same_bits(left, right):
    assert left.shape == right.shape
    assert left.dtype == right.dtype
    plain = [x.detach().clone().contiguous().view(-1).view(torch.uint8) for x in (left, right)]
    return torch.equal(*plain)


@pytest.mark.parametrize("shape", [(4, 3), (5,), (), (0,), (2, 0)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_and_shape_is_a_round_trip(dtype, shape, tmp_path):
    tensor = torch.arange(torch.Size(shape).numel()).view(shape).to(torch.float32).to(dtype)
    mapped = MemoryMappedTensor.from_tensor(tensor, filename=tmp_path / "x")
    assert isinstance(mapped, MemoryMappedTensor)
    assert mapped.filename == str(tmp_path / "x")
    assert same_bits(mapped, tensor)
    again = MemoryMappedTensor.from_filename(tmp_path / "x", dtype, shape)
    assert same_bits(again, tensor)
    assert same_bits(pickle.loads(pickle.dumps(mapped)), tensor)
    assert same_bits(MemoryMappedTensor.from_tensor(tensor), tensor)
    if tensor.numel():
        assert (tmp_path / "x").stat().st_size == tensor.numel() * dtype.itemsize


def test_any_layout_is_written_in_c_order(tmp_path):
    tensor = torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1)[1:, :, ::2]
    mapped = MemoryMappedTensor.from_tensor(tensor, filename=tmp_path / "x")
    assert mapped.is_contiguous()
    assert_close(mapped.clone(), tensor.contiguous())
    z = torch.tensor([1 + 2j])
    assert MemoryMappedTensor.from_tensor(z.conj(), filename=tmp_path / "z").clone().tolist() == [1 - 2j]


@pytest.mark.smoke
def test_what_is_written_in_place_reaches_the_file(tmp_path):
    mapped = MemoryMappedTensor.from_tensor(torch.zeros(4, 2), filename=tmp_path / "x")
    mapped[0] = 1.0
    mapped[1:][0].add_(2)
    mapped.view(-1)[5] = 3.0
    mapped.T[0, 3] = 4.0
    mapped.unbind(0)[2].mul_(10)
    want = torch.tensor([[1.0, 1], [2, 2], [0, 30], [4, 0]])
    assert_close(
        torch.frombuffer(bytearray((tmp_path / "x").read_bytes()), dtype=torch.float32).view(4, 2), want
    )
    assert_close(MemoryMappedTensor.from_filename(tmp_path / "x", torch.float32, (4, 2)).clone(), want)


VIEWS = {
    "int": lambda x: x[1],
    "slice": lambda x: x[1:3],
    "ellipsis": lambda x: x[..., 0],
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(-1),
    "permute": lambda x: x.permute(1, 0),
    "T": lambda x: x.T,
    "t": lambda x: x.t(),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "unbind": lambda x: x.unbind(0)[0],
    "torch.unbind": lambda x: torch.unbind(x)[0],
    "split": lambda x: x.split(2)[1],
    "chunk": lambda x: x.chunk(2)[1],
    "expand": lambda x: x.unsqueeze(0).expand(3, *x.shape),
    "itself": lambda x: x.contiguous(),
    "to": lambda x: x.to("cpu"),
    "flatten": lambda x: x.flatten(),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "in place": lambda x: x.add_(1),
}
PLAIN = {
    "add": lambda x: x + 1,
    "sum": lambda x: x.sum(),
    "clone": lambda x: x.clone(),
    "mask": lambda x: x[x > 1],
    "gather": lambda x: x[torch.tensor([0, 1])],
    "copying reshape": lambda x: x.T.reshape(-1),
    "stack": lambda x: torch.stack([x, x]),
    "compare": lambda x: x == x,
    "cast": lambda x: x.to(torch.float64),
    "zeros_like": torch.zeros_like,
    "matmul": lambda x: x @ x.T,
    "from the left": lambda x: 1 - x,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_shows_the_same_memory_is_mapped(name, tmp_path):
    mapped = MemoryMappedTensor.from_tensor(torch.arange(8.0).view(4, 2), filename=tmp_path / "x")
    plain = mapped.clone()
    view = VIEWS[name](mapped)
    assert type(view) is MemoryMappedTensor
    assert view.filename == str(tmp_path / "x")
    assert_close(view.clone(), VIEWS[name](plain))
    back = pickle.loads(pickle.dumps(view))
    assert type(back) is MemoryMappedTensor
    assert_close(back.clone(), view.clone())
    back.fill_(9.0)
    assert (view == 9).all()


@pytest.mark.parametrize("name", PLAIN)
def test_mathematics_gives_plain_tensors(name, tmp_path):
    mapped = MemoryMappedTensor.from_tensor(torch.arange(8.0).view(4, 2), filename=tmp_path / "x")
    out = PLAIN[name](mapped)
    assert type(out) is Tensor
    assert_close(out, PLAIN[name](mapped.clone()))


def test_tensors_are_made_by_shape(tmp_path):
    empty = MemoryMappedTensor.empty(3, 4, filename=tmp_path / "a")
    assert empty.shape == (3, 4)
    assert empty.dtype is torch.float32
    assert MemoryMappedTensor.zeros((2,), dtype=torch.int32, filename=tmp_path / "b").tolist() == [0, 0]
    assert MemoryMappedTensor.ones([2], filename=tmp_path / "c").tolist() == [1, 1]
    full = MemoryMappedTensor.full((2,), 7, filename=tmp_path / "d")
    assert full.dtype is torch.int64
    assert MemoryMappedTensor.from_filename(tmp_path / "d", torch.int64, (2,)).tolist() == [7, 7]
    like = torch.full((2, 2), 5, dtype=torch.int16)
    for name, value in (("empty_like", 0), ("zeros_like", 0), ("ones_like", 1)):
        made = getattr(MemoryMappedTensor, name)(like, filename=tmp_path / name)
        assert made.dtype is torch.int16
        assert made.tolist() == [[value] * 2] * 2
    assert MemoryMappedTensor.full_like(like, 3, filename=tmp_path / "e").tolist() == [[3, 3], [3, 3]]
    assert MemoryMappedTensor.empty((), filename=tmp_path / "f").shape == ()
    assert MemoryMappedTensor.empty(shape=(2, 1)).shape == (2, 1)
    assert MemoryMappedTensor.full((2,), fill_value=4.0).tolist() == [4, 4]
    assert MemoryMappedTensor.full(2, 1, fill_value=True).tolist() == [[True], [True]]
    for wrong in ({}, {"shape": (2,), "dtype": torch.int8}):
        with pytest.raises(TypeError, match="give the shape once"):
            MemoryMappedTensor.empty(*[(2,)] * (len(wrong) // 2), **wrong)
    with pytest.raises(TypeError, match="give the value"):
        MemoryMappedTensor.full((2,))
    with pytest.raises(RuntimeError, match="memory of the CPU, got device meta"):
        MemoryMappedTensor.zeros(2, device="meta")
    big = MemoryMappedTensor.empty(1 << 28, filename=tmp_path / "big")
    big[-1] = 1
    assert os.stat(big.filename).st_blocks * 512 < 1 << 20


def test_without_a_file_name_it_is_shared_memory():
    source = torch.arange(3.0)
    for mapped in (MemoryMappedTensor.from_tensor(source), MemoryMappedTensor.full((3,), 2.0)):
        assert mapped.filename is None
        assert mapped.is_shared()
        assert MemoryMappedTensor.from_tensor(mapped) is mapped
        copied = pickle.loads(pickle.dumps(mapped))
        assert type(copied) is MemoryMappedTensor
        assert_close(copied.clone(), mapped.clone())
    mapped[0] = 9
    assert source[0] == 0


def test_a_file_that_is_there_is_kept_unless_told(tmp_path):
    mapped = MemoryMappedTensor.from_tensor(torch.zeros(3), filename=tmp_path / "x")
    for make in (MemoryMappedTensor.from_tensor, MemoryMappedTensor.empty_like):
        with pytest.raises(FileExistsError, match="pass existsok=True to replace it"):
            make(torch.ones(2), filename=tmp_path / "x")
    assert MemoryMappedTensor.from_tensor(torch.ones(2), filename=tmp_path / "x", existsok=True).sum() == 2
    assert mapped.sum() == 0  # who maps the old file still has it
    assert os.listdir(tmp_path) == ["x"]


def test_a_mapped_tensor_is_copied_elsewhere_only_when_told(tmp_path):
    mapped = MemoryMappedTensor.from_tensor(torch.ones(3), filename=tmp_path / "x")
    assert MemoryMappedTensor.from_tensor(mapped, filename=tmp_path / "x") is mapped
    with pytest.raises(RuntimeError, match=r"is mapped from .*; pass copy_existing=True"):
        MemoryMappedTensor.from_tensor(mapped, filename=tmp_path / "y")
    assert MemoryMappedTensor.from_tensor(mapped, filename=tmp_path / "y", copy_existing=True).sum() == 3
    assert mapped.is_file(tmp_path / "x")
    assert not mapped[:2].is_file(tmp_path / "x")
    assert not mapped.is_file(tmp_path / "z")
    os.replace(tmp_path / "y", tmp_path / "x")
    assert not mapped.is_file(tmp_path / "x")  # the name is another file's now
    os.remove(tmp_path / "x")
    assert not mapped.is_file(tmp_path / "x")


def test_a_file_that_does_not_hold_the_shape_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(bytes(10))
    with pytest.raises(ValueError, match=r"shape \(3,\) and torch.float32 takes 12 bytes, the file has 10"):
        MemoryMappedTensor.from_filename(tmp_path / "x", torch.float32, (3,))
    with pytest.raises(FileNotFoundError):
        MemoryMappedTensor.from_filename(tmp_path / "no", torch.float32, (3,))
    assert (tmp_path / "x").stat().st_size == 10
    assert MemoryMappedTensor.from_filename(
        tmp_path / "x", torch.int16, (5,), index=slice(3, None)
    ).shape == (2,)


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="needs a user whom file rights bind")
def test_a_file_that_may_not_be_written_is_mapped_privately(tmp_path):
    path = Path(MemoryMappedTensor.from_tensor(torch.zeros(3), filename=tmp_path / "x").filename)
    path.chmod(stat.S_IRUSR)
    mapped = MemoryMappedTensor.from_filename(path, torch.float32, (3,))
    mapped[0] = 1
    assert mapped.tolist() == [1, 0, 0]
    assert path.read_bytes() == bytes(12)


def test_a_private_mapping_leaves_the_file_alone(tmp_path, monkeypatch):
    MemoryMappedTensor.from_tensor(torch.zeros(3), filename=tmp_path / "x")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    mapped = MemoryMappedTensor.from_filename(tmp_path / "x", torch.float32, (3,))
    mapped[0] = 1
    assert (tmp_path / "x").read_bytes() == bytes(12)


def test_it_is_called_with_what_becomes_a_tensor(tmp_path):
    mapped = MemoryMappedTensor([3, 4], dtype=torch.int16, filename=tmp_path / "x")
    assert type(mapped) is MemoryMappedTensor
    assert MemoryMappedTensor.from_filename(tmp_path / "x", torch.int16, (2,)).tolist() == [3, 4]
    assert MemoryMappedTensor(torch.ones(2)).tolist() == [1, 1]


def test_room_is_made_without_a_copy_and_in_another_shape(tmp_path):
    source = torch.arange(6.0)
    bare = MemoryMappedTensor.from_tensor(source, filename=tmp_path / "x", copy_data=False)
    assert bare.tolist() == [0] * 6
    shaped = MemoryMappedTensor.from_tensor(source, filename=tmp_path / "y", shape=(2, 3))
    assert_close(shaped.clone(), source.view(2, 3))
    assert MemoryMappedTensor.from_tensor(source, copy_data=False, shape=(3, 2)).sum() == 0
    with pytest.raises(ValueError, match=r"shape \(5,\) has 5 elements, input 6"):
        MemoryMappedTensor.from_tensor(source, shape=(5,))


SIZES = torch.tensor([[2, 3], [4, 1], [0, 2]])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("named", [True, False])
def test_a_nested_tensor_is_mapped(named, tmp_path):
    source = nested_view(torch.arange(10.0), SIZES)
    mapped = MemoryMappedTensor.from_tensor(source, filename=tmp_path / "x" if named else None)
    again = (
        MemoryMappedTensor.from_filename(tmp_path / "x", torch.float32, SIZES)
        if named
        else MemoryMappedTensor.from_handler(mapped.handler, torch.float32, SIZES)
    )
    for one in (mapped, again, pickle.loads(pickle.dumps(mapped))):
        assert type(one) is MemoryMappedTensor
        assert one.is_nested
        for part, want in zip(one.unbind(), source.unbind(), strict=True):
            assert_close(part.clone(), want)
    again[0][1, 2] = 7
    assert mapped[0][1, 2] == 7
    empty = MemoryMappedTensor.empty_nested(SIZES, dtype=torch.int32, filename=tmp_path / "e").fill_(2)
    assert empty[0].tolist() == [[2] * 3] * 2
    with pytest.raises(TypeError, match="expected a table of sizes"):
        MemoryMappedTensor.empty_nested(2, 3)


def test_a_storage_is_shown_as_a_tensor(tmp_path):
    mapped = MemoryMappedTensor.from_tensor(torch.arange(10.0), filename=tmp_path / "x")
    view = MemoryMappedTensor.from_storage(
        mapped.untyped_storage(), shape=(2, 5), dtype=torch.float32, index=1
    )
    assert view.filename == mapped.filename
    assert view.tolist() == [5, 6, 7, 8, 9]
    view.zero_()
    assert mapped.sum() == 10
    shared = MemoryMappedTensor.ones(4)
    assert MemoryMappedTensor.from_storage(shared.handler).tolist() == [1] * 4
    assert mapped.handler is None
    with pytest.raises(ValueError, match="take 44 bytes, the storage has 40"):
        MemoryMappedTensor.from_storage(mapped.untyped_storage(), shape=(11,), dtype=torch.float32)


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    MemoryMappedTensor.from_tensor(torch.zeros(3), filename=tmp_path / "x")

    def full(fd, data, at):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        MemoryMappedTensor.from_tensor(torch.ones(3), filename=tmp_path / "x", existsok=True)
    assert os.listdir(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == bytes(12)


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_another_process_writes_into_the_same_bytes(method, tmp_path):
    named = MemoryMappedTensor.from_tensor(torch.zeros(4, 2), filename=tmp_path / "x")
    shared = MemoryMappedTensor.from_tensor(torch.zeros(4))
    both = TensorDict({"named": named, "shared": shared}, [4])[1:3]
    assert both.is_memmap()
    child = multiprocessing.get_context(method).Process(target=operator.methodcaller("add_", 7), args=(both,))
    child.start()
    child.join(120)
    assert child.exitcode == 0
    assert named.tolist() == [[0, 0], [7, 7], [7, 7], [0, 0]]
    assert shared.tolist() == [0, 7, 7, 0]


def test_gradients_go_through_a_mapped_tensor(tmp_path):
    mapped = MemoryMappedTensor.from_tensor(torch.ones(3), filename=tmp_path / "x")
    weight = torch.ones(3, requires_grad=True)
    (mapped * weight).sum().backward()
    assert weight.grad.tolist() == [1, 1, 1]
