"""Parts of distributions."""

from tetradict.nn._normal import NormalParamExtractor, biased_softplus, inv_softplus, mappings

__all__ = ["NormalParamExtractor", "biased_softplus", "inv_softplus", "mappings"]
