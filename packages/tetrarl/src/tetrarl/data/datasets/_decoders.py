"""Rows that a file keeps encoded: text, and frames as JPEG."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from torch import Tensor

JPEG_START = b"\xff\xd8\xff"


class TextRows:
    """Strings as rows of UTF-8 bytes, padded with zeros to the longest.

    Args:
        texts: one string a row, decoded or as bytes.
        where: file and entry, for errors.
    """

    def __init__(self, texts: Sequence[str | bytes], where: str) -> None:
        encoded = [text.encode() if isinstance(text, str) else bytes(text) for text in texts]
        if any(b"\0" in text for text in encoded):
            raise ValueError(f"{where}: text with a zero byte in it can't be kept as padded UTF-8")
        self._rows = np.zeros((len(encoded), max([1, *map(len, encoded)])), np.uint8)
        for row, text in zip(self._rows, encoded, strict=True):
            row[: len(text)] = np.frombuffer(text, np.uint8)
        self.shape, self.dtype = self._rows.shape, self._rows.dtype

    def __getitem__(self, index: slice) -> np.ndarray:
        return self._rows[index]


def decode_text(values: Tensor) -> list[str]:
    """The strings of a text entry, which datasets keep as rows of UTF-8 bytes.

    Args:
        values: ``[N, L]`` uint8, each row ended by zeros or by L.

    Returns:
        N strings.

    Raises:
        ValueError: ``values`` is not a 2-D uint8 tensor.

    Example:
        >>> import torch
        >>> decode_text(torch.tensor([[103, 111, 0], [0, 0, 0]], dtype=torch.uint8))
        ['go', '']
    """
    array = values.cpu().numpy()
    if array.ndim != 2 or array.dtype != np.uint8:
        raise ValueError(f"decode_text: expected [N, L] uint8, got {array.dtype} of shape {array.shape}")
    return [bytes(row).rstrip(b"\0").decode() for row in array]


def decode_jpeg(row: np.ndarray, where: str) -> np.ndarray:
    """One frame, ``[H, W]`` or ``[H, W, C]`` uint8, from the bytes of its JPEG file."""
    try:
        from PIL import Image  # noqa: PLC0415  (Pillow: optional, wanted by encoded frames alone)
    except ImportError as error:
        raise ImportError(f"{where}: its frames are stored as JPEG; pip install pillow") from error
    try:
        return np.asarray(Image.open(io.BytesIO(row.tobytes())), dtype=np.uint8)
    except OSError as error:
        raise ValueError(f"{where}: a frame is no readable JPEG ({error})") from error
