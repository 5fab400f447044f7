"""Policies, values, networks and distributions."""

from tetradict.nn import NormalParamExtractor

from tetrarl.modules._actors import Actor, ProbabilisticActor, ValueOperator
from tetrarl.modules._mlp import MLP
from tetrarl.modules.distributions import IndependentNormal, MaskedCategorical, OneHotCategorical, TanhNormal

__all__ = [
    "MLP",
    "Actor",
    "IndependentNormal",
    "MaskedCategorical",
    "NormalParamExtractor",
    "OneHotCategorical",
    "ProbabilisticActor",
    "TanhNormal",
    "ValueOperator",
]
