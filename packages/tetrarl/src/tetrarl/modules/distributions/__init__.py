"""Distributions over actions."""

from tetrarl.modules.distributions._discrete import MaskedCategorical, OneHotCategorical
from tetrarl.modules.distributions._normal import IndependentNormal
from tetrarl.modules.distributions._tanh_normal import TanhNormal

__all__ = ["IndependentNormal", "MaskedCategorical", "OneHotCategorical", "TanhNormal"]
