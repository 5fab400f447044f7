"""Values that are no tensors, as JSON that gives back exactly what it took, and columns of strings as bytes.

JSON's own values stand as they are. Others that Python is full of stand in an object with one key that begins with
``$``: ``{"$tuple": [1, 2]}``, ``$set``, ``$frozenset``, ``$bytes`` (base64), ``$complex``, ``$float`` (``nan``, ``inf``),
``$dict`` (pairs, for keys that are no plain strings), ``$size``, ``$dtype`` and ``$device``.
"""

import base64
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch

from tetradict.io._header import json_of


class Unsaved(Exception):
    """Holds the part of a value that has no JSON form."""


def coded(value: Any) -> Any:
    """``value`` in JSON's own types; raises :class:`Unsaved` with the part that has no such form."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return value if value - value == 0 else {"$float": repr(value)}
    if kind is list:
        return [coded(item) for item in value]
    if kind is dict:
        for key in value:
            if type(key) is not str or key[:1] == "$":
                return {"$dict": [[coded(key), coded(item)] for key, item in value.items()]}
        return {key: coded(item) for key, item in value.items()}
    form = _FORMS.get(kind)
    if form is None:
        raise Unsaved(value)
    return {form[0]: form[1](value)}


def _items(value: Any) -> list[Any]:
    return [coded(item) for item in value]


def _sorted_items(value: Any) -> list[Any]:
    return sorted(
        _items(value), key=lambda item: json.dumps(item, sort_keys=True)
    )  # one order for equal sets


_FORMS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    tuple: ("$tuple", _items),
    set: ("$set", _sorted_items),
    frozenset: ("$frozenset", _sorted_items),
    bytes: ("$bytes", lambda value: base64.b64encode(value).decode()),
    complex: ("$complex", lambda value: [coded(value.real), coded(value.imag)]),
    torch.Size: ("$size", list),
    torch.dtype: ("$dtype", lambda value: str(value).removeprefix("torch.")),
    torch.device: ("$device", str),
}


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name) if type(name) is str else None
    if not isinstance(found, torch.dtype):
        raise ValueError(f"no dtype {name!r}")
    return found


_READERS: dict[str, Callable[[Any], Any]] = {
    "$tuple": lambda body: tuple(decoded(_list(body))),
    "$set": lambda body: set(decoded(_list(body))),
    "$frozenset": lambda body: frozenset(decoded(_list(body))),
    "$bytes": lambda body: base64.b64decode(body, validate=True),
    "$complex": lambda body: complex(*decoded(_list(body))),
    "$float": lambda body: {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[body],
    "$dict": lambda body: {decoded(key): decoded(item) for key, item in _list(body)},
    "$size": lambda body: torch.Size(_list(body)),
    "$dtype": _dtype,
    "$device": lambda body: torch.device(body),
}


def _list(body: Any) -> list[Any]:
    if type(body) is not list:
        raise TypeError("expected a list")
    return body


def decoded(value: Any) -> Any:
    """What :func:`coded` took.

    Raises:
        ValueError: an object is none that :func:`coded` makes.
    """
    if type(value) is list:
        return [decoded(item) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1 and (key := next(iter(value)))[:1] == "$":
        try:
            return _READERS[key](value[key])
        except (ArithmeticError, AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(f"{str(value)[:80]} stands for no value") from error
    return {key: decoded(item) for key, item in value.items()}


def dumped(value: Any) -> str:
    """JSON text of something :func:`coded` gave, in which any string can stand."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can hold
        return json.dumps(value, separators=(",", ":"))
    return text


def loaded(text: bytes | str, where: str) -> Any:
    """The value in a text of :func:`dumped`."""
    return decoded(json_of(text, where))


# --- columns of strings


def joined(strings: Sequence[str]) -> tuple[bytes, list[int]]:
    """Strings as their bytes end to end, and where each begins, then where the last ends."""
    offsets = [0]
    text = "".join(strings)
    if text.isascii():
        for string in strings:
            offsets.append(offsets[-1] + len(string))
        return text.encode(), offsets
    parts = [string.encode("utf-8", "surrogatepass") for string in strings]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return b"".join(parts), offsets


def parted(data: bytes, offsets: list[int]) -> list[str]:
    """The strings that :func:`joined` took; ``ValueError`` when the offsets are none of ``data``."""
    pairs = list(pairwise(offsets))
    if offsets[:1] != [0] or offsets[-1] != len(data) or any(end < begin for begin, end in pairs):
        raise ValueError(f"offsets must rise from 0 to the {len(data)} bytes of the column")
    if data.isascii():
        text = data.decode("ascii")
        return [text[begin:end] for begin, end in pairs]
    return [data[begin:end].decode("utf-8", "surrogatepass") for begin, end in pairs]
