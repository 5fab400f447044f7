"""Which feature reads which table, under which name, and at which place of the output."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tetrarec.modules._configs import (
    BaseEmbeddingConfig,
    DataType,
    EmbeddingBagConfig,
    PoolingType,
    data_type_to_dtype,
)
from tetrarec.ops._layout import Layout, layout_of
from tetrarec.sparse._checks import missing_key


def check_tables(where: str, tables: Sequence[BaseEmbeddingConfig]) -> None:
    """Refuse tables that a collection can't be made of.

    Raises:
        ValueError: no table, two of one name, a table without a name or a feature.
    """
    if not tables:
        raise ValueError(f"{where}: needs at least one table")
    names = [table.name for table in tables]
    for table in tables:
        if not table.name or names.count(table.name) > 1:
            raise ValueError(f"{where}: every table needs a name of its own, got {names}")
        if not table.feature_names or len(set(table.feature_names)) != len(table.feature_names):
            raise ValueError(
                f"{where}: table {table.name!r} needs feature_names, each once, got {table.feature_names}"
            )


def embedding_names_by_table(tables: Sequence[BaseEmbeddingConfig]) -> list[list[str]]:
    """The output's names: the feature's, or ``feature@table`` where several tables read the feature.

    Example:
        >>> embedding_names_by_table([EmbeddingBagConfig(9, 4, "t1", feature_names=["a", "b"]),
        ...                           EmbeddingBagConfig(9, 4, "t2", feature_names=["a"])])
        [['a@t1', 'b'], ['a@t2']]
    """
    features = [feature for table in tables for feature in table.feature_names]
    return [
        [
            f"{feature}@{table.name}" if features.count(feature) > 1 else feature
            for feature in table.feature_names
        ]
        for table in tables
    ]


@dataclass(frozen=True)
class TableGroup:
    """Tables of one kind, which one operator looks up together."""

    pooling: PoolingType
    dtype: torch.dtype
    tables: tuple[int, ...]
    layout: Layout
    feature_names: list[str]
    feature_tables: list[int]  # among the tables of the group


class TablePlan:
    """The groups of a collection's tables, and the order of what they give.

    Args:
        tables: the configurations, checked.
    """

    def __init__(self, tables: Sequence[EmbeddingBagConfig]) -> None:
        members: dict[tuple[PoolingType, DataType], list[int]] = {}
        for place, table in enumerate(tables):
            members.setdefault((table.pooling, table.data_type), []).append(place)
        self.groups = [_group(tables, kind, places) for kind, places in members.items()]
        self.names = [name for names in embedding_names_by_table(tables) for name in names]
        self.dims = [table.embedding_dim for table in tables for _ in table.feature_names]
        first, firsts = 0, []
        for table in tables:
            firsts.append(first)
            first += len(table.feature_names)
        given = [
            firsts[t] + f for g in self.groups for t in g.tables for f in range(len(tables[t].feature_names))
        ]
        self.order = [
            given.index(place) for place in range(len(given))
        ]  # where each output stands among the groups'

    def assemble(self, outputs: Sequence[Tensor]) -> Tensor:
        """Put the groups' outputs ``[B, ...]`` side by side in the order of the tables."""
        if len(outputs) == 1:
            return outputs[0]
        pieces = [
            piece
            for group, output in zip(self.groups, outputs, strict=True)
            for piece in output.split(list(group.layout.feature_dims), dim=1)
        ]
        return torch.cat([pieces[place] for place in self.order], dim=1)


def _group(
    tables: Sequence[EmbeddingBagConfig], kind: tuple[PoolingType, DataType], places: list[int]
) -> TableGroup:
    pooling, data_type = kind
    chosen = [tables[place] for place in places]
    feature_tables = [local for local, table in enumerate(chosen) for _ in table.feature_names]
    return TableGroup(
        pooling,
        data_type_to_dtype(data_type),
        tuple(places),
        layout_of([t.num_embeddings for t in chosen], [t.embedding_dim for t in chosen], feature_tables),
        [name for table in chosen for name in table.feature_names],
        feature_tables,
    )


def key_places(where: str, keys: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The place of each wanted key; empty where they are the keys themselves.

    Raises:
        KeyError: a key that isn't there, naming the nearest.
    """
    if keys == wanted:
        return []
    places = {key: place for place, key in enumerate(keys)}
    for key in wanted:
        if key not in places:
            raise missing_key(where, key, keys)
    return [places[key] for key in wanted]
