"""One distribution over several entries, by the path that users of other libraries know."""

from tetradict.nn._composite import CompositeDistribution

__all__ = ["CompositeDistribution"]
