"""Facts of the folder layout: what files are called, and what stands in their JSON.

A node is a folder. Its ``meta.json`` is one object: for each tensor its device, shape, dtype and ``is_nested``, for each
child a ``type``, and ``shape``, ``device`` and ``_type`` of the node itself. The bytes of the tensor ``key`` are in
``key.memmap``, C order, little endian; one without elements has no file. A child is a folder named after its key.
This is the layout that tensordict 0.14 writes and reads. What it has no place for (names of dimensions, entries that
are called ``shape``, ``device`` or ``_type``) stands in ``meta.tetra.json`` beside it.
"""

import json
from typing import Any

import torch

META = "meta.json"
SIDE = "meta.tetra.json"
PICKLE = "other.pickle"
COLLECTION = "<class 'tensordict._td.TensorDict'>"
DATA = "<class 'tensordict.tensorclass.NonTensorData'>"
STACK = "<class 'tensordict.tensorclass.NonTensorStack'>"
RESERVED = frozenset({"shape", "device", "_type"})

_UNSAFE = frozenset('\\/:*?"<>|%\x7f') | {chr(code) for code in range(33)}


def encoded(key: str) -> str:
    """A key as a file name that no system minds and that leads nowhere else."""
    if not key:
        return "%"
    if key in {".", ".."}:
        return key.replace(".", "%2E")
    return "".join(f"%{ord(char):02X}" if char in _UNSAFE else char for char in key)


def tensor_file(key: str) -> str:
    """The file of the tensor ``key``."""
    return encoded(key) + ".memmap"


def child_folder(key: str) -> str:
    """The folder of the child ``key``, which is called like no file of the layout."""
    name = encoded(key)
    if name.endswith((".memmap", ".json", ".pickle")):
        stem, _, end = name.rpartition(".")
        return f"{stem}%2E{end}"
    return name


def dtype_of(text: Any) -> torch.dtype | None:
    """The dtype that ``torch.<name>`` names."""
    if isinstance(text, str) and text.startswith("torch."):
        dtype = getattr(torch, text.removeprefix("torch."), None)
        if isinstance(dtype, torch.dtype):
            return dtype
    return None


def size_of(value: Any) -> torch.Size | None:
    """A list of sizes that are 0 or more."""
    if isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 62 for n in value):
        return torch.Size(value)
    return None


def as_json(value: Any, where: str) -> str:
    """``value`` as JSON text.

    Raises:
        TypeError: JSON would not give it back as it is.
    """
    odd = _not_json(value)
    if odd is not None:
        raise TypeError(
            f"{where}: a value of type {type(odd).__name__} cannot be saved; non-tensor values are saved as JSON: "
            "None, bools, ints, finite floats, strings, and lists and dicts (with string keys) of those"
        )
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _not_json(value: Any) -> Any:
    """The first part of ``value`` that JSON cannot hold, or ``None``."""
    kind = type(value)
    if value is None or kind in {bool, int, str}:
        return None
    if kind is float:
        return None if value - value == 0 else value
    if kind is list:
        return next((odd for item in value if (odd := _not_json(item)) is not None), None)
    if kind is dict and all(type(key) is str for key in value):
        return _not_json(list(value.values()))
    return value
