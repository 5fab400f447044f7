import os
import stat

import pytest
import torch

from tetradict import _files

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


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bytes_are_those_of_the_elements_in_c_order(dtype):
    tensor = (
        torch.arange(6).view(2, 3).to(torch.float32).to(dtype)
        if dtype is not torch.bool
        else torch.eye(3) > 0
    )
    for view in (tensor, tensor.T, tensor[:, 1], tensor[0, 0], tensor[:0]):
        back = torch.frombuffer(bytearray(_files.raw_bytes(view)) or bytearray(16), dtype=dtype)[
            : view.numel()
        ]
        assert torch.equal(back.view(torch.uint8), view.contiguous().view(-1).view(torch.uint8))


def test_conjugate_and_negative_views_are_written_as_their_values():
    z = torch.tensor([1 + 2j, 3 - 4j])
    assert bytes(_files.raw_bytes(z.conj())) == bytes(_files.raw_bytes(torch.tensor([1 - 2j, 3 + 4j])))
    assert bytes(_files.raw_bytes(z.conj().imag)) == bytes(_files.raw_bytes(torch.tensor([-2.0, 4.0])))


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_tensors_are_written_whole_by_any_number_of_threads(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(_files, "_PIECE", 1000)
    tensors = [torch.rand(n, dtype=torch.float64) for n in (0, 1, 124, 125, 126, 1000)]
    _files.write_tensors([(tmp_path / str(i), t) for i, t in enumerate(tensors)], threads, durable=True)
    assert not (tmp_path / "0").exists()
    for i, tensor in enumerate(tensors[1:], 1):
        assert (tmp_path / str(i)).read_bytes() == tensor.numpy().tobytes()
    with pytest.raises(FileExistsError):
        _files.write_tensors([(tmp_path / "1", tensors[1])], threads, durable=False)


def test_a_short_write_goes_on_where_it_stopped(tmp_path, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:7], at))
    tensor = torch.arange(100)
    _files.write_tensors([(tmp_path / "x", tensor)], 0, durable=False)
    assert (tmp_path / "x").read_bytes() == tensor.numpy().tobytes()


def test_a_reserved_file_reads_as_zeros_and_takes_no_room(tmp_path):
    _files.reserve(tmp_path / "x", 1 << 30)
    facts = (tmp_path / "x").stat()
    assert facts.st_size == 1 << 30
    assert facts.st_blocks * 512 < 1 << 20


def folder(path, text):
    path.mkdir()
    (path / "file").write_text(text)
    return path


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_takes_the_place_of_another(tmp_path, exchange, monkeypatch):
    if not exchange:  # a system without renameat2
        monkeypatch.setattr(_files, "_exchange", lambda left, right: False)
    target = tmp_path / "target"
    assert _files.replace_folder(folder(tmp_path / "one", "one"), target) is None
    assert (target / "file").read_text() == "one"
    old = _files.replace_folder(folder(tmp_path / "two", "two"), target)
    assert (target / "file").read_text() == "two"
    assert (old / "file").read_text() == "one"
    assert sorted(os.listdir(tmp_path)) == sorted([old.name, "target"])


def test_an_exchange_that_fails_for_another_reason_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        _files._exchange(tmp_path / "no", tmp_path / "none")


def test_small_files_are_made_with_the_rights_of_the_process(tmp_path):
    _files.write_text(tmp_path / "x", "é", durable=True)
    _files.sync_folder(tmp_path)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o666 & ~mask
    assert (tmp_path / "x").read_text(encoding="utf-8") == "é"
