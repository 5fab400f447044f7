"""Lengths of bags and the offsets at which they begin."""

import torch
from torch import Tensor


def lengths_to_offsets(lengths: Tensor) -> Tensor:
    """Where each bag begins, and after the last one where it ends.

    Args:
        lengths: number of values of each bag, ``[B]``, integer, not negative.

    Returns:
        ``[B + 1]``, in the dtype and on the device of ``lengths``: 0, then the running sum.

    Raises:
        ValueError: ``lengths`` is not 1-D.

    Example:
        >>> lengths_to_offsets(torch.tensor([2, 0, 3]))
        tensor([0, 2, 2, 5])
    """
    if lengths.ndim != 1:
        raise ValueError(f"lengths_to_offsets: lengths must be [B], got shape {tuple(lengths.shape)}")
    sums = torch.cumsum(lengths, 0, dtype=lengths.dtype)
    return torch.cat([lengths.new_zeros(1), sums])
