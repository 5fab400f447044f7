"""Losses, and the estimators that feed them."""

from tetrarl.objectives._distance import distance_loss
from tetrarl.objectives._loss_module import LossModule
from tetrarl.objectives._ppo import ClipPPOLoss, PPOLoss
from tetrarl.objectives._value_estimators import ValueEstimators, default_value_kwargs

__all__ = [
    "ClipPPOLoss",
    "LossModule",
    "PPOLoss",
    "ValueEstimators",
    "default_value_kwargs",
    "distance_loss",
]
