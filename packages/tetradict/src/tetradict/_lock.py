"""Locks: while a tree is locked, no entry of it comes, goes or is replaced.

Locking a node makes one token, which the node and everything below it keep in ``_lock``. A node may be
unlocked by itself when no other living node's token is on it; a token whose root is gone holds nothing.
"""

import weakref
from typing import NoReturn, TypeVar

from tetradict._protocol import Container

C = TypeVar("C", bound=Container)


class Token:
    """Marks everything that one locked root holds locked."""

    __slots__ = ("root",)

    def __init__(self, root: Container) -> None:
        self.root = weakref.ref(root)


def is_locked(td: Container) -> bool:
    """Whether entries may not be added, removed or replaced."""
    return td._lock is not None


def is_root(td: Container) -> bool:
    """Whether the collection was locked itself, rather than with a parent."""
    return td._lock is not None and any(token.root() is td for token in td._lock)


def lock_(td: C) -> C:
    """Forbid to add, remove or replace entries here and below; values may still be written in place.

    As a context manager it unlocks again at the end of the block, if it was unlocked before.
    """
    td._undo = "unlock_" if td._lock is None else None
    if not is_root(td):
        _add(td, Token(td))
    return td


def unlock_(td: C) -> C:
    """Allow to add, remove and replace entries again.

    As a context manager it locks again at the end of the block, if it was locked before.

    Raises:
        RuntimeError: a parent is locked; the message says which.
    """
    if td._lock is None:
        td._undo = None
        return td
    for token in td._lock:
        root = token.root()
        if root is not None and root is not td:
            raise RuntimeError(
                f"unlock_: this collection is part of a locked one with batch size {tuple(root.batch_size)} and "
                f"the entries {', '.join(map(repr, root._keys()))}; unlock that one first"
            )
    _drop(td, set(td._lock))
    td._undo = "lock_"
    return td


def refuse(td: Container, verb: str, key: object) -> NoReturn:
    """Raise the error of a change to a locked container."""
    roots = [token.root() for token in td._lock or ()]
    parent = next((root for root in roots if root is not None and root is not td), None)
    if parent is None:
        mend = "call unlock_() first"
    else:
        mend = f"its parent with the entries {', '.join(map(repr, parent._keys()))} is locked: unlock_() that first"
    raise RuntimeError(
        f"{verb}: cannot change entry {key!r} of a locked {type(td).__name__}; {mend}, "
        "or write into a present tensor with set_() or update_()"
    )


def _add(td: Container, token: Token) -> None:
    td._lock = (*(td._lock or ()), token)
    for value in td._entries().values():
        if isinstance(value, Container):
            _add(value, token)


def _drop(td: Container, tokens: set[Token]) -> None:
    td._lock = tuple(token for token in td._lock or () if token not in tokens) or None
    for value in td._entries().values():
        if isinstance(value, Container):
            _drop(value, tokens)
