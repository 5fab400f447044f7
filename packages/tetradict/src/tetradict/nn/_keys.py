"""The keys a module reads and writes."""

from collections.abc import Iterable
from typing import Any

from tetradict._entries import unravel_key
from tetradict._protocol import NestedKey

DROPPED = "_"
"""Stands in ``out_keys`` for an output that is thrown away."""


def as_keys(keys: NestedKey | Iterable[NestedKey], what: str = "keys") -> list[NestedKey]:
    """A list of keys from one key or several; a tuple of strings is one nested key.

    Raises:
        ValueError: something in ``keys`` is no key; ``what`` names them in the message.
    """
    if isinstance(keys, str) or (isinstance(keys, tuple) and all(isinstance(k, str) for k in keys)):
        keys = [keys]
    try:
        return [unravel_key(key) for key in keys]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{what} must be of type list, str or tuples of str: expected a key or a list of keys, got {keys!r}"
        ) from error


def path(key: NestedKey) -> tuple[str, ...]:
    """``key`` as a tuple, whatever its depth."""
    return (key,) if isinstance(key, str) else key


def is_under(key: NestedKey, known: Iterable[NestedKey]) -> bool:
    """Whether ``key``, or a collection it lies in, is among ``known``."""
    here = path(key)
    return any(here[: len(path(other))] == path(other) for other in known)


def read(module: Any, tensordict: Any, keys: Iterable[NestedKey]) -> list[Any]:
    """The entries under ``keys``.

    Raises:
        KeyError: one of them is missing; the message names ``module`` and what there is.
    """
    try:
        return [tensordict[key] for key in keys]
    except KeyError as error:
        raise KeyError(missing_message(module, tensordict, keys)) from error


def missing_message(module: Any, tensordict: Any, keys: Iterable[NestedKey]) -> str:
    """What to say when one of ``keys`` isn't there."""
    there = list(tensordict.keys(True))
    missing = [key for key in keys if key not in there]
    return f"{describe(module)}: expected the entries {missing} in the input, got {there}; set them or change in_keys"


def describe(module: Any) -> str:
    """A module by its class and what it wraps, on one line."""
    inner = getattr(module, "module", None)
    name = type(module).__name__
    if inner is None or hasattr(inner, "__len__"):
        return name
    return f"{name}({getattr(inner, '__name__', type(inner).__name__)})"


def beside(key: NestedKey, suffix: str) -> NestedKey:
    """The key next to ``key`` with ``suffix`` behind its last level."""
    return key + suffix if isinstance(key, str) else (*key[:-1], key[-1] + suffix)
