"""The rows of one HDF5 dataset, decoded where the file keeps text or frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tetrarl.data.datasets._decoders import JPEG_START, TextRows, decode_jpeg
from tetrarl.data.datasets._raw import Rows


def import_h5py() -> Any:
    """The h5py module, or an ImportError that says how to get it."""
    try:
        import h5py  # noqa: PLC0415  (h5py: optional, wanted by HDF5 sources alone)
    except ImportError as error:
        raise ImportError(
            "MinariExperienceReplay reads HDF5 files with h5py; pip install 'tetrarl[data]'"
        ) from error
    return h5py


def dataset_rows(dataset: Any, where: str, space: Any) -> Rows:
    """The rows of an HDF5 dataset: text as padded UTF-8, encoded frames decoded, anything else as it is.

    Args:
        dataset: an ``h5py.h5d.DatasetID`` of an open file; read when sliced, text at once.
        where: file and entry, for errors.
        space: Minari's JSON of the gymnasium space of a row; ``None`` when not known.

    Raises:
        ValueError: its rows lie in another file, or are neither text nor rows of one shape.
    """
    h5py = import_h5py()
    made = dataset.get_create_plist()
    if made.get_layout() == h5py.h5d.VIRTUAL or made.get_external_count():
        raise ValueError(f"{where}: its rows lie in another file; expected data of this file")
    rows = DatasetRows(dataset, where)
    if rows.dtype.kind not in "OS":
        return _JpegRows(rows, where) if _holds_jpeg(rows, space) else rows
    if h5py.check_string_dtype(rows.dtype) is not None:
        if len(rows.shape) != 1:
            raise ValueError(f"{where}: text of shape {rows.shape}; expected one string a row")
        return TextRows(rows[:].tolist(), where)
    varying = h5py.check_vlen_dtype(rows.dtype)
    if varying != np.uint8:
        raise ValueError(f"{where}: rows of varying length ({varying}); expected rows of one shape")
    return _JpegRows(rows, where)


def _holds_jpeg(rows: Rows, space: Any) -> bool:
    """Whether each row is the bytes of an encoded frame: told from plain bytes by the space, if it is known, and by how
    a JPEG begins.
    """
    if rows.dtype != np.uint8 or len(rows.shape) != 2 or not rows.shape[0]:
        return False
    if isinstance(space, Mapping) and len(space.get("shape", ())) == 1:
        return False
    return rows[:1][0, :3].tobytes() == JPEG_START


class DatasetRows:
    """Rows of a dataset as they are; a read that fails names file and entry."""

    def __init__(self, dataset: Any, where: str) -> None:
        self._dataset, self._where = dataset, where
        self.shape, self.dtype = dataset.shape, dataset.dtype

    def __getitem__(self, index: slice) -> np.ndarray:
        h5py = import_h5py()
        try:
            if index != slice(None) or self.dtype.kind == "O":
                return h5py.Dataset(self._dataset)[index]
            rows = np.empty(self.shape, self.dtype)
            if rows.size:
                self._dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, rows)
            return rows
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{self._where}: its rows can't be read ({error})") from error


class _JpegRows:
    """Frames stored as JPEG, decoded as they are sliced."""

    dtype = np.dtype(np.uint8)

    def __init__(self, rows: Rows, where: str) -> None:
        self._rows, self._where = rows, where
        self.shape: tuple[int, ...] = rows.shape[:1]
        if rows.shape[0]:
            self.shape += self[:1].shape[1:]

    def __getitem__(self, index: slice) -> np.ndarray:
        frames = [decode_jpeg(row, self._where) for row in self._rows[index]]
        if any(frame.shape != frames[0].shape for frame in frames):
            sizes = sorted({frame.shape for frame in frames})
            raise ValueError(f"{self._where}: frames of different sizes: {sizes}; expected one")
        return np.stack(frames) if frames else np.zeros((0, *self.shape[1:]), np.uint8)
