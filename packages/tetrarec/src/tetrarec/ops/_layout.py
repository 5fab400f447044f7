"""Where tables lie in one flat buffer, and which feature reads which table.

Tables of one width are neighbours in the buffer, so that they form one matrix: a *group*. One lookup call,
one kernel launch and one sort then serve all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from torch import Tensor

ALIGNMENT = 16  # elements: a group begins on a boundary from which 16-byte loads are possible


class Feature(NamedTuple):
    """One lookup: the bags of one key in one table."""

    key: int  # which key of the batch holds its ids
    first_row: int  # of its table, in the matrix of the group
    rows: int
    column: int  # of the output where its result begins
    index: int  # its place among all features
    table: int
    round: int  # how many features before it read the same key


@dataclass(frozen=True)
class Group:
    """The tables of one width, end to end."""

    dim: int
    rows: int
    start: int  # element of the flat buffer
    first_row: int  # row of the row-wise state
    features: tuple[Feature, ...]
    by_table: tuple[tuple[Feature, ...], ...]  # the features of each table that has one
    tables: tuple[int, ...]

    def matrix(self, weights: Tensor) -> Tensor:
        """The group's part of the flat buffer, ``[rows, dim]``."""
        return weights.narrow(0, self.start, self.rows * self.dim).view(self.rows, self.dim)


@dataclass(frozen=True)
class Layout:
    """The whole plan of one table-batched lookup; built once for each set of tables and features."""

    rows: tuple[int, ...]
    dims: tuple[int, ...]
    groups: tuple[Group, ...]
    features: tuple[Feature, ...]  # of all groups, in the order of the output
    total_dim: int
    numel: int  # of the flat buffer, padding included
    table_starts: tuple[int, ...]  # element of the flat buffer
    table_first_rows: tuple[int, ...]  # row of the row-wise state
    feature_dims: tuple[int, ...]
    rounds: int  # the most features that read one key

    def apart(self) -> "Layout":
        """The same lookup with every table a group of its own, for tables that don't lie in one buffer."""
        tables, keys = zip(*((f.table, f.key) for f in self.features), strict=True)
        return layout_of(self.rows, self.dims, tables, keys, packed=False)

    def tables(self, weights: Tensor) -> list[Tensor]:
        """Each table as a view of the flat buffer, ``[rows, dim]``."""
        return [
            weights.narrow(0, start, rows * dim).view(rows, dim)
            for start, rows, dim in zip(self.table_starts, self.rows, self.dims, strict=True)
        ]

    def table_states(self, state: Tensor) -> list[Tensor]:
        """The row-wise state of each table, ``[rows]``, as views."""
        return [
            state.narrow(0, first, rows) for first, rows in zip(self.table_first_rows, self.rows, strict=True)
        ]


def layout_of(
    rows: Sequence[int],
    dims: Sequence[int],
    feature_tables: Sequence[int],
    feature_keys: Sequence[int] = (),
    *,
    packed: bool = True,
) -> Layout:
    """The layout of tables of these sizes.

    Args:
        rows: rows of each table.
        dims: width of each table.
        feature_tables: the table that each feature reads, in the order of the output's columns.
        feature_keys: the key of the batch that holds each feature's ids; empty: feature f is key f.
        packed: False keeps every table a group of its own.
    """
    # int(): a table's size is a constant of the compiled graph, where a batch's is a symbol.
    sizes = tuple(map(int, rows)), tuple(map(int, dims))
    return _layout_of(*sizes, tuple(feature_tables), tuple(feature_keys), packed)


