"""Settings and maps, by the path that users of other libraries know."""

from tetradict.nn._normal import add_custom_mapping, biased_softplus, inv_softplus, mappings
from tetradict.nn._settings import (
    composite_lp_aggregate,
    set_composite_lp_aggregate,
    set_dispatch,
    set_skip_existing,
    skip_existing,
)

__all__ = [
    "add_custom_mapping",
    "biased_softplus",
    "composite_lp_aggregate",
    "inv_softplus",
    "mappings",
    "set_composite_lp_aggregate",
    "set_dispatch",
    "set_skip_existing",
    "skip_existing",
]
