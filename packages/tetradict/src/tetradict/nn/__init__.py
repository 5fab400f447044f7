"""Modules that read and write the entries of a collection."""

from tetradict.nn._dispatch import dispatch
from tetradict.nn._interaction import InteractionType, interaction_type, set_interaction_type
from tetradict.nn._module import TensorDictModule, TensorDictModuleBase
from tetradict.nn._normal import NormalParamExtractor, biased_softplus, inv_softplus, mappings
from tetradict.nn._probabilistic import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
from tetradict.nn._sequential import TensorDictSequential

__all__ = [
    "InteractionType",
    "NormalParamExtractor",
    "ProbabilisticTensorDictModule",
    "ProbabilisticTensorDictSequential",
    "TensorDictModule",
    "TensorDictModuleBase",
    "TensorDictSequential",
    "biased_softplus",
    "dispatch",
    "interaction_type",
    "inv_softplus",
    "mappings",
    "set_interaction_type",
]
