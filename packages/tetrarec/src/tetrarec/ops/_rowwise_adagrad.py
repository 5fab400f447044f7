"""Row-wise Adagrad inside the backward pass of a table-batched lookup.

``tetrarec::rowwise_adagrad_`` updates weights and state in place and says so in its schema, so that
torch.compile keeps it. ``tetrarec::embedding_bags_rowwise_adagrad`` is the lookup whose backward pass calls
it.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tetrarec._torch_compat import below_autograd
from tetrarec.ops._embedding_bags import embedding_bags_reference, pool
from tetrarec.ops._layout import layout_of, plan
from tetrarec.ops._library import LIBRARY
from tetrarec.ops._run_sums import table_gradients_reference, touched_rows

_LOOKUP = (
    "Tensor indices, Tensor offsets, Tensor? per_sample_weights, int[] rows, int[] dims, int[] feature_tables, "
    "int[] feature_keys, SymInt[] batch_sizes, bool mean"
)
LIBRARY.define(
    "rowwise_adagrad_(Tensor(a!) weights, Tensor(b!) state, Tensor learning_rate, float eps, Tensor grad, "
    f"{_LOOKUP}) -> ()",
    tags=torch.Tag.pt2_compliant_tag,
)
LIBRARY.define(
    "embedding_bags_rowwise_adagrad(Tensor anchor, Tensor weights, Tensor state, Tensor learning_rate, float eps, "
    f"bool check_ids, {_LOOKUP}) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)


def rowwise_adagrad_reference(
    weights: Tensor, state: Tensor, learning_rate: Tensor, eps: float, grad: Tensor, *lookup: Any
) -> None:
    """What rowwise_adagrad_ means, on whole tables; any dtype, any device.

    With g the gradient of a row, its duplicates in the batch summed, and D the width of the table:
    state += mean(g ** 2), weights -= learning_rate * g / (sqrt(state) + eps). Rows that the batch doesn't
    touch have g = 0 and stay.

    Source: Duchi et al. 2011 (Adagrad), one accumulator a row as in Naumov et al. 2019 (arXiv:1906.00091).
    """
    layout, _ = plan(*lookup)
    flat = table_gradients_reference(grad.to(state.dtype), *lookup)
    tables = zip(layout.tables(weights), layout.table_states(state), layout.tables(flat), strict=True)
    for table, sums, gradient in tables:
        sums += gradient.square().mean(1)
        step = learning_rate.to(state.dtype) * gradient / (sums.sqrt() + eps).unsqueeze(1)
        table.copy_(table.to(state.dtype) - step)


def _rowwise_adagrad_cpu(
    weights: Tensor, state: Tensor, learning_rate: Tensor, eps: float, grad: Tensor, *lookup: Any
) -> None:
    layout, batch = plan(*lookup)
    rate = learning_rate.item()
    for runs in touched_rows(layout, grad, batch):
        group = runs.group
        matrix, states = group.matrix(weights), state.narrow(0, group.first_row, group.rows)
        current = states.index_select(0, runs.rows)
        for span, sums in runs.sums():
            norm = torch.linalg.vector_norm(sums, dim=1)
            root = current[span].addcmul_(norm, norm, value=1 / group.dim).sqrt()
            sums *= torch.div(-rate, root.add_(eps)).unsqueeze(1)
            rows = runs.rows[span]
            if matrix.dtype == sums.dtype:
                matrix.index_add_(0, rows, sums)
            else:  # a narrow row is widened, moved and rounded once
                matrix[rows] = sums.add_(matrix[rows]).to(matrix.dtype)
        states.index_copy_(0, runs.rows, current)


def _rowwise_adagrad_cuda(
    weights: Tensor, state: Tensor, learning_rate: Tensor, eps: float, grad: Tensor, *lookup: Any
) -> None:
    from tetrarec.ops._run_sums_triton import launch  # noqa: PLC0415  (triton: seconds to import, absent on CPU)

    layout, batch = plan(*lookup)
    launch(layout, grad, batch, weights, state, learning_rate, eps)
    torch.autograd.graph.increment_version([weights, state])


def _rowwise_adagrad_fake(*_: Any) -> None:
    return None


_Front = tuple[
    Tensor, Tensor, Tensor, Tensor, float, bool
]  # anchor, weights, state, learning rate, eps, check_ids


def _parts(arguments: tuple[Any, ...]) -> tuple[_Front, tuple[Any, ...]]:
    return arguments[:6], arguments[6:]


def _lookup_reference(*arguments: Any) -> Tensor:
    (_, weights, *_), lookup = _parts(arguments)
    indices, offsets, samples, rows, dims, *rest = lookup
    return embedding_bags_reference(
        layout_of(rows, dims, *rest[:2]).tables(weights), indices, offsets, samples, *rest
    )


def _lookup_cpu(*arguments: Any) -> Tensor:
    (_, weights, *_, check_ids), lookup = _parts(arguments)
    layout, batch = plan(*lookup)
    return pool(layout, [group.matrix(weights) for group in layout.groups], batch, check_ids)


def _lookup_cuda(*arguments: Any) -> Tensor:
    from tetrarec.ops._embedding_bags_triton import launch  # noqa: PLC0415  (triton: seconds to import, absent on CPU)

    (_, weights, *_), lookup = _parts(arguments)
    layout, batch = plan(*lookup)
    return launch(layout, [group.matrix(weights) for group in layout.groups], batch)


def _lookup_fake(*arguments: Any) -> Tensor:
    (_, weights, *_), lookup = _parts(arguments)
    layout, batch = plan(*lookup)
    return weights.new_empty(batch.output_shape(layout))


class _RowwiseAdagrad(torch.autograd.Function):
    """The lookup, with the update in place of a gradient of the weights.

    ``anchor`` alone requires a gradient and gets none: it makes autograd call backward. The weights are held
    by the context rather than saved: two lookups in one step update twice, which a check of versions would
    take for a mistake.
    """

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, *rest: Any) -> Tensor:
        *ctx.optimizer, _, indices, offsets, samples = rest[:8]
        ctx.lookup = rest[8:]
        ctx.save_for_backward(indices, offsets, samples)
        with below_autograd():
            return torch.ops.tetrarec.embedding_bags_rowwise_adagrad(anchor, *rest)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        indices, offsets, samples = ctx.saved_tensors
        sample_grad = None
        if ctx.needs_input_grad[8]:
            layout, _ = plan(indices, offsets, samples, *ctx.lookup)
            tables = layout.tables(ctx.optimizer[0])
            sample_grad = torch.ops.tetrarec.sample_weight_gradients(
                grad, tables, indices, offsets, samples, *ctx.lookup[2:]
            )
        torch.ops.tetrarec.rowwise_adagrad_(*ctx.optimizer, grad, indices, offsets, samples, *ctx.lookup)
        return *(None,) * 8, sample_grad, *(None,) * 6


def _lookup_autograd(anchor: Tensor, *rest: Any) -> Tensor:
    if torch.is_grad_enabled():
        return _RowwiseAdagrad.apply(anchor, *rest)
    with below_autograd():
        return torch.ops.tetrarec.embedding_bags_rowwise_adagrad(anchor, *rest)


LIBRARY.impl("rowwise_adagrad_", rowwise_adagrad_reference, "CompositeExplicitAutograd")
LIBRARY.impl("rowwise_adagrad_", _rowwise_adagrad_cpu, "CPU")
LIBRARY.impl("rowwise_adagrad_", _rowwise_adagrad_cuda, "CUDA")
torch.library.register_fake("tetrarec::rowwise_adagrad_", _rowwise_adagrad_fake, lib=LIBRARY)
LIBRARY.impl("embedding_bags_rowwise_adagrad", _lookup_reference, "CompositeExplicitAutograd")
LIBRARY.impl("embedding_bags_rowwise_adagrad", _lookup_cpu, "CPU")
LIBRARY.impl("embedding_bags_rowwise_adagrad", _lookup_cuda, "CUDA")
LIBRARY.impl("embedding_bags_rowwise_adagrad", _lookup_autograd, "Autograd")
torch.library.register_fake("tetrarec::embedding_bags_rowwise_adagrad", _lookup_fake, lib=LIBRARY)
