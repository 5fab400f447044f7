"""Embeddings of many tables, row by row, as one module."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tetrarec.modules._configs import EmbeddingConfig, data_type_to_dtype
from tetrarec.modules._tables import check_tables, embedding_names_by_table
from tetrarec.ops import lengths_to_offsets
from tetrarec.sparse import JaggedTensor, KeyedJaggedTensor
from tetrarec.sparse._checks import missing_key


class EmbeddingCollection(nn.Module):
    """A row for every id, unpooled: for sequence models.

    Args:
        tables: the tables; a feature may look up several tables, a table may serve several features.
        device: of the weights.
        need_indices: give the ids back as the weights of the result.

    Raises:
        ValueError: no table, names that repeat, a table without a feature.

    Example:
        >>> tables = [EmbeddingConfig(num_embeddings=4, embedding_dim=1, name="films", feature_names=["seen"],
        ...                           init_fn=torch.nn.init.ones_)]
        >>> batch = KeyedJaggedTensor(["seen"], torch.tensor([0, 3, 3]), lengths=torch.tensor([2, 1]))
        >>> EmbeddingCollection(tables)(batch)["seen"].lengths()
        tensor([2, 1])
    """

    def __init__(
        self,
        tables: Sequence[EmbeddingConfig],
        device: torch.device | str | None = None,
        need_indices: bool = False,
    ) -> None:
        super().__init__()
        check_tables("EmbeddingCollection", tables)
        self._tables = list(tables)
        self._need_indices = need_indices
        self._names = embedding_names_by_table(tables)
        self.embeddings = nn.ModuleDict({
            table.name: nn.Embedding(
                table.num_embeddings,
                table.embedding_dim,
                device=device,
                dtype=data_type_to_dtype(table.data_type),
            )
            for table in tables
        })
        self.reset_parameters()

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Look a batch up.

        Args:
            features: ids for every feature of the tables; other keys are left alone. Where it has
                ``inverse_indices``, distinct bags are looked up once and repeated for the full batch.

        Returns:
            For each feature of each table, rows ``[N, dim]`` in bags of the feature's lengths; named as in an
            EmbeddingBagCollection. The sums for each key are read from the device.

        Raises:
            KeyError: a feature that the batch lacks.
            IndexError: an id outside its table (CPU).
        """
        parts, result = features.to_dict(), {}
        for table, names in zip(self._tables, self._names, strict=True):
            for feature, name in zip(table.feature_names, names, strict=True):
                if feature not in parts:
                    raise missing_key("EmbeddingCollection", feature, features.keys())
                result[name] = self._rows(self.embeddings[table.name], features, feature, parts[feature])
        return result

    def _rows(
        self, table: nn.Embedding, features: KeyedJaggedTensor, feature: str, ids: JaggedTensor
    ) -> JaggedTensor:
        values, indices, lengths, offsets = table(ids.values()), ids.values(), ids.lengths(), ids.offsets()
        if features.variable_stride_per_key():
            names, places = features.inverse_indices()
            order, lengths, offsets = _repeat_bags(lengths, offsets, places[names.index(feature)])
            values, indices = values.index_select(0, order), indices.index_select(0, order)
        return JaggedTensor(values, indices if self._need_indices else None, lengths, offsets)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw every table anew, as its configuration says."""
        for table in self._tables:
            weight = self.embeddings[table.name].weight
            if table.init_fn is not None:
                table.init_fn(weight)
            else:
                weight.uniform_(table.get_weight_init_min(), table.get_weight_init_max())

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """The tables' configurations."""
        return self._tables

    def embedding_names_by_table(self) -> list[list[str]]:
        """The result's names, table by table."""
        return self._names

    def need_indices(self) -> bool:
        """Whether the ids are given back."""
        return self._need_indices

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.embeddings[self._tables[0].name].weight.device


def _repeat_bags(lengths: Tensor, offsets: Tensor, bags: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The values of the chosen bags, in order, as places; with the lengths and offsets of the result."""
    chosen = lengths.index_select(0, bags)
    ends = lengths_to_offsets(chosen)
    begins = offsets[:-1].index_select(0, bags) - ends[:-1]
    order = torch.repeat_interleave(begins, chosen)
    return order + torch.arange(order.shape[0], device=order.device), chosen, ends
