"""Modules that draw from a distribution, and which value of it they take."""

from tetradict.nn._interaction import InteractionType, interaction_type, set_interaction_type
from tetradict.nn._probabilistic import ProbabilisticTensorDictModule
from tetradict.nn._probabilistic_sequential import ProbabilisticTensorDictSequential
from tetradict.nn._settings import composite_lp_aggregate, set_composite_lp_aggregate

__all__ = [
    "InteractionType",
    "ProbabilisticTensorDictModule",
    "ProbabilisticTensorDictSequential",
    "composite_lp_aggregate",
    "interaction_type",
    "set_composite_lp_aggregate",
    "set_interaction_type",
]
