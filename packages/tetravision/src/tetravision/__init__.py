"""Image transforms that keep boxes and masks in step, and detection operators that compile."""

from tetravision._version import __version__

__all__ = ["__version__"]
