"""Replay buffers and their parts, under the path that users know."""

from tetrarl.data._buffers import ReplayBuffer, TensorDictReplayBuffer
from tetrarl.data._samplers import RandomSampler, Sampler, SamplerWithoutReplacement
from tetrarl.data._storages import ListStorage, Storage
from tetrarl.data._tensor_storages import LazyMemmapStorage, LazyTensorStorage, TensorStorage
from tetrarl.data._writers import (
    ImmutableDatasetWriter,
    RoundRobinWriter,
    TensorDictRoundRobinWriter,
    Writer,
)

__all__ = [
    "ImmutableDatasetWriter",
    "LazyMemmapStorage",
    "LazyTensorStorage",
    "ListStorage",
    "RandomSampler",
    "ReplayBuffer",
    "RoundRobinWriter",
    "Sampler",
    "SamplerWithoutReplacement",
    "Storage",
    "TensorDictReplayBuffer",
    "TensorDictRoundRobinWriter",
    "TensorStorage",
    "Writer",
]
