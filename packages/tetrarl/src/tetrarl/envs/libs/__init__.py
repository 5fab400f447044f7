"""Wrappers of other libraries' environments."""

from tetrarl.envs._gym import GymEnv, GymWrapper

__all__ = ["GymEnv", "GymWrapper"]
