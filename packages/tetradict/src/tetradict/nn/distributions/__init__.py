"""Distributions that torch lacks, and parts of them."""

from tetradict.nn._composite import CompositeDistribution
from tetradict.nn._discrete import Delta, OneHotCategorical, rand_one_hot
from tetradict.nn._normal import (
    AddStateIndependentNormalScale,
    NormalParamExtractor,
    add_custom_mapping,
    biased_softplus,
    inv_softplus,
    mappings,
)
from tetradict.nn._truncated import TruncatedNormal

__all__ = [
    "AddStateIndependentNormalScale",
    "CompositeDistribution",
    "Delta",
    "NormalParamExtractor",
    "OneHotCategorical",
    "TruncatedNormal",
    "add_custom_mapping",
    "biased_softplus",
    "inv_softplus",
    "mappings",
    "rand_one_hot",
]
