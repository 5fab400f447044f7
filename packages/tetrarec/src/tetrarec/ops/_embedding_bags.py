"""Pooled lookups of many features in many tables by one operator.

``tetrarec::embedding_bags`` is differentiable in the tables and in the per-sample weights. Its last arguments
describe the lookup with plain numbers, which :func:`tetrarec.ops._layout.plan` explains; a compiled graph
holds them as constants.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from tetrarec._torch_compat import below_autograd
from tetrarec.ops._layout import Batch, Block, Layout, layout_of, plan
from tetrarec.ops._library import LIBRARY
from tetrarec.ops._lookups import block_view, check_ids, key_cuts, lookups, write_blocks

ALONE = 2**18  # elements of a feature's result past which its table is looked up by a call of its own
TOGETHER = 2**22  # elements of results made by one call at most

LIBRARY.define(
    "embedding_bags(Tensor[] tables, Tensor indices, Tensor offsets, Tensor? per_sample_weights, "
    "int[] feature_tables, int[] feature_keys, SymInt[] batch_sizes, bool mean) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)


def table_batched_embedding_bags(
    tables: Sequence[Tensor],
    indices: Tensor,
    offsets: Tensor,
    per_sample_weights: Tensor | None = None,
    *,
    feature_table_map: Sequence[int] | None = None,
    pooling: str = "sum",
) -> Tensor:
    """Pool the rows of every bag of every feature, over all tables in one call.

    Tables that are views of one buffer, side by side, are looked up together, which is what makes many small
    tables cheap; any other tables work as well.

    Args:
        tables: ``[rows, dim]`` each, of one floating dtype; widths may differ.
        indices: ids of all bags end to end, feature after feature, ``[N]``, int32 or int64. On the CPU an id
            outside its table is refused; on a GPU, where looking would stall the device, it contributes
            nothing.
        offsets: first id of each bag, then N: ``[F * B + 1]``, in the dtype of ``indices``, non-decreasing.
        per_sample_weights: a factor for each id, ``[N]``, floating.
        feature_table_map: the table that each of the F features reads; by default feature f reads table f.
        pooling: "sum" or "mean". A mean divides by the length of the bag, weighted or not. An empty bag gives
            zeros.

    Returns:
        ``[B, sum of the features' dims]`` in the dtype of the tables, features in order; differentiable once,
        in the tables and in ``per_sample_weights``.

    Raises:
        ValueError: shapes that don't fit together.
        TypeError: an argument of the wrong dtype.
        IndexError: an id outside its table (CPU).

    Example:
        >>> tables = [torch.tensor([[1.0], [2.0]]), torch.tensor([[10.0], [20.0]])]
        >>> table_batched_embedding_bags(tables, torch.tensor([0, 1, 1, 0]), torch.tensor([0, 2, 3, 4, 4]))
        tensor([[ 3., 10.],
                [ 2.,  0.]])

    Source: ``torch.nn.functional.embedding_bag``, table by table.
    """
    feature_tables = list(range(len(tables)) if feature_table_map is None else feature_table_map)
    _check(tables, indices, offsets, per_sample_weights, feature_tables, pooling)
    batch_size = (offsets.shape[0] - 1) // len(feature_tables)
    return torch.ops.tetrarec.embedding_bags(
        list(tables),
        indices,
        offsets,
        per_sample_weights,
        feature_tables,
        [],
        [batch_size],
        pooling == "mean",
    )


def _check(
    tables: Sequence[Tensor],
    indices: Tensor,
    offsets: Tensor,
    per_sample_weights: Tensor | None,
    feature_tables: list[int],
    pooling: str,
) -> None:
    where = "table_batched_embedding_bags"
    if not tables or any(t.ndim != 2 for t in tables):
        raise ValueError(f"{where}: tables must be [rows, dim] each, got {[tuple(t.shape) for t in tables]}")
    if len({t.dtype for t in tables}) > 1 or not tables[0].is_floating_point():
        raise TypeError(f"{where}: tables must share one floating dtype, got {[t.dtype for t in tables]}")
    if not feature_tables or not all(0 <= t < len(tables) for t in feature_tables):
        raise ValueError(
            f"{where}: feature_table_map must name tables 0 to {len(tables) - 1}, got {feature_tables}"
        )
    check_batch(where, indices, offsets, per_sample_weights, len(feature_tables))
    if pooling not in {"sum", "mean"}:
        raise ValueError(f'{where}: pooling must be "sum" or "mean", got {pooling!r}')


def check_batch(where: str, indices: Tensor, offsets: Tensor, weights: Tensor | None, features: int) -> None:
    """What can be told about a batch without reading its values."""
    if indices.ndim != 1 or offsets.ndim != 1:
        raise ValueError(
            f"{where}: indices and offsets must be 1-D, got {tuple(indices.shape)} and {tuple(offsets.shape)}"
        )
    if indices.dtype not in {torch.int32, torch.int64} or offsets.dtype not in {torch.int32, torch.int64}:
        raise TypeError(
            f"{where}: indices and offsets must be int32 or int64, got {indices.dtype}, {offsets.dtype}"
        )
    if offsets.shape[0] < 1 or (offsets.shape[0] - 1) % features:
        raise ValueError(
            f"{where}: offsets must hold F * B + 1 items for F = {features} features, got {offsets.shape[0]}; "
            "append the number of ids as the last offset"
        )
    if weights is not None and (weights.shape != indices.shape or not weights.is_floating_point()):
        raise ValueError(
            f"{where}: per_sample_weights must be floating, one for each of the {indices.shape[0]} ids, "
            f"got {weights.dtype} {tuple(weights.shape)}"
        )


def plan_of(
    tables: Sequence[Tensor], indices: Tensor, offsets: Tensor, weights: Tensor | None, *lookup: Any
) -> tuple[Layout, Batch]:
    """:func:`plan` of a lookup in these tables."""
    return plan(
        indices, offsets, weights, [t.shape[0] for t in tables], [t.shape[1] for t in tables], *lookup
    )


def embedding_bags_reference(tables: Sequence[Tensor], *lookup: Any) -> Tensor:
    """What embedding_bags means: bag by bag, rows scaled, summed, divided; any dtype, any device."""
    layout, batch = plan_of(tables, *lookup)
    output = tables[0].new_empty(batch.output_shape(layout))
    for feature, block in zip(layout.features, batch.blocks(layout), strict=True):
        table = tables[feature.table]
        bounds = batch.offsets[block.first_bag : block.first_bag + block.bags + 1].long()
        lengths, ids = bounds.diff(), slice(int(bounds[0]), int(bounds[-1]))
        rows = table[batch.indices[ids].long()]
        if batch.per_sample_weights is not None:
            rows = rows * batch.per_sample_weights[ids].to(table.dtype).unsqueeze(1)
        bag = torch.repeat_interleave(torch.arange(block.bags, device=lengths.device), lengths)
        pooled = table.new_zeros(block.bags, table.shape[1]).index_add_(0, bag, rows)
        if batch.mean:
            pooled /= lengths.clamp(min=1).unsqueeze(1)
        block_view(output, block, table.shape[1]).copy_(pooled)
    return output


def lie_together(tables: Sequence[Tensor], layout: Layout) -> bool:
    """Whether tables are views of one buffer, each where the layout has it."""
    first = tables[0]
    size, at = first.element_size(), first.data_ptr()
    places = [at + (start - layout.table_starts[0]) * size for start in layout.table_starts]
    if [t.data_ptr() for t in tables] != places or not all(t.is_contiguous() for t in tables):
        return False
    begin, end = first.storage_offset() - layout.table_starts[0], first.untyped_storage().nbytes() // size
    return begin >= 0 and all(begin + g.start + g.rows * g.dim <= end for g in layout.groups)


def matrices_of(tables: Sequence[Tensor], layout: Layout) -> tuple[Layout, list[Tensor]]:
    """The matrix of each group of tables, without copying, and the layout that groups them so.

    Tables that lie together as ``layout`` has them form its few matrices; others stay apart.
    """
    if lie_together(tables, layout):
        first = tables[0].detach()
        begin = first.storage_offset() - layout.table_starts[0]
        return layout, [first.as_strided((g.rows, g.dim), (g.dim, 1), begin + g.start) for g in layout.groups]
    apart = layout.apart()
    return apart, [tables[group.tables[0]].detach() for group in apart.groups]


class _Pooled(NamedTuple):
    """The pooled bags of some features of one width, feature after feature."""

    blocks: list[Block]
    rows: Tensor  # [bags, dim]


def pool(layout: Layout, matrices: Sequence[Tensor], batch: Batch, check: bool = True) -> Tensor:
    """The CPU formulation: ``F.embedding_bag`` over many tables at once.

    A table with a large result is better off with a call of its own: its ids need no shift, and the
    temporaries are small enough for the allocator to keep, where one of the output's size has its pages
    faulted in on every call.
    """
    cuts, blocks = key_cuts(batch), batch.blocks(layout)
    if check:
        check_ids(layout, batch.indices, cuts)
    parts = []
    for group, matrix in zip(layout.groups, matrices, strict=True):

        def cost(_: int, bags: int, dim: int = group.dim) -> int:
            return TOGETHER if bags * dim >= ALONE else bags * dim

        for part in lookups(group, blocks, batch, cuts, cost, TOGETHER):
            pooled = F.embedding_bag(
                part.rows,
                matrix.narrow(0, part.first_row, part.table_rows),
                part.starts,
                mode="sum",
                per_sample_weights=None if part.scale is None else part.scale.to(matrix.dtype),
                include_last_offset=True,
            )
            if batch.mean:
                pooled *= part.bag_scale(pooled.dtype).unsqueeze(1)
            parts.append(_Pooled(part.blocks, pooled))
    return _lay_out(parts, batch.output_shape(layout))


def _lay_out(parts: list[_Pooled], shape: tuple[int, ...]) -> Tensor:
    if len(shape) == 2 and all(len(part.blocks) == 1 for part in parts):
        columns = sorted(parts, key=lambda part: part.blocks[0].start)
        return torch.cat([part.rows for part in columns], dim=1)
    output = parts[0].rows.new_empty(shape)
    for part in parts:
        write_blocks(output, part.rows, part.blocks)
    return output


def _embedding_bags_cpu(tables: list[Tensor], *lookup: Any) -> Tensor:
    layout, batch = plan_of(tables, *lookup)
    return pool(*matrices_of(tables, layout), batch)


def _embedding_bags_cuda(tables: list[Tensor], *lookup: Any) -> Tensor:
    from tetrarec.ops._embedding_bags_triton import launch  # noqa: PLC0415  (triton: seconds to import, absent on CPU)

    layout, batch = plan_of(tables, *lookup)
    return launch(*matrices_of(tables, layout), batch)


def _embedding_bags_fake(tables: list[Tensor], *lookup: Any) -> Tensor:
    layout, batch = plan_of(tables, *lookup)
    return tables[0].new_empty(batch.output_shape(layout))


class _EmbeddingBags(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, indices: Tensor, offsets: Tensor, weights: Tensor | None, *rest: Any) -> Tensor:
        lookup, tables = rest[:4], rest[4:]
        ctx.save_for_backward(indices, offsets, weights, *(tables if ctx.needs_input_grad[2] else ()))
        ctx.sizes = [t.shape[0] for t in tables], [t.shape[1] for t in tables]
        ctx.lookup = lookup
        with below_autograd():
            return torch.ops.tetrarec.embedding_bags(list(tables), indices, offsets, weights, *lookup)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        indices, offsets, weights, *tables = ctx.saved_tensors
        sample_grad, table_grads = None, [None] * len(ctx.sizes[0])
        if ctx.needs_input_grad[2]:
            sample_grad = torch.ops.tetrarec.sample_weight_gradients(
                grad, tables, indices, offsets, weights, *ctx.lookup
            )
        if any(ctx.needs_input_grad[7:]):
            flat = torch.ops.tetrarec.table_gradients(
                grad, indices, offsets, weights, *ctx.sizes, *ctx.lookup
            )
            table_grads = layout_of(*ctx.sizes, *ctx.lookup[:2]).tables(flat)
        return None, None, sample_grad, None, None, None, None, *table_grads


def _embedding_bags_autograd(
    tables: list[Tensor], indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None, *lookup: Any
) -> Tensor:
    if torch.is_grad_enabled():
        return _EmbeddingBags.apply(indices, offsets, per_sample_weights, *lookup, *tables)
    with below_autograd():
        return torch.ops.tetrarec.embedding_bags(tables, indices, offsets, per_sample_weights, *lookup)


LIBRARY.impl("embedding_bags", embedding_bags_reference, "CompositeExplicitAutograd")
LIBRARY.impl("embedding_bags", _embedding_bags_cpu, "CPU")
LIBRARY.impl("embedding_bags", _embedding_bags_cuda, "CUDA")
LIBRARY.impl("embedding_bags", _embedding_bags_autograd, "Autograd")
torch.library.register_fake("tetrarec::embedding_bags", _embedding_bags_fake, lib=LIBRARY)
