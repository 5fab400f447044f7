"""What the hub asks of a kind of dataset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from tetrarl.data.datasets._raw import Key, RawEpisode


class EpisodeReader(Protocol):
    """Reads transitions straight from a source's files, for comparison."""

    def __call__(self, number: int, steps: np.ndarray) -> dict[Key, np.ndarray]:
        """The transitions ``steps`` (``[K]`` int64) of one episode, as TED entries but ``episode``."""


class Source(Protocol):
    """The files of one dataset. The names are those of :class:`~tetrarl.data.datasets.RawEpisode`."""

    dataset_id: str
    options: dict[str, Any]  # JSON: what else decides the rows; part of the fingerprint

    def fingerprint(self) -> dict[str, Any]:
        """JSON that names the files and differs when they change.

        Raises:
            FileNotFoundError: they aren't there.
        """

    def episodes(self) -> Iterator[RawEpisode]:
        """Every episode in turn; its rows can be read until the next is asked for."""

    def reader(self) -> AbstractContextManager[EpisodeReader]:
        """Reads the files for comparison, without the code that :meth:`episodes` feeds."""
