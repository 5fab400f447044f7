import json

import pytest
import torch

from tetradict.io import _header


def file_of(about, metadata=None, data_bytes=0):
    raw = _header.rendered(metadata or {}, about)
    return _header.parsed(raw[8:], data_bytes, "x")


def test_the_data_begins_on_a_boundary_whatever_the_header_holds():
    for length in range(130):
        raw = _header.rendered({"m": "é" * length}, {})
        assert len(raw) % _header.ALIGNMENT == 0
        assert int.from_bytes(raw[:8], "little") == len(raw) - 8
        assert json.loads(raw[8:]) == {"__metadata__": {"m": "é" * length}}


@pytest.mark.parametrize("name", ["a", "", "a.b", "é", "\ud800", 'q"\\'])
def test_what_was_rendered_is_parsed(name):
    about, offsets, size_bytes = _header.layout([(name, "F32", [2, 3], 24), ("none", "I64", [0], 0)])
    header = file_of(about, {"k": "v"}, size_bytes)
    assert offsets == [0, 24]
    assert header.places[name] == ("F32", [2, 3], 0, 24)
    assert header.places["none"] == ("I64", [0], 24, 24)
    assert header.metadata == {"k": "v"}


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.complex64, torch.complex128, torch.float8_e4m3fnuz, torch.bool], ids=str
)
def test_every_dtype_has_a_form_that_leads_back(dtype):
    code, shape, _ = _header.form_of(dtype, [3, 4])
    assert _header.shape_in(dtype, _header.Place(code, shape, 0, 0)) == [3, 4]
    assert _header.shape_in(torch.int16, _header.Place("F32", [3, 4], 0, 0)) is None
    assert _header.shape_in(torch.complex128, _header.Place("F64", [3, 4], 0, 0)) is None


HOSTILE = {
    "overlap": ({"a": ["F32", [2], [0, 8]], "b": ["F32", [2], [4, 12]]}, 12, "overlaps"),
    "hole": ({"a": ["F32", [2], [4, 12]]}, 12, "leaves a hole"),
    "short": ({"a": ["F32", [2], [0, 8]]}, 7, "take 8 bytes, the file has 7"),
    "long": ({"a": ["F32", [2], [0, 8]]}, 9, "take 8 bytes, the file has 9"),
    "negative": ({"a": ["F32", [2], [-8, 0]]}, 0, "must have a 'dtype'"),
    "backwards": ({"a": ["F32", [0], [8, 0]]}, 8, "must have a 'dtype'"),
    "negative size": ({"a": ["F32", [-2, -1], [0, 8]]}, 8, "must have a 'dtype'"),
    "bool size": ({"a": ["F32", [True], [0, 4]]}, 4, "must have a 'dtype'"),
    "bad dtype": ({"a": ["os.path", [2], [0, 8]]}, 8, "must have a 'dtype'"),
    "odd dtype": ({"a": [["F32"], [2], [0, 8]]}, 8, "must have a 'dtype'"),
    "wrong size": ({"a": ["F32", [3], [0, 8]]}, 8, "takes 12 bytes"),
    "huge": ({"a": ["F32", [1 << 61, 1 << 61], [0, 8]]}, 8, "takes"),
    "huge and empty": ({"a": ["F32", [1 << 61, 1 << 61, 0], [0, 0]]}, 0, "takes"),
    "many dims": ({"a": ["F32", [1] * 65, [0, 4]]}, 4, "must have a 'dtype'"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_places_that_do_not_fit_the_file_are_refused(name):
    about, data_bytes, match = HOSTILE[name]
    about = {k: {"dtype": d, "shape": s, "data_offsets": o} for k, (d, s, o) in about.items()}
    with pytest.raises(ValueError, match=match):
        file_of(about, None, data_bytes)


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (b"{", "is not JSON"),
        (b"\xff\xff", "is not JSON"),
        (b"[]", "JSON object"),
        (b'{"a":3}', "must have a 'dtype'"),
        (b'{"__metadata__":{"a":1}}', "object of strings"),
        (b'{"__metadata__":[]}', "object of strings"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too deeply"),
        (b'{"a":' + b"9" * 5000 + b"}", "is not JSON"),
    ],
    ids=["cut", "bytes", "list", "number", "metadata", "metadata list", "deep", "long number"],
)
def test_a_header_that_is_none_is_refused(raw, match):
    with pytest.raises(ValueError, match=match):
        _header.parsed(raw, 0, "x")


@pytest.mark.parametrize(
    ("first", "size_bytes", "match"),
    [
        (b"", 0, "too few"),
        (b"1234567", 7, "too few"),
        (bytes(8), 8, "no safetensors file"),
        ((100).to_bytes(8, "little"), 107, "cut off"),
        (b"\xff" * 8, 1 << 40, "no safetensors file"),
        ((_header.MAX_HEADER + 1).to_bytes(8, "little"), 1 << 40, "no safetensors file"),
    ],
    ids=["empty", "short", "zero", "cut", "huge", "above the limit"],
)
def test_the_length_is_checked_before_anything_is_read(first, size_bytes, match):
    with pytest.raises(ValueError, match=match):
        _header.length_of(first, size_bytes, "x")


def test_a_header_that_others_would_refuse_is_not_written(monkeypatch):
    monkeypatch.setattr(_header, "MAX_HEADER", 100)
    with pytest.raises(ValueError, match="save to a folder"):
        _header.rendered({"m": "x" * 200}, {})
