"""Distances between values and their targets."""

from torch import Tensor
from torch.nn import functional as F

DISTANCES = ("l1", "l2", "smooth_l1")


def distance_loss(v1: Tensor, v2: Tensor, loss_function: str) -> Tensor:
    """The distance of each item of ``v1`` to its counterpart.

    Args:
        v1: any shape, floating.
        v2: of the shape of ``v1``.
        loss_function: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.

    Returns:
        Of the shape of ``v1``.

    Raises:
        ValueError: the shapes differ (nothing is broadcast here), or there is no such distance.

    Example:
        >>> distance_loss(torch.tensor([0.0, 3.0]), torch.tensor([0.5, 0.0]), "smooth_l1")
        tensor([0.1250, 2.5000])
    """
    if loss_function not in DISTANCES:
        raise ValueError(f"distance_loss: loss_function must be one of {DISTANCES}, got {loss_function!r}")
    if v1.shape != v2.shape:
        raise ValueError(
            f"distance_loss: expected two tensors of one shape, got {tuple(v1.shape)} and {tuple(v2.shape)}"
        )
    if loss_function == "l1":
        return F.l1_loss(v1, v2, reduction="none")
    if loss_function == "l2":
        return F.mse_loss(v1, v2, reduction="none")
    return F.smooth_l1_loss(v1, v2, reduction="none")
