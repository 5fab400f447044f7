"""Value estimators by name."""

import enum
from typing import Any

from tetrarl.objectives.value import (
    GAE,
    TD0Estimator,
    TD1Estimator,
    TDLambdaEstimator,
    ValueEstimatorBase,
    VTrace,
)


class ValueEstimators(enum.Enum):
    """The value estimators that a loss can be told to use."""

    TD0 = "Bootstrapped TD (1-step return)"
    TD1 = "TD(1) (infinity-step return)"
    TDLambda = "TD(lambda)"
    GAE = "Generalized advantage estimate"
    VTrace = "V-trace"


_CLASSES: dict[ValueEstimators, type[ValueEstimatorBase]] = {
    ValueEstimators.TD0: TD0Estimator,
    ValueEstimators.TD1: TD1Estimator,
    ValueEstimators.TDLambda: TDLambdaEstimator,
    ValueEstimators.GAE: GAE,
    ValueEstimators.VTrace: VTrace,
}


def estimator_class(value_type: ValueEstimators | type[ValueEstimatorBase]) -> type[ValueEstimatorBase]:
    """The class behind a name; a class stands for itself."""
    return _CLASSES[value_type] if isinstance(value_type, ValueEstimators) else value_type


def default_value_kwargs(value_type: ValueEstimators) -> dict[str, Any]:
    """The hyperparameters an estimator gets when a loss is told nothing.

    Example:
        >>> default_value_kwargs(ValueEstimators.GAE)
        {'gamma': 0.99, 'lmbda': 0.95}
    """
    if value_type in {ValueEstimators.GAE, ValueEstimators.TDLambda}:
        return {"gamma": 0.99, "lmbda": 0.95}
    return {"gamma": 0.99}
