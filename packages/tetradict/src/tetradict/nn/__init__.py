"""Modules that read and write the entries of a collection."""

from tetradict._params import TensorDictParams
from tetradict.nn._composite import CompositeDistribution
from tetradict.nn._cudagraph import CudaGraphModule
from tetradict.nn._discrete import Delta, OneHotCategorical, rand_one_hot
from tetradict.nn._dispatch import dispatch
from tetradict.nn._ensemble import EnsembleModule
from tetradict.nn._functional import get_functional, is_functional, make_functional, repopulate_module
from tetradict.nn._interaction import InteractionType, interaction_type, set_interaction_type
from tetradict.nn._module import TensorDictModule, TensorDictModuleBase
from tetradict.nn._normal import (
    AddStateIndependentNormalScale,
    NormalParamExtractor,
    add_custom_mapping,
    biased_softplus,
    inv_softplus,
    mappings,
)
from tetradict.nn._probabilistic import ProbabilisticTensorDictModule
from tetradict.nn._probabilistic_sequential import ProbabilisticTensorDictSequential
from tetradict.nn._sequential import TensorDictSequential
from tetradict.nn._settings import (
    composite_lp_aggregate,
    set_composite_lp_aggregate,
    set_skip_existing,
    skip_existing,
)
from tetradict.nn._tensorclass_module import TensorClassModuleBase, TensorClassModuleWrapper
from tetradict.nn._truncated import TruncatedNormal
from tetradict.nn._wrap import TensorDictModuleWrapper, WrapModule, as_tensordict_module

__all__ = [
    "AddStateIndependentNormalScale",
    "CompositeDistribution",
    "CudaGraphModule",
    "Delta",
    "EnsembleModule",
    "InteractionType",
    "NormalParamExtractor",
    "OneHotCategorical",
    "ProbabilisticTensorDictModule",
    "ProbabilisticTensorDictSequential",
    "TensorClassModuleBase",
    "TensorClassModuleWrapper",
    "TensorDictModule",
    "TensorDictModuleBase",
    "TensorDictModuleWrapper",
    "TensorDictParams",
    "TensorDictSequential",
    "TruncatedNormal",
    "WrapModule",
    "add_custom_mapping",
    "as_tensordict_module",
    "biased_softplus",
    "composite_lp_aggregate",
    "dispatch",
    "get_functional",
    "interaction_type",
    "inv_softplus",
    "is_functional",
    "make_functional",
    "mappings",
    "rand_one_hot",
    "repopulate_module",
    "set_composite_lp_aggregate",
    "set_interaction_type",
    "set_skip_existing",
    "skip_existing",
]
