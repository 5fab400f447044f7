"""Modules that draw from a distribution, and which value of it they take."""

from tetradict.nn._interaction import InteractionType, interaction_type, set_interaction_type
from tetradict.nn._probabilistic import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential

__all__ = [
    "InteractionType",
    "ProbabilisticTensorDictModule",
    "ProbabilisticTensorDictSequential",
    "interaction_type",
    "set_interaction_type",
]
