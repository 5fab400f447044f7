"""Environments that read and write tensor collections."""

from tetrarl.envs._base import EnvBase
from tetrarl.envs._check import check_env_specs
from tetrarl.envs._exploration import ExplorationType, exploration_type, set_exploration_type
from tetrarl.envs._gym import GymEnv, GymWrapper
from tetrarl.envs._step_mdp import step_mdp

__all__ = [
    "EnvBase",
    "ExplorationType",
    "GymEnv",
    "GymWrapper",
    "check_env_specs",
    "exploration_type",
    "set_exploration_type",
    "step_mdp",
]
