"""Many embedding tables in one buffer, looked up together and updated inside the backward pass."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from tetrarec.ops._embedding_bags import check_batch
from tetrarec.ops._layout import Layout, layout_of

DEFAULT_EPS = 1e-8


class TableBatchedEmbeddingBags(nn.Module):
    """Pooled lookups over many tables, with exact row-wise Adagrad inside ``backward``.

    ``out.backward(...)`` moves the rows that the batch touched; there is no gradient of the weights and no
    optimizer to step. Exact means that the gradients of a row that occurs several times in the batch are
    summed before its update:

        state += mean(g ** 2);  weights -= learning_rate * g / (sqrt(state) + eps)

    Two lookups in one step make two updates, each from its own gradient.

    Args:
        embedding_specs: ``(rows, dim)`` of each table.
        feature_table_map: the table that each feature reads; by default feature f reads table f.
        pooling: "sum" or "mean"; a mean divides by the length of the bag, weighted or not.
        learning_rate: of the updates; see :meth:`set_learning_rate`.
        eps: added to the root of the state. The default is 1e-8, as in the established fused kernels;
            ``torch.optim.Adagrad`` has 1e-10.
        check_ids: refuse ids outside their table on the CPU. Without the check such an id may read and move a
            row of the table beside it. A GPU doesn't look: there such an id contributes nothing.
        dtype: of the weights: float32, float64, float16 or bfloat16. Narrow rows are widened to float32 for
            the update and rounded to nearest, so that steps under half a unit of the last place are lost.
        device: of weights and state.

    Attributes:
        weights: all tables end to end, ``[numel]``; a parameter that requires no gradient. Tables of one dim
            are neighbours.
        row_state: the accumulator of each row, ``[sum of rows]``, float32, or float64 beside float64 weights.
        learning_rate: 0-d, in the dtype of the state and on its device, so that changing it recompiles
            nothing.

    Raises:
        ValueError: sizes that are no sizes, a feature without a table, an unknown pooling.

    Example:
        >>> tbe = TableBatchedEmbeddingBags([(4, 2), (3, 2)], learning_rate=0.5)
        >>> tbe.init_embedding_weights_uniform(0.0, 0.0)
        >>> out = tbe(torch.tensor([1, 2]), torch.tensor([0, 1, 2]))
        >>> out.sum().backward()
        >>> tbe.split_embedding_weights()[0][1]
        tensor([-0.5000, -0.5000])

    Source: Duchi et al. 2011 for Adagrad; one accumulator a row as in Naumov et al. 2019 (arXiv:1906.00091).
    """

    def __init__(
        self,
        embedding_specs: Sequence[tuple[int, int]],
        feature_table_map: Sequence[int] | None = None,
        *,
        pooling: str = "sum",
        learning_rate: float = 0.01,
        eps: float = DEFAULT_EPS,
        check_ids: bool = True,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        features = list(range(len(embedding_specs)) if feature_table_map is None else feature_table_map)
        _check(embedding_specs, features, pooling, eps, dtype)
        self.rows = [rows for rows, _ in embedding_specs]
        self.dims = [dim for _, dim in embedding_specs]
        self.feature_table_map = features
        self.pooling = pooling
        self.eps = float(eps)
        self.check_ids = check_ids
        layout = self._layout()
        state_dtype = torch.promote_types(dtype, torch.float32)
        weights = torch.zeros(layout.numel, dtype=dtype, device=device)
        self.weights = nn.Parameter(weights, requires_grad=False)
        self.register_buffer("row_state", torch.zeros(sum(self.rows), dtype=state_dtype, device=device))
        rate = torch.tensor(float(learning_rate), dtype=state_dtype, device=device)
        self.register_buffer("learning_rate", rate)
        self._first_learning_rate = float(learning_rate)
        self._anchor = torch.zeros((), requires_grad=True)
        self.init_embedding_weights_uniform(-0.01, 0.01)

    def _layout(self) -> Layout:
        return layout_of(self.rows, self.dims, self.feature_table_map)

    def forward(self, indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None = None) -> Tensor:
        """Look up and pool; the backward pass of the result updates the tables.

        Args:
            indices: ids of all bags end to end, feature after feature, ``[N]``, int32 or int64. On the CPU an
                id outside its table is refused; on a GPU it contributes nothing and moves nothing.
            offsets: first id of each bag, then N: ``[F * B + 1]``, non-decreasing.
            per_sample_weights: a factor for each id, ``[N]``, floating; may require a gradient.

        Returns:
            ``[B, sum of the features' dims]`` in the dtype of the weights.

        Raises:
            ValueError: shapes that don't fit together.
            TypeError: ids or offsets that are no integers.
            IndexError: an id outside its table (CPU).
        """
        features = len(self.feature_table_map)
        check_batch("TableBatchedEmbeddingBags", indices, offsets, per_sample_weights, features)
        return self.lookup(indices, offsets, per_sample_weights, [], [(offsets.shape[0] - 1) // features])

    def lookup(
        self,
        indices: Tensor,
        offsets: Tensor,
        per_sample_weights: Tensor | None,
        feature_keys: list[int],
        batch_sizes: list[int],
    ) -> Tensor:
        """:meth:`forward` for ids that lie in another order than the features.

        Args:
            indices: ids, key after key.
            offsets: first id of each bag, then N.
            per_sample_weights: as in :meth:`forward`.
            feature_keys: the key that holds each feature's ids; empty: feature f reads key f.
            batch_sizes: one number, the bags of every key; or one number a key, and the result is 1-D: the
                blocks ``[bags, dim]`` of the features, end to end.
        """
        return torch.ops.tetrarec.embedding_bags_rowwise_adagrad(
            self._anchor,
            self.weights,
            self.row_state,
            self.learning_rate,
            self.eps,
            self.check_ids,
            indices,
            offsets,
            per_sample_weights,
            self.rows,
            self.dims,
            self.feature_table_map,
            feature_keys,
            batch_sizes,
            self.pooling == "mean",
        )

    def split_embedding_weights(self) -> list[Tensor]:
        """Each table, ``[rows, dim]``, as a view: writing to it writes to the table."""
        return self._layout().tables(self.weights.detach())

    def split_optimizer_states(self) -> list[Tensor]:
        """The accumulators of each table, ``[rows]``, as views."""
        return self._layout().table_states(self.row_state)

    def set_learning_rate(self, learning_rate: float | Tensor) -> None:
        """Use this learning rate from the next backward pass on."""
        with torch.no_grad():
            self.learning_rate.fill_(learning_rate)

    def get_learning_rate(self) -> float:
        """The learning rate in use; on a GPU this waits for the device."""
        return self.learning_rate.item()

    @torch.no_grad()
    def init_embedding_weights_uniform(self, min_val: float, max_val: float) -> None:
        """Draw all weights uniformly from ``[min_val, max_val)``."""
        self.weights.uniform_(min_val, max_val)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "TableBatchedEmbeddingBags":
        before = {"row_state": self.row_state, "learning_rate": self.learning_rate}
        super()._apply(fn, recurse)
        wide = torch.promote_types(self.weights.dtype, torch.float32)
        if before["row_state"].is_meta and not self.row_state.is_meta:  # to_empty leaves what it makes unset
            self.row_state.zero_()
            self.set_learning_rate(self._first_learning_rate)
        for name, tensor in before.items():
            if getattr(self, name).dtype != wide:  # half() is meant for the weights
                setattr(self, name, tensor.to(getattr(self, name).device, wide))
        return self

    def extra_repr(self) -> str:
        """Tables, features and optimizer in a line."""
        sizes = ", ".join(f"{rows}x{dim}" for rows, dim in zip(self.rows[:6], self.dims, strict=False))
        more = f", and {len(self.rows) - 6} more" if len(self.rows) > 6 else ""
        return (
            f"tables=[{sizes}{more}], features={len(self.feature_table_map)}, pooling={self.pooling}, "
            f"row-wise Adagrad(eps={self.eps:g}), dtype={self.weights.dtype}"
        )


def _check(
    specs: Sequence[tuple[int, int]], features: list[int], pooling: str, eps: float, dtype: torch.dtype
) -> None:
    where = "TableBatchedEmbeddingBags"
    if not specs or any(len(spec) != 2 or spec[0] < 1 or spec[1] < 1 for spec in specs):
        raise ValueError(f"{where}: embedding_specs must hold (rows, dim), both positive, got {list(specs)}")
    if not features or not all(0 <= table < len(specs) for table in features):
        raise ValueError(f"{where}: feature_table_map must name tables 0 to {len(specs) - 1}, got {features}")
    if pooling not in {"sum", "mean"}:
        raise ValueError(f'{where}: pooling must be "sum" or "mean", got {pooling!r}')
    if not eps > 0:
        raise ValueError(
            f"{where}: eps must be positive, got {eps}; a row with zero gradient would divide by it"
        )
    if not dtype.is_floating_point:
        raise TypeError(f"{where}: dtype must be floating, got {dtype}")
