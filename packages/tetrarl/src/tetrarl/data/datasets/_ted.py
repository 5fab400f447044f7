"""The one converter of the data hub: from what a source recorded to transitions.

An episode of T moves becomes T rows: at the root what was seen before the move and the action, under ``next`` what
came of it. ``next[t] == root[t + 1]`` inside an episode, and the root's flags are False.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from tetradict import TensorDict

from tetrarl.data.datasets._decoders import TextRows
from tetrarl.data.datasets._raw import Key, RawEpisode, Rows, leaves


@dataclass(frozen=True)
class _Alignment:
    """Source row of transition 0 for each kind of column; ``extra`` source rows beyond the T moves."""

    extra: int
    action: int = 0
    reward: int = 0
    flags: int = 0


# T+1: Minari's episodes. dm_env: a row is a TimeStep, the result of the move that led to it (Muldal et al., dm_env).
# rlds: a row is a step, its action and reward those taken at it, the last ones void (Ramos et al. 2021,
# arXiv:2111.02767, section 3). flat: D4RL's columns (Fu et al. 2020, arXiv:2004.07219).
_ALIGNMENTS = {
    "T+1": _Alignment(extra=0),
    "dm_env": _Alignment(extra=1, action=1, reward=1, flags=1),
    "rlds": _Alignment(extra=1, flags=1),
    "flat": _Alignment(extra=0),
}
# What torch can hold, by numpy name.
_DTYPES = {
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """What an episode will become: rows, and shape and dtype of one row of each leaf."""

    length: int
    leaves: dict[Key, tuple[tuple[int, ...], np.dtype]]
    text: frozenset[Key]  # entries whose one dimension is padding, and may be wider in another episode
    next_known: bool  # the source holds the observation after the last move


@dataclass(frozen=True)
class _Column:
    """Transition ``t`` takes row ``first + t`` of ``rows``; a row the source doesn't have is unknown and reads zero."""

    key: Key
    rows: Rows
    first: int


def to_ted(episode: RawEpisode) -> TensorDict:
    """Lay one recorded episode out as transitions.

    Args:
        episode: T moves in one of the alignments that :class:`RawEpisode` lists.

    Returns:
        A TensorDict of batch size ``[T]``: ``observation``, ``action``, ``done``, ``terminated``, ``truncated``,
        ``episode`` (int64) and ``next`` with ``observation``, ``reward``, ``done``, ``terminated``, ``truncated``;
        ``info`` in both when the source has it. Flags and a scalar reward end in a dimension of 1; dtypes are the
        source's. Where the source stops without a flag the last row is truncated. Where it lacks the last
        observation, ``next`` holds zeros there and the row is done.

    Raises:
        ValueError: a column's number of rows, dtype or values don't fit the alignment.

    Example:
        >>> import numpy as np
        >>> seen = np.arange(4.0)[:, None]
        >>> ted = to_ted(RawEpisode("T+1", seen, np.zeros(3), np.ones(3), np.array([0, 0, 1])))
        >>> ted["observation"].flatten(), ted["next", "observation"].flatten()
        (tensor([0., 1., 2.], dtype=torch.float64), tensor([1., 2., 3.], dtype=torch.float64))
        >>> ted["next", "done"].flatten()
        tensor([False, False,  True])
    """
    arrays = ted_arrays(episode)
    length = len(arrays["episode",])
    nested: dict = {}
    for key, array in arrays.items():
        node = nested
        for name in key[:-1]:
            node = node.setdefault(name, {})
        node[key[-1]] = torch.from_numpy(np.array(array, order="C"))
    return TensorDict(nested, batch_size=[length])


def ted_layout(episode: RawEpisode) -> Layout:
    """What :func:`ted_arrays` will give, from shapes and dtypes alone: no row is read."""
    length, columns = _columns(episode)
    reward = episode.reward
    found = {
        ("next", "reward"): (_reward_shape(reward), _native(reward.dtype, ("reward",), episode)),
        ("episode",): ((), np.dtype(np.int64)),
    }
    for flag in ("done", "terminated", "truncated"):
        found[flag,] = found["next", flag] = ((1,), np.dtype(bool))
    for column in columns:
        found[column.key] = (column.rows.shape[1:], _native(column.rows.dtype, column.key, episode))
    text = frozenset(column.key for column in columns if isinstance(column.rows, TextRows))
    return Layout(length, found, text, _next_known(columns, length))


def ted_arrays(episode: RawEpisode) -> dict[Key, np.ndarray]:
    """The rows of :func:`to_ted` as arrays; those that the source holds as they are may share memory."""
    length, columns = _columns(episode)
    cache: dict[int, np.ndarray] = {}
    arrays: dict[Key, np.ndarray] = {}
    for column in columns:
        whole = cache.get(id(column.rows))
        if whole is None:
            whole = cache[id(column.rows)] = _read(column.rows, column.key, episode)
        arrays[column.key] = _window(whole, column.first, length)
    first = _ALIGNMENTS[episode.alignment].reward
    reward = _read(episode.reward, ("reward",), episode)[first : first + length]
    arrays["next", "reward"] = reward.reshape(length, *_reward_shape(episode.reward))
    arrays.update(_flags(episode, length))
    arrays["episode",] = np.full(length, episode.number, np.int64)
    return arrays


def _length(episode: RawEpisode) -> int:
    alignment = _ALIGNMENTS.get(episode.alignment)
    if alignment is None:
        raise ValueError(
            f"to_ted: {episode.where}: unknown alignment {episode.alignment!r}; one of {sorted(_ALIGNMENTS)}"
        )
    rows = _rows(episode.reward, ("reward",), episode)
    if rows < alignment.extra:
        raise ValueError(
            f"to_ted: {episode.where}: reward has no row; {episode.alignment} needs the first observation's"
        )
    return rows - alignment.extra


