"""Specs, replay buffers, and what they are made of."""

from tetrarl.data._buffers import ReplayBuffer, TensorDictReplayBuffer
from tetrarl.data._samplers import RandomSampler, Sampler, SamplerWithoutReplacement
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
from tetrarl.data._storages import ListStorage, Storage
from tetrarl.data._tensor_storages import LazyMemmapStorage, LazyTensorStorage, TensorStorage
from tetrarl.data._writers import ImmutableDatasetWriter, RoundRobinWriter, TensorDictRoundRobinWriter, Writer

__all__ = [
    "Binary",
    "Bounded",
    "BoundedContinuous",
    "Categorical",
    "Composite",
    "ImmutableDatasetWriter",
    "LazyMemmapStorage",
    "LazyTensorStorage",
    "ListStorage",
    "MultiCategorical",
    "MultiOneHot",
    "OneHot",
    "RandomSampler",
    "ReplayBuffer",
    "RoundRobinWriter",
    "Sampler",
    "SamplerWithoutReplacement",
    "Storage",
    "TensorDictReplayBuffer",
    "TensorDictRoundRobinWriter",
    "TensorSpec",
    "TensorStorage",
    "Unbounded",
    "UnboundedContinuous",
    "UnboundedDiscrete",
    "Writer",
]
