"""The header of a safetensors file: names, dtypes, shapes and places of its tensors, and text beside them.

A file is the length of its header as 8 bytes, little endian; the header, one JSON object; and the bytes of the tensors
one after the other, without holes. ``__metadata__`` of the header is an object of strings.

Source: https://github.com/huggingface/safetensors, section "Format".
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import torch

MAX_HEADER = 100_000_000  # what other readers of the format accept
ALIGNMENT = 64
METADATA = "__metadata__"
_MAX_DIMS = 64
_MAX_BYTES = 1 << 62

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
}
CODES = {dtype: code for code, dtype in DTYPES.items()}
_PARTS = {torch.complex128: torch.float64, torch.complex32: torch.float16}  # complex types the format lacks
_SIZES = {code: dtype.itemsize for code, dtype in DTYPES.items()}


class Place(NamedTuple):
    """A tensor of the file: its dtype and shape as the format names them, and where its bytes begin and end."""

    code: str
    shape: list[int]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """What the header says, checked against the size of the file; offsets count from ``start``."""

    places: dict[str, Place]
    metadata: dict[str, str]
    start: int
    raw: bytes


def form_of(dtype: torch.dtype, shape: list[int]) -> tuple[str, list[int], bool]:
    """How the format shows a tensor: its code and shape, and whether the dtype has to be noted beside it."""
    code = CODES.get(dtype)
    if code is not None:
        return code, shape, False
    part = _PARTS.get(dtype)
    if part is not None:
        return CODES[part], [*shape, 2], True
    return "U8", shape, True


def shape_in(dtype: torch.dtype, place: Place) -> list[int] | None:
    """The shape of a tensor whose dtype was noted beside it; ``None`` when it could not be of that dtype."""
    if form_of(dtype, [])[0] != place.code:
        return None
    if dtype in _PARTS:
        return place.shape[:-1] if place.shape[-1:] == [2] else None
    return place.shape if dtype.itemsize == _SIZES[place.code] else None


def layout(blobs: Iterable[tuple[str, str, list[int], int]]) -> tuple[dict[str, Any], list[int], int]:
    """Lay tensors (name, code, shape, bytes) end to end.

    Returns:
        Their descriptions for the header, the offset of each, and the bytes they take together.
    """
    about: dict[str, Any] = {}
    offsets = []
    at = 0
    for name, code, shape, size_bytes in blobs:
        end = at + size_bytes
        about[name] = {"dtype": code, "shape": shape, "data_offsets": [at, end]}
        offsets.append(at)
        at = end
    return about, offsets, at


def rendered(metadata: dict[str, str], about: dict[str, Any]) -> bytes:
    """The header as it stands in the file, length and all, padded so that the data begins on a boundary.

    Raises:
        ValueError: it is longer than readers of the format accept.
    """
    text = _dumps({METADATA: metadata, **about})
    length = -(-(8 + len(text)) // ALIGNMENT) * ALIGNMENT - 8
    if length > MAX_HEADER:
        raise ValueError(
            f"save: the description of {len(about)} tensors takes {length} bytes, and a single file has room for "
            f"{MAX_HEADER}; save to a folder (a path without a suffix)"
        )
    return length.to_bytes(8, "little") + text.ljust(length)


def _dumps(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can hold
        return json.dumps(value, separators=(",", ":")).encode()


def length_of(first: bytes, size_bytes: int, path: str) -> int:
    """The length of the header, from the first 8 bytes of a file of ``size_bytes``."""
    if len(first) < 8:
        raise ValueError(f"{path} has {size_bytes} bytes, too few for a safetensors file")
    length = int.from_bytes(first[:8], "little")
    if length > min(MAX_HEADER, size_bytes - 8) or length < 2:
        raise ValueError(
            f"{path} is no safetensors file, or was cut off: its header would have {length} bytes, the file has "
            f"{size_bytes}"
        )
    return length


def parsed(raw: bytes, data_bytes: int, path: str) -> Header:
    """The header of a file whose tensors take ``data_bytes``.

    Raises:
        ValueError: it is no such header, or its tensors are not exactly the bytes that follow.
    """
    found = json_of(raw, f"{path}: the header")
    if not isinstance(found, dict):
        raise ValueError(f"{path}: the header must be a JSON object, got a {type(found).__name__}")
    metadata = found.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(type(text) is str for text in metadata.values()):
        raise ValueError(f"{path}: {METADATA} must be an object of strings")
    places = {name: _place(name, about, path) for name, about in found.items()}
    at = 0
    for name, place in sorted(places.items(), key=lambda item: (item[1].begin, item[1].end)):
        if place.begin != at:
            kind = "overlaps the one before" if place.begin < at else "leaves a hole before it"
            raise ValueError(f"{path}: tensor {name!r} begins at byte {place.begin}, which {kind} (end {at})")
        at = place.end
    if at != data_bytes:
        raise ValueError(f"{path}: its tensors take {at} bytes, the file has {data_bytes} after the header")
    return Header(places, metadata, 8 + len(raw), raw)


def _place(name: str, about: Any, path: str) -> Place:
    try:
        code, shape, (begin, end) = about["dtype"], about["shape"], about["data_offsets"]
        item = _SIZES[code]
    except (KeyError, TypeError, ValueError):
        _unfit(name, about, path)
    if type(shape) is not list or len(shape) > _MAX_DIMS:
        _unfit(name, about, path)
    for size in shape:
        if type(size) is not int or not 0 <= size < _MAX_BYTES:
            _unfit(name, about, path)
    if type(begin) is not int or type(end) is not int or not 0 <= begin <= end:
        _unfit(name, about, path)
    if end - begin != math.prod(shape) * item or _too_large(shape):
        raise ValueError(
            f"{path}: tensor {name!r} of shape {shape} and {code} takes {math.prod(shape) * item} bytes, its "
            f"data_offsets {[begin, end]} hold {end - begin}"
        )
    return Place(code, shape, begin, end)


def _too_large(shape: list[int]) -> bool:
    """Whether sizes multiply to more than any memory has, which they may beside a size of 0."""
    return 0 in shape and math.prod(size for size in shape if size) >= _MAX_BYTES


def _unfit(name: str, about: Any, path: str) -> NoReturn:
    raise ValueError(
        f"{path}: tensor {name!r} must have a 'dtype' of {', '.join(DTYPES)}, a 'shape' of sizes and 'data_offsets' "
        f"[begin, end], got {str(about)[:200]}"
    )


def json_of(text: bytes | str, where: str) -> Any:
    """The JSON value in ``text``; ``ValueError`` for anything else, however deep or odd."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{where} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{where} is not JSON: {str(error)[:200]}") from None
