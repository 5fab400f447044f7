"""Value estimators, as modules; as functions they are in ``tetrarl.objectives.value.functional``."""

from tetrarl.objectives.value._base import ValueEstimatorBase
from tetrarl.objectives.value._estimators import (
    GAE,
    TD0Estimator,
    TD1Estimator,
    TDLambdaEstimator,
    VTrace,
)

__all__ = ["GAE", "TD0Estimator", "TD1Estimator", "TDLambdaEstimator", "VTrace", "ValueEstimatorBase"]
