"""What a source recorded of one episode, before any row is moved."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

Key: TypeAlias = tuple[str, ...]


class Rows(Protocol):
    """Anything that holds rows: a numpy array, an ``h5py.Dataset``, or a reader that decodes as it is sliced."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, then the shape of one."""

    @property
    def dtype(self) -> np.dtype:
        """Of the rows that slicing returns."""

    def __getitem__(self, index: slice) -> np.ndarray:
        """The rows of a slice, as an array."""


RowTree: TypeAlias = "Rows | Mapping[str, RowTree]"


@dataclass(frozen=True)
class RawEpisode:
    """One episode as its source wrote it, with the name of the source's row alignment.

    ``alignment`` says which rows of the source make one transition:

    ========== ======================= ============================================================
    alignment  observation rows        transition ``t`` is made of
    ========== ======================= ============================================================
    ``T+1``    T + 1 (or T)            ``obs[t]``, ``action[t]``, ``reward[t]``, flags ``[t]``, ``obs[t+1]``
    ``dm_env`` T + 1, as all the rest  ``obs[t]``, ``action[t+1]``, ``reward[t+1]``, flags ``[t+1]``, ``obs[t+1]``
    ``rlds``   T + 1, as all the rest  ``obs[t]``, ``action[t]``, ``reward[t]``, flags ``[t+1]``, ``obs[t+1]``
    ``flat``   T, as all the rest      ``obs[t]``, ``action[t]``, ``reward[t]``, flags ``[t]``, ``obs[t+1]``
    ========== ======================= ============================================================

    Args:
        alignment: a name of the table.
        observation: rows, or a (nested) mapping of names to rows.
        action: rows, or a mapping.
        reward: rows of shape ``[]`` or ``[k]``.
        terminated: rows of shape ``[]`` or ``[1]``, bool or 0 and 1.
        truncated: the same; ``None`` when the source has no such flag.
        info: a mapping of rows recorded beside the observation: as many as observations, or one fewer when the
            first (that of the reset) was not kept. For ``flat``, as many as the rest.
        next_observation: for ``flat``, the observation after each row where the source has it.
        number: the source's number of the episode; becomes the key ``episode``.
        where: file and group, for errors.

    Example:
        >>> import numpy as np
        >>> RawEpisode("T+1", np.zeros((4, 2)), np.zeros(3), np.ones(3), np.array([0, 0, 1])).number
        0
    """

    alignment: str
    observation: RowTree
    action: RowTree
    reward: Rows
    terminated: Rows
    truncated: Rows | None = None
    info: RowTree = field(default_factory=dict)
    next_observation: RowTree | None = None
    number: int = 0
    where: str = "episode"


def leaves(tree: RowTree, prefix: Key = ()) -> Iterator[tuple[Key, Rows]]:
    """The rows of a tree with their keys, each key prefixed."""
    if not isinstance(tree, Mapping):
        yield prefix, tree
        return
    for name, value in tree.items():
        yield from leaves(value, (*prefix, name))


def _cut(tree: Any, start: int, stop: int) -> Any:
    if isinstance(tree, Mapping):
        return {name: _cut(value, start, stop) for name, value in tree.items()}
    return None if tree is None else tree[start:stop]


def split_flat(recording: RawEpisode) -> Iterator[RawEpisode]:
    """Cut one ``flat`` recording of many episodes where a flag closes a row's episode.

    Args:
        recording: alignment ``flat``, all its episodes end to end.

    Yields:
        The episodes in order, numbered from ``recording.number`` on. Rows after the last flag make an episode of
        their own.

    Raises:
        ValueError: the alignment is another one, or flags have another number of rows than the reward.

    Example:
        >>> import numpy as np
        >>> rows = np.arange(5.0)
        >>> flat = RawEpisode("flat", rows[:, None], rows, rows, np.array([0, 1, 0, 0, 0]))
        >>> [len(episode.reward) for episode in split_flat(flat)]
        [2, 3]
    """
    if recording.alignment != "flat":
        raise ValueError(
            f"split_flat: {recording.where}: alignment must be 'flat', got {recording.alignment!r}"
        )
    rows = recording.reward.shape[0]
    closing = np.zeros(rows, bool)
    for name in ("terminated", "truncated"):
        flag = getattr(recording, name)
        if flag is None:
            continue
        if flag.shape[0] != rows:
            raise ValueError(
                f"split_flat: {recording.where}: {name} has {flag.shape[0]} rows, the reward {rows}; "
                "flat columns must be equally long"
            )
        closing |= np.asarray(flag[:]).reshape(rows) != 0
    stops = np.flatnonzero(closing) + 1
    edges = np.unique([0, *stops, rows]).tolist()
    columns = ("observation", "action", "reward", "terminated", "truncated", "info", "next_observation")
    for count, (start, stop) in enumerate(itertools.pairwise(edges)):
        parts = {name: _cut(getattr(recording, name), start, stop) for name in columns}
        where = f"{recording.where}, rows {start} to {stop}"
        yield replace(recording, **parts, number=recording.number + count, where=where)
