"""The base class of environments."""

from tetrarl.envs._base import EnvBase

__all__ = ["EnvBase"]
