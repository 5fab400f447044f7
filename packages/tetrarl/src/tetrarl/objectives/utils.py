"""Helpers of losses, by the path that users of other libraries know."""

from tetrarl.objectives._distance import distance_loss
from tetrarl.objectives._value_estimators import ValueEstimators, default_value_kwargs

__all__ = ["ValueEstimators", "default_value_kwargs", "distance_loss"]
