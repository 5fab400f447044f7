"""Lookups as flat lists, a cacheful of tables at a time, on the CPU."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from tetrarec.ops._layout import Batch, Block, Feature, Group, Layout

INT32_MAX = 2**31 - 1


def key_cuts(batch: Batch) -> list[int]:
    """Where each key's ids begin in ``indices``, and the end of the last.

    Raises:
        ValueError: the offsets don't span the ids.
    """
    offsets, sizes, count = batch.offsets, batch.batch_sizes, batch.indices.numel()
    if len(sizes) != 1:
        cuts = offsets[torch.tensor([0, *sizes]).cumsum(0)].tolist()
    else:  # without any bag every key's ids begin and end at the one offset there is
        cuts = offsets[:: sizes[0] or 1].tolist()
    if cuts[0] != 0 or cuts[-1] != count or cuts != sorted(cuts):
        raise ValueError(
            f"tetrarec: offsets must rise from 0 to the number of ids, {count}; at the keys' bounds they are {cuts}"
        )
    return cuts


def check_ids(layout: Layout, indices: Tensor, cuts: list[int]) -> None:
    """Refuse an id outside its table, which would be a row of the table beside it.

    Raises:
        IndexError: naming feature, table and id.
    """
    if not indices.numel():
        return
    low, high = (bound.item() for bound in indices.aminmax())
    if low >= 0 and high < min(layout.rows):
        return
    for feature in layout.features:
        ids = indices[slice(*_span(feature, cuts))]
        if not ids.numel():
            continue
        low, high = (bound.item() for bound in ids.aminmax())
        if low < 0 or high >= feature.rows:
            raise IndexError(
                f"feature {feature.index} looks up id {low if low < 0 else high} in table {feature.table}, "
                f"whose ids are 0 to {feature.rows - 1}; take ids modulo the rows, or give the table more rows"
            )


class Lookups(NamedTuple):
    """N lookups of some features in some tables that lie side by side, and the bags that they fall into."""

    first_row: int  # of those tables, in the matrix of their group
    table_rows: int
    rows: Tensor  # [N], counted from first_row; int32, or what the ids were
    starts: Tensor  # [bags + 1], first lookup of each bag, in the dtype of rows
    scale: Tensor | None  # [N], per-sample weights
    spans: list[tuple[int, int]]  # where each feature's ids lie in the batch
    blocks: list[Block]  # of each feature

    def bag_scale(self, dtype: torch.dtype) -> Tensor:
        """One over the length of each bag, ``[bags]``; 1 for an empty bag."""
        lengths = self.starts.diff().clamp_(min=1)
        return lengths.to(torch.promote_types(dtype, torch.float32)).reciprocal_().to(dtype)

    def per_lookup(self, bag_values: Tensor) -> Tensor:
        """Repeat a value of each bag, ``[bags]``, for each of its lookups, ``[N]``."""
        return torch.repeat_interleave(bag_values, self.starts.diff(), output_size=self.rows.numel())


def lookups(
    group: Group,
    blocks: list[Block],
    batch: Batch,
    cuts: list[int],
    cost: Callable[[int, int], int],
    limit: int,
) -> Iterator[Lookups]:
    """Yield the lookups of a group, few tables at a time; all features of a table come together.

    ``blocks`` are those of all features; ``cost(ids, bags)`` of a feature is added up until it reaches
    ``limit``.
    """
    chosen, spent = [], 0
    for features in group.by_table:
        chosen += features
        for feature in features:
            begin, end = _span(feature, cuts)
            spent += cost(end - begin, blocks[feature.index].bags)
        if spent >= limit:
            yield _gather(chosen, blocks, batch, cuts)
            chosen, spent = [], 0
    if chosen:
        yield _gather(chosen, blocks, batch, cuts)


def _span(feature: Feature, cuts: list[int]) -> tuple[int, int]:
    return (cuts[feature.key], cuts[feature.key + 1]) if len(cuts) > 1 else (0, 0)


def _gather(features: list[Feature], all_blocks: list[Block], batch: Batch, cuts: list[int]) -> Lookups:
    first, last = features[0], features[-1]
    blocks = [all_blocks[f.index] for f in features]
    spans = [_span(f, cuts) for f in features]
    table_rows = last.first_row + last.rows - first.first_row
    sizes = [end - begin for begin, end in spans]
    rows = _pick(batch.indices, spans)
    if len(features) > 1:
        fits = max(table_rows, sum(sizes)) <= INT32_MAX
        rows = rows.to(torch.int32 if fits else torch.int64, copy=True)
        for part, feature in zip(rows.split(sizes), features, strict=True):
            part += feature.first_row - first.first_row
    starts = _starts(features, blocks, spans, batch.offsets).to(rows.dtype)
    samples = None if batch.per_sample_weights is None else _pick(batch.per_sample_weights, spans)
    return Lookups(first.first_row, table_rows, rows, starts, samples, spans, blocks)


def _starts(
    features: Sequence[Feature], blocks: list[Block], spans: list[tuple[int, int]], offsets: Tensor
) -> Tensor:
    if all(b.key == a.key + 1 for a, b in pairwise(features)):
        first, last = blocks[0], blocks[-1]
        return offsets[first.first_bag : last.first_bag + last.bags + 1] - spans[0][0]
    pieces, position = [], 0
    for block, (begin, end) in zip(blocks, spans, strict=True):
        pieces.append(offsets[block.first_bag : block.first_bag + block.bags] + (position - begin))
        position += end - begin
    return torch.cat([*pieces, offsets.new_tensor([position])])


def _pick(values: Tensor, spans: list[tuple[int, int]]) -> Tensor:
    if all(a[1] == b[0] for a, b in pairwise(spans)):
        return values[spans[0][0] : spans[-1][1]]
    return torch.cat([values[begin:end] for begin, end in spans])


def block_view(output: Tensor, block: Block, dim: int) -> Tensor:
    """One feature's results in a contiguous output, ``[bags, dim]``, as a view."""
    return output.as_strided((block.bags, dim), (block.stride, 1), output.storage_offset() + block.start)


