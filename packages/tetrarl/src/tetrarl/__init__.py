"""Environments, replay buffers, an offline-data hub and objectives for reinforcement learning."""

from tetrarl._version import __version__

__all__ = ["__version__"]
