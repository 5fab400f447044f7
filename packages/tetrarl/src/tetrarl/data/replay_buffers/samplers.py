"""Samplers, under the path that users know."""

from tetrarl.data._samplers import RandomSampler, Sampler, SamplerWithoutReplacement

__all__ = ["RandomSampler", "Sampler", "SamplerWithoutReplacement"]