def write_blocks(output: Tensor, pooled: Tensor, blocks: list[Block]) -> None:
    """Copy pooled rows ``[bags, dim]``, feature after feature, to where a contiguous output keeps them."""
    dim = pooled.shape[1]
    if len(blocks) > 1 and _fill_rows(blocks, dim):
        shape = (len(blocks), blocks[0].bags, dim)
        output.view(shape[1], shape[0], dim).transpose(0, 1).copy_(pooled.view(shape))
        return
    first = 0
    for (
        block
    ) in blocks:  # also where some stand side by side: torch copies one at a time faster than a few at once
        block_view(output, block, dim).copy_(pooled[first : first + block.bags])
        first += block.bags


def _fill_rows(blocks: list[Block], dim: int) -> bool:
    """Whether the blocks, in order, are the columns of the whole output."""
    width = len(blocks) * dim
    return all(b.start == place * dim and b.stride == width and b.bags for place, b in enumerate(blocks))


def output_rows(output: Tensor, blocks: list[Block], dim: int) -> tuple[Tensor, Tensor]:
    """A contiguous output as a matrix ``[R, dim]``, and which of its rows holds each bag, ``[bags]``, int32.

    Without a copy where every block begins and steps by whole rows; else R is the bags, copied out.
    """
    if (
        all(block.start % dim == 0 and block.stride % dim == 0 for block in blocks)
        and output.numel() % dim == 0
    ):
        if len({(block.bags, block.stride) for block in blocks}) == 1:
            steps = torch.arange(blocks[0].bags, dtype=torch.int32).mul_(blocks[0].stride // dim)
            starts = torch.tensor([block.start // dim for block in blocks], dtype=torch.int32)
            return output.view(-1, dim), (starts.unsqueeze(1) + steps).view(-1)
        places = [
            torch.arange(b.bags, dtype=torch.int32).mul_(b.stride // dim).add_(b.start // dim) for b in blocks
        ]
        return output.view(-1, dim), torch.cat(places)
    copied = torch.cat([block_view(output, block, dim) for block in blocks])
    return copied, torch.arange(copied.shape[0], dtype=torch.int32)
