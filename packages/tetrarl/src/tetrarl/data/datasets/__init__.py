"""Recorded datasets as read-only replay buffers, and the converter that makes them."""

from tetrarl.data.datasets._base import BaseDatasetExperienceReplay
from tetrarl.data.datasets._decoders import decode_text
from tetrarl.data.datasets._minari import MinariExperienceReplay
from tetrarl.data.datasets._raw import RawEpisode, split_flat
from tetrarl.data.datasets._ted import to_ted
from tetrarl.data.datasets._verify import Verification

__all__ = [
    "BaseDatasetExperienceReplay",
    "MinariExperienceReplay",
    "RawEpisode",
    "Verification",
    "decode_text",
    "split_flat",
    "to_ted",
]
