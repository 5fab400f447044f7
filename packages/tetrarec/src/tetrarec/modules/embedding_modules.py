"""Collections of embeddings, under the path that users know."""

from tetrarec.modules._bag_collection import EmbeddingBagCollection
from tetrarec.modules._collection import EmbeddingCollection

__all__ = ["EmbeddingBagCollection", "EmbeddingCollection"]