@lru_cache(maxsize=1024)
def _layout_of(
    rows: tuple[int, ...],
    dims: tuple[int, ...],
    feature_tables: tuple[int, ...],
    feature_keys: tuple[int, ...],
    packed: bool,
) -> Layout:
    members: dict[int, list[int]] = {}
    for table, dim in enumerate(dims):
        members.setdefault(dim if packed else table, []).append(table)
    keys = feature_keys or tuple(range(len(feature_tables)))
    feature_dims = tuple(dims[table] for table in feature_tables)
    columns = [sum(feature_dims[:f]) for f in range(len(feature_dims))]
    rounds = [keys[:f].count(key) for f, key in enumerate(keys)]
    groups, table_starts, table_first_rows = [], [0] * len(rows), [0] * len(rows)
    start = first_row = 0
    for tables in members.values():
        dim, row = dims[tables[0]], 0
        bases = {}
        for table in tables:
            bases[table] = row
            table_starts[table] = start + row * dim
            table_first_rows[table] = first_row + row
            row += rows[table]
        features = tuple(
            Feature(keys[f], bases[table], rows[table], columns[f], f, table, rounds[f])
            for f, table in enumerate(feature_tables)
            if table in bases
        )
        by_table = [tuple(f for f in features if f.table == table) for table in tables]
        groups.append(
            Group(dim, row, start, first_row, features, tuple(filter(None, by_table)), tuple(tables))
        )
        first_row += row
        start += -(-row * dim // ALIGNMENT) * ALIGNMENT
    features = sorted((f for group in groups for f in group.features), key=lambda f: f.index)
    return Layout(
        rows,
        dims,
        tuple(groups),
        tuple(features),
        sum(feature_dims),
        start,
        tuple(table_starts),
        tuple(table_first_rows),
        feature_dims,
        max(rounds, default=-1) + 1,
    )


class Block(NamedTuple):
    """The bags of one feature, and where their results lie in the output's storage."""

    first_bag: int
    bags: int
    start: int
    stride: int


class Batch(NamedTuple):
    """What is looked up: ids in bags, key after key."""

    indices: Tensor  # [N], ids of all bags end to end
    offsets: Tensor  # [bags + 1], first id of each bag, then N
    per_sample_weights: Tensor | None  # [N]
    batch_sizes: Sequence[int]  # bags of every key; or one number a key
    mean: bool

    def output_shape(self, layout: Layout) -> tuple[int, ...]:
        """``(B, total_dim)`` for one batch size; for one a key, ``(sum over features of bags x dim,)``."""
        if len(self.batch_sizes) == 1:
            return (self.batch_sizes[0], layout.total_dim)
        return (sum(self.batch_sizes[f.key] * g.dim for g in layout.groups for f in g.features),)

    def blocks(self, layout: Layout) -> list[Block]:
        """The block of each feature, in the order of the output."""
        if len(self.batch_sizes) == 1:
            bags = self.batch_sizes[0]
            return [Block(f.key * bags, bags, f.column, layout.total_dim) for f in layout.features]
        first_bags = [0]
        for bags in self.batch_sizes:
            first_bags.append(first_bags[-1] + bags)
        blocks, start = [], 0
        for feature, dim in zip(layout.features, layout.feature_dims, strict=True):
            bags = self.batch_sizes[feature.key]
            blocks.append(Block(first_bags[feature.key], bags, start, dim))
            start += bags * dim
        return blocks


def plan(
    indices: Tensor,
    offsets: Tensor,
    per_sample_weights: Tensor | None,
    rows: Sequence[int],
    dims: Sequence[int],
    feature_tables: Sequence[int],
    feature_keys: Sequence[int],
    batch_sizes: Sequence[int],
    mean: bool,
) -> tuple[Layout, Batch]:
    """The arguments that the operators share, as a layout and a batch.

    * ``rows``, ``dims``: the sizes of the tables;
    * ``feature_tables``: the table that each feature reads, in the order of the output's columns;
    * ``feature_keys``: which key of the batch holds each feature's ids; empty: feature f reads key f. A key
      may serve several features, or none;
    * ``batch_sizes``: one number, the bags of every key, and the output is ``[B, sum of dims]``; or one
      number a key, and the output is 1-D: the blocks ``[bags, dim]`` of the features, end to end;
    * ``mean``: divide each bag by its length.
    """
    layout = layout_of(rows, dims, feature_tables, feature_keys)
    return layout, Batch(indices, offsets, per_sample_weights, batch_sizes, mean)
