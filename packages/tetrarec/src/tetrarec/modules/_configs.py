"""What a table looks like."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, unique
from math import sqrt

import torch
from torch import Tensor


@unique
class DataType(Enum):
    """The numbers that a table is made of."""

    FP32 = "FP32"
    FP16 = "FP16"
    BF16 = "BF16"


@unique
class PoolingType(Enum):
    """How the rows of a bag become one."""

    SUM = "SUM"
    MEAN = "MEAN"


def data_type_to_dtype(data_type: DataType) -> torch.dtype:
    """The torch dtype of a table's numbers.

    Example:
        >>> data_type_to_dtype(DataType.BF16)
        torch.bfloat16
    """
    return {DataType.FP32: torch.float32, DataType.FP16: torch.float16, DataType.BF16: torch.bfloat16}[
        data_type
    ]


@dataclass
class BaseEmbeddingConfig:
    """One table of embeddings, and the features that look it up.

    Args:
        num_embeddings: rows; ids are 0 to ``num_embeddings - 1``.
        embedding_dim: width of a row.
        name: of the table; different for each table of a collection.
        data_type: the numbers that the table is made of.
        feature_names: keys of the batch whose values are ids of this table.
        weight_init_max: upper end of the uniform start, by default ``sqrt(1 / num_embeddings)``.
        weight_init_min: lower end of the uniform start, by default ``-sqrt(1 / num_embeddings)``.
        init_fn: fills the weight in place instead of the uniform start.

    Raises:
        ValueError: a size that is no size, or ends in the wrong order.
    """

    num_embeddings: int
    embedding_dim: int
    name: str = ""
    data_type: DataType = DataType.FP32
    feature_names: list[str] = field(default_factory=list)
    weight_init_max: float | None = None
    weight_init_min: float | None = None
    init_fn: Callable[[Tensor], Tensor | None] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        where = f"{type(self).__name__} {self.name!r}"
        for size in ("num_embeddings", "embedding_dim"):
            if getattr(self, size) < 1:
                raise ValueError(f"{where}: {size} must be positive, got {getattr(self, size)}")
        if self.get_weight_init_min() > self.get_weight_init_max():
            raise ValueError(
                f"{where}: weight_init_min must not pass weight_init_max, "
                f"got {self.get_weight_init_min()} and {self.get_weight_init_max()}"
            )

    def get_weight_init_max(self) -> float:
        """Upper end of the uniform start."""
        return sqrt(1 / self.num_embeddings) if self.weight_init_max is None else self.weight_init_max

    def get_weight_init_min(self) -> float:
        """Lower end of the uniform start."""
        return -sqrt(1 / self.num_embeddings) if self.weight_init_min is None else self.weight_init_min

    def num_features(self) -> int:
        """How many features look the table up."""
        return len(self.feature_names)


@dataclass
class EmbeddingBagConfig(BaseEmbeddingConfig):
    """A table whose bags are pooled.

    Args beyond those of :class:`BaseEmbeddingConfig`:
        pooling: SUM, or MEAN, which divides by the length of the bag.

    Example:
        >>> EmbeddingBagConfig(num_embeddings=10, embedding_dim=4, name="films", feature_names=["film"]).pooling
        <PoolingType.SUM: 'SUM'>
    """

    pooling: PoolingType = field(default=PoolingType.SUM, kw_only=True)


@dataclass
class EmbeddingConfig(BaseEmbeddingConfig):
    """A table whose rows are returned one by one."""
