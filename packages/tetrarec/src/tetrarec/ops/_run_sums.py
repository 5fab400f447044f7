"""The gradient of every row that a batch touched, duplicates summed.

Lookups are sorted by row; equal neighbours form a *run*, one a row. A run's gradient is itself a pooled
lookup: bag numbers are the ids, gradients of the bags the table.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tetrarec.ops._layout import Batch, Group, Layout, plan
from tetrarec.ops._lengths import lengths_to_offsets
from tetrarec.ops._library import LIBRARY
from tetrarec.ops._lookups import INT32_MAX, Lookups, block_view, key_cuts, lookups, output_rows

SORTED_LOOKUPS = 2**17  # at a time, and whole tables: enough for a radix sort, few enough for the cache
SUM_ELEMENTS = 2**18  # of one block of sums: a MiB, used while it is in the cache

LIBRARY.define(
    "table_gradients(Tensor grad, Tensor indices, Tensor offsets, Tensor? per_sample_weights, int[] rows, int[] dims, "
    "int[] feature_tables, int[] feature_keys, SymInt[] batch_sizes, bool mean) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)


def table_gradients_reference(grad: Tensor, *lookup: Any) -> Tensor:
    """What table_gradients means: each lookup adds its bag's gradient to its row; any dtype, any device.

    The gradients of all tables lie in one buffer, ``[layout.numel]``, in the dtype of ``grad``.
    """
    layout, batch = plan(*lookup)
    flat = grad.new_zeros(layout.numel)
    tables, grad = layout.tables(flat), grad.contiguous()
    for feature, block in zip(layout.features, batch.blocks(layout), strict=True):
        table = tables[feature.table]
        bounds = batch.offsets[block.first_bag : block.first_bag + block.bags + 1].long()
        lengths, ids = bounds.diff(), slice(int(bounds[0]), int(bounds[-1]))
        bag_grad = block_view(grad, block, table.shape[1])
        if batch.mean:
            bag_grad = bag_grad / lengths.clamp(min=1).unsqueeze(1)
        grads = torch.repeat_interleave(bag_grad, lengths, dim=0)
        if batch.per_sample_weights is not None:
            grads = grads * batch.per_sample_weights[ids].to(grad.dtype).unsqueeze(1)
        table.index_add_(0, batch.indices[ids].long(), grads)
    return flat


class Runs(NamedTuple):
    """The rows of a group that some lookups touched, and what is needed to sum the gradient of each."""

    group: Group
    rows: Tensor  # [U], int64, of the group's matrix, rising
    starts: Tensor  # [U + 1], first of the sorted lookups of each row
    bags: Tensor  # [N], row of bag_grad that each sorted lookup takes, in the dtype of starts
    scale: Tensor | None  # [N], by what it is multiplied
    bag_grad: Tensor  # [R, dim], float32 or wider

    def sums(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield ``(span, sums)``: a span of ``rows`` and their gradients, ``[span, dim]``."""
        count, lookups = self.rows.numel(), self.bags.numel()
        size = max(1, SUM_ELEMENTS // self.group.dim)
        cuts = [*self.starts[:-1:size].tolist(), lookups]
        for block, begin in enumerate(range(0, count, size)):
            end, span = min(begin + size, count), slice(cuts[block], cuts[block + 1])
            yield (
                slice(begin, end),
                F.embedding_bag(
                    self.bags[span],
                    self.bag_grad,
                    self.starts[begin : end + 1] - cuts[block],
                    mode="sum",
                    per_sample_weights=None if self.scale is None else self.scale[span],
                    include_last_offset=True,
                ),
            )


def touched_rows(layout: Layout, output_grad: Tensor, batch: Batch) -> Iterator[Runs]:
    """Sort the lookups, few tables at a time; every row of every table appears in one of the runs."""
    cuts, blocks = key_cuts(batch), batch.blocks(layout)
    grad = output_grad.contiguous()
    if grad.element_size() < 4:
        grad = grad.float()
    for group in layout.groups:
        for part in lookups(group, blocks, batch, cuts, lambda ids, bags: ids, SORTED_LOOKUPS):
            if part.rows.numel():
                yield _runs(group, part, grad, batch.mean)


def _runs(group: Group, part: Lookups, grad: Tensor, mean: bool) -> Runs:
    bag_grad, places = output_rows(grad, part.blocks, group.dim)
    scale = _scale(part, grad.dtype, mean)
    rows, order = torch.sort(part.rows.int() if part.table_rows <= INT32_MAX else part.rows, stable=True)
    bags = part.per_lookup(places).index_select(0, order)
    unique, counts = torch.unique_consecutive(rows, return_counts=True)
    return Runs(
        group,
        unique.long().add_(part.first_row),
        lengths_to_offsets(counts.to(bags.dtype)),
        bags,
        None if scale is None else scale.index_select(0, order),
        bag_grad,
    )


def _scale(part: Lookups, dtype: torch.dtype, mean: bool) -> Tensor | None:
    """By what each lookup multiplies the gradient of its bag, ``[N]``."""
    scale = None if part.scale is None else part.scale.to(dtype)
    if not mean:
        return scale
    per_lookup = part.per_lookup(part.bag_scale(dtype))
    return per_lookup if scale is None else scale * per_lookup


def _table_gradients_cpu(grad: Tensor, *lookup: Any) -> Tensor:
    layout, batch = plan(*lookup)
    flat = grad.new_zeros(layout.numel)
    for runs in touched_rows(layout, grad, batch):
        for span, sums in runs.sums():
            runs.group.matrix(flat).index_copy_(0, runs.rows[span], sums.to(flat.dtype))
    return flat


def _table_gradients_cuda(grad: Tensor, *lookup: Any) -> Tensor:
    from tetrarec.ops._run_sums_triton import launch  # noqa: PLC0415  (triton: seconds to import, absent on CPU)

    layout, batch = plan(*lookup)
    flat = grad.new_zeros(layout.numel)
    launch(layout, grad, batch, flat)
    return flat


def _table_gradients_fake(grad: Tensor, *lookup: Any) -> Tensor:
    layout, _ = plan(*lookup)
    return grad.new_empty(layout.numel)


LIBRARY.impl("table_gradients", table_gradients_reference, "CompositeExplicitAutograd")
LIBRARY.impl("table_gradients", _table_gradients_cpu, "CPU")
LIBRARY.impl("table_gradients", _table_gradients_cuda, "CUDA")
torch.library.register_fake("tetrarec::table_gradients", _table_gradients_fake, lib=LIBRARY)
