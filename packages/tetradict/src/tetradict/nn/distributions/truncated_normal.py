"""The normal distribution between two bounds, by the path that users of other libraries know."""

from tetradict.nn._truncated import TruncatedNormal

__all__ = ["TruncatedNormal"]
