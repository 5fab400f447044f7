"""Collections that are updated inside the backward pass, under the path that users know."""

from tetrarec.modules._fused_bag_collection import FusedEmbeddingBagCollection

__all__ = ["FusedEmbeddingBagCollection"]
