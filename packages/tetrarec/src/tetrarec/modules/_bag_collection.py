"""Embedding bags of many tables as one module."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tetrarec.modules._configs import EmbeddingBagConfig
from tetrarec.modules._lookup import pool_batch
from tetrarec.modules._tables import TablePlan, check_tables
from tetrarec.ops._embedding_bags import lie_together
from tetrarec.sparse import KeyedJaggedTensor, KeyedTensor


class EmbeddingBagCollection(nn.Module):
    """Pooled lookups of a batch in many tables, in one operator call.

    Every table is a parameter of its own, ``embedding_bags.<table>.weight``, with an ordinary dense gradient;
    tables of one width lie side by side in one buffer, and are looked up together.

    Args:
        tables: the tables; a feature may look up several tables, a table may serve several features.
        is_weighted: multiply each row by the batch's weight for it.
        device: of the weights.

    Raises:
        ValueError: no table, names that repeat, a table without a feature.

    Example:
        >>> tables = [EmbeddingBagConfig(num_embeddings=4, embedding_dim=2, name="films", feature_names=["film"],
        ...                              init_fn=torch.nn.init.ones_)]
        >>> bags = EmbeddingBagCollection(tables)
        >>> batch = KeyedJaggedTensor(["film"], torch.tensor([0, 3, 3]), lengths=torch.tensor([2, 1]))
        >>> bags(batch)["film"].detach()
        tensor([[2., 2.],
                [1., 1.]])
    """

    def __init__(
        self,
        tables: Sequence[EmbeddingBagConfig],
        is_weighted: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        check_tables("EmbeddingBagCollection", tables)
        self._tables = list(tables)
        self._is_weighted = is_weighted
        self._plan = TablePlan(tables)
        self.embedding_bags = nn.ModuleDict()
        weights: dict[int, Tensor] = {}
        for group in self._plan.groups:
            flat = torch.empty(group.layout.numel, dtype=group.dtype, device=device)
            weights.update(zip(group.tables, group.layout.tables(flat), strict=True))
        for place, table in enumerate(tables):
            mode = table.pooling.value.lower()
            self.embedding_bags[table.name] = nn.EmbeddingBag(
                table.num_embeddings,
                table.embedding_dim,
                mode=mode,
                include_last_offset=True,
                _weight=weights[place],
            )
        self.reset_parameters()

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Look a batch up.

        Args:
            features: ids for every feature of the tables; other keys are left alone. Where it has
                ``inverse_indices``, each distinct bag is looked up once.

        Returns:
            ``[B, sum of dims]``; one key for each feature of each table, in the order of the tables: the
            feature's name, or ``feature@table`` where several tables read the feature.

        Raises:
            KeyError: a feature that the batch lacks.
            TypeError: values that are no ids.
            ValueError: ``is_weighted`` and the batch has no weights.
            IndexError: an id outside its table (CPU; on a GPU it contributes nothing).
        """
        indices, offsets = features.values(), features.offsets()
        samples = features.weights() if self._is_weighted else None

        def pool(place: int, feature_keys: list[int], batch_sizes: list[int]) -> Tensor:
            group = self._plan.groups[place]
            tables = [self.embedding_bags[self._tables[table].name].weight for table in group.tables]
            return torch.ops.tetrarec.embedding_bags(
                tables,
                indices,
                offsets,
                samples,
                group.feature_tables,
                feature_keys,
                batch_sizes,
                group.pooling.value == "MEAN",
            )

        return pool_batch("EmbeddingBagCollection", self._plan, features, pool)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw every table anew, as its configuration says."""
        for table in self._tables:
            weight = self.embedding_bags[table.name].weight
            if table.init_fn is not None:
                table.init_fn(weight)
            else:
                weight.uniform_(table.get_weight_init_min(), table.get_weight_init_max())

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """The tables' configurations."""
        return self._tables

    def is_weighted(self) -> bool:
        """Whether rows are multiplied by the batch's weights."""
        return self._is_weighted

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.embedding_bags[self._tables[0].name].weight.device

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "EmbeddingBagCollection":
        super()._apply(fn, recurse)
        self._pack()
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._pack()

    @torch.no_grad()
    def _pack(self) -> None:
        """Lay the weights side by side again, after each was moved by itself; they stay the same objects."""
        for group in self._plan.groups:
            weights = [self.embedding_bags[self._tables[place].name].weight for place in group.tables]
            if weights[0].device.type != "meta" and not lie_together(weights, group.layout):
                flat = weights[0].new_empty(group.layout.numel)
                for weight, view in zip(weights, group.layout.tables(flat), strict=True):
                    weight.data = view.copy_(weight)
