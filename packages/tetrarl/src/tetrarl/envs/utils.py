"""Helpers for stepping environments, and a check of one's own."""

from tetrarl.envs._check import check_env_specs
from tetrarl.envs._exploration import ExplorationType, exploration_type, set_exploration_type
from tetrarl.envs._step_mdp import step_mdp

__all__ = [
    "ExplorationType",
    "check_env_specs",
    "exploration_type",
    "set_exploration_type",
    "step_mdp",
]
