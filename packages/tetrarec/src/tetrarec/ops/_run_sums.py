"""The gradient of every row that a batch touched, duplicates summed.

Lookups are sorted by row; equal neighbours form a *run*, one a row. A run's gradient is itself a pooled lookup: bag
numbers are the ids, gradients of the bags the table.
"""

from collections.abc import Iterator
from typing import Any

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


def group_run_sums(
    layout: Layout, output_grad: Tensor, batch: Batch
) -> Iterator[tuple[Group, Tensor, Tensor]]:
    """Yield ``(group, rows, sums)``: rows of the group's matrix, each once, and their gradients.

    ``rows`` is ``[U]``, int64, rising; ``sums`` is ``[U, dim]`` in float32 or wider.
    """
    cuts, blocks = key_cuts(batch), batch.blocks(layout)
    grad = output_grad.contiguous()
    if grad.element_size() < 4:
        grad = grad.float()
    for group in layout.groups:
        for part in lookups(group, blocks, batch, cuts, lambda ids, bags: ids, SORTED_LOOKUPS):
            if part.rows.numel():
                yield from (
                    (group, rows, sums) for rows, sums in _run_sums(part, grad, group.dim, batch.mean)
                )


def _run_sums(part: Lookups, grad: Tensor, dim: int, mean: bool) -> Iterator[tuple[Tensor, Tensor]]:
    bag_grad, places = output_rows(grad, part.blocks, dim)
    scale = _scale(part, grad.dtype, mean)
    rows, order = torch.sort(part.rows.int() if part.table_rows <= INT32_MAX else part.rows, stable=True)
    bags = part.per_lookup(places).index_select(0, order)
    scale = None if scale is None else scale.index_select(0, order)
    unique, counts = torch.unique_consecutive(rows, return_counts=True)
    unique = unique.long().add_(part.first_row)
    starts = lengths_to_offsets(counts.to(bags.dtype))
    size = max(1, SUM_ELEMENTS // dim)
    cuts = [*starts[:-1:size].tolist(), rows.numel()]
    for block, begin in enumerate(range(0, unique.numel(), size)):
        end = min(begin + size, unique.numel())
        span = slice(cuts[block], cuts[block + 1])
        sums = F.embedding_bag(
            bags[span],
            bag_grad,
            starts[begin : end + 1] - cuts[block],
            mode="sum",
            per_sample_weights=None if scale is None else scale[span],
            include_last_offset=True,
        )
        yield unique[begin:end], sums


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
    for group, rows, sums in group_run_sums(layout, grad, batch):
        group.matrix(flat).index_copy_(0, rows, sums.to(flat.dtype))
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
