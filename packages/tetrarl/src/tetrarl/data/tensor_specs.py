"""Specs of tensors and of collections."""

from tetrarl.data._specs import TensorSpec
from tetrarl.data._specs_box import (
    Bounded,
    BoundedContinuous,
    Unbounded,
    UnboundedContinuous,
    UnboundedDiscrete,
)
from tetrarl.data._specs_composite import Composite
from tetrarl.data._specs_discrete import Categorical, OneHot
from tetrarl.data._specs_multi import Binary, MultiCategorical, MultiOneHot

__all__ = [
    "Binary",
    "Bounded",
    "BoundedContinuous",
    "Categorical",
    "Composite",
    "MultiCategorical",
    "MultiOneHot",
    "OneHot",
    "TensorSpec",
    "Unbounded",
    "UnboundedContinuous",
    "UnboundedDiscrete",
]
