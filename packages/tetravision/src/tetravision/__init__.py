"""Image transforms that keep boxes and masks in step, and detection operators that compile."""

from tetravision import ops, transforms, tv_tensors
from tetravision._version import __version__

__all__ = ["__version__", "ops", "transforms", "tv_tensors"]
