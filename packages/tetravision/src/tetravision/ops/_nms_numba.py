"""The loop of non-maximum suppression, compiled by numba; the only file that imports it."""

import numba
import numpy as np
import torch
from torch import Tensor

_ZERO = np.float32(0)  # widens to float64 where that is asked, and keeps float32 where it is not


def _loop(
    boxes: np.ndarray,  # [4, N], rows left, top, right, bottom
    ends: np.ndarray,  # [N], where the class of each box ends
    threshold: np.ndarray,  # [1], of the boxes' dtype
    alive: np.ndarray,  # [N] bool, the answer
) -> None:
    """Compare each box with those kept so far of its class, in runs of 64 that the compiler can vectorise."""
    n = boxes.shape[1]
    kept = np.empty((5, n), boxes.dtype)  # corners and areas
    limit = threshold[0]
    start = 0
    while start < n:
        m = 0
        for i in range(start, ends[start]):
            left, top, right, bottom = boxes[0, i], boxes[1, i], boxes[2, i], boxes[3, i]
            area = (right - left) * (bottom - top)
            dead = False
            j = 0
            while j < m and not dead:
                stop = min(j + 64, m)
                hits = 0
                for k in range(j, stop):
                    w = max(min(right, kept[2, k]) - max(left, kept[0, k]), _ZERO)
                    h = max(min(bottom, kept[3, k]) - max(top, kept[1, k]), _ZERO)
                    overlap = w * h
                    hits += overlap / (area + kept[4, k] - overlap) > limit
                dead = hits > 0
                j = stop
            alive[i] = not dead
            if not dead:
                kept[0, m], kept[1, m], kept[2, m], kept[3, m], kept[4, m] = left, top, right, bottom, area
                m += 1
        start = ends[start]


try:
    _compiled = numba.njit(_loop, cache=True, error_model="numpy", nogil=True)
except RuntimeError:  # nowhere to write the cache: compile once a process
    _compiled = numba.njit(_loop, error_model="numpy", nogil=True)


def survivors_numba(boxes: Tensor, ends: Tensor, threshold: float) -> Tensor:
    """Which boxes survive; arguments and answer as those of ``survivors_torch``."""
    alive = torch.empty(boxes.shape[0], dtype=torch.bool)
    columns = boxes.t().contiguous().numpy()
    _compiled(columns, ends.contiguous().numpy(), np.array([threshold], columns.dtype), alive.numpy())
    return alive