def _columns(episode: RawEpisode) -> tuple[int, list[_Column]]:
    """T, and every column but reward, flags and number, each checked for its number of rows."""
    length = _length(episode)
    alignment = _ALIGNMENTS[episode.alignment]
    columns = []
    for key, rows in leaves(episode.action, ("action",)):
        _expect(rows, key, episode, {length + alignment.extra})
        columns.append(_Column(key, rows, alignment.action))
    columns += _observation_columns(episode, length)
    columns += _info_columns(episode, length)
    return length, columns


def _observation_columns(episode: RawEpisode, length: int) -> Iterator[_Column]:
    allowed = {"T+1": {length, length + 1}, "flat": {length}}.get(episode.alignment, {length + 1})
    for key, rows in leaves(episode.observation, ("observation",)):
        _expect(rows, key, episode, allowed)
        yield _Column(key, rows, 0)
        if episode.next_observation is None:
            yield _Column(("next", *key), rows, 1)
    if episode.next_observation is None:
        return
    if episode.alignment != "flat":
        raise ValueError(f"to_ted: {episode.where}: next_observation goes with alignment 'flat' alone")
    for key, rows in leaves(episode.next_observation, ("observation",)):
        _expect(rows, ("next", *key), episode, {length})
        yield _Column(("next", *key), rows, 0)


def _info_columns(episode: RawEpisode, length: int) -> Iterator[_Column]:
    flat = episode.alignment == "flat"
    for key, rows in leaves(episode.info, ("info",)):
        count = _expect(rows, key, episode, {length} if flat else {length, length + 1})
        # One row fewer than observations: that of the reset is missing, so row t came with the result of move t.
        first = 0 if flat or count == length + 1 else -1
        yield _Column(key, rows, first)
        yield _Column(("next", *key), rows, first + 1)


def _rows(rows: Rows, key: Key, episode: RawEpisode) -> int:
    if not rows.shape:
        raise ValueError(
            f"to_ted: {episode.where}: {'/'.join(key)} is a single value; expected one row a step{_mend(key)}"
        )
    return rows.shape[0]


def _expect(rows: Rows, key: Key, episode: RawEpisode, allowed: set[int]) -> int:
    count = _rows(rows, key, episode)
    if count not in allowed:
        wanted = " or ".join(map(str, sorted(allowed)))
        raise ValueError(
            f"to_ted: {episode.where}: {'/'.join(key)} has {count} rows, expected {wanted} "
            f"(alignment {episode.alignment}, {episode.reward.shape[0]} rewards)" + _mend(key)
        )
    return count


def _mend(key: Key) -> str:
    return "; infos=False opens the dataset without its infos" if key[0] == "info" else ""


def _native(dtype: np.dtype, key: Key, episode: RawEpisode) -> np.dtype:
    if dtype.name not in _DTYPES:
        raise ValueError(
            f"to_ted: {episode.where}: {'/'.join(key)} has dtype {dtype}, which torch can't hold{_mend(key)}"
        )
    return dtype.newbyteorder("=")


def _read(rows: Rows, key: Key, episode: RawEpisode) -> np.ndarray:
    array = np.asarray(rows[:])
    return array.astype(_native(array.dtype, key, episode), copy=False)


def _window(whole: np.ndarray, first: int, length: int) -> np.ndarray:
    """Rows ``first .. first + length`` of an array, zeros where it has none."""
    if first >= 0 and first + length <= len(whole):
        return whole[first : first + length]
    window = np.zeros((length, *whole.shape[1:]), whole.dtype)
    start, stop = max(first, 0), min(first + length, len(whole))
    window[start - first : stop - first] = whole[start:stop]
    return window


def _next_known(columns: list[_Column], length: int) -> bool:
    return all(
        column.first + length <= column.rows.shape[0]
        for column in columns
        if column.key[:2] == ("next", "observation")
    )


def _reward_shape(reward: Rows) -> tuple[int, ...]:
    return reward.shape[1:] or (1,)


def _recorded_flags(episode: RawEpisode, length: int) -> Iterator[np.ndarray]:
    """terminated and truncated as the source has them, ``[T]`` each."""
    alignment = _ALIGNMENTS[episode.alignment]
    for name in ("terminated", "truncated"):
        rows = getattr(episode, name)
        if rows is None:
            yield np.zeros(length, bool)
            continue
        count = _expect(rows, (name,), episode, {length + alignment.extra})
        raw = np.asarray(rows[:])
        if raw.size != count:
            raise ValueError(f"to_ted: {episode.where}: {name} must be one flag a row, got shape {raw.shape}")
        if raw.dtype.kind not in "biuf" or (raw.dtype != bool and not ((raw == 0) | (raw == 1)).all()):
            raise ValueError(f"to_ted: {episode.where}: {name} must hold 0 and 1 alone, dtype {raw.dtype}")
        yield raw.reshape(count)[alignment.flags :].astype(bool)


def _flags(episode: RawEpisode, length: int) -> dict[Key, np.ndarray]:
    terminated, truncated = _recorded_flags(episode, length)
    if length and not (terminated[-1] or truncated[-1]):
        truncated[-1] = True  # the recording was cut here: what follows in memory is another episode
    flags: dict[Key, np.ndarray] = {}
    for name, values in (
        ("done", terminated | truncated),
        ("terminated", terminated),
        ("truncated", truncated),
    ):
        flags[name,] = np.zeros((length, 1), bool)
        flags["next", name] = values[:, None]
    return flags
