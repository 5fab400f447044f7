"""How policies choose their action while an environment is stepped."""

from tetradict.nn import InteractionType as ExplorationType
from tetradict.nn import interaction_type as exploration_type
from tetradict.nn import set_interaction_type as set_exploration_type

__all__ = ["ExplorationType", "exploration_type", "set_exploration_type"]
