"""Embedding bags of many tables, updated inside the backward pass."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tetrarec.modules._configs import EmbeddingBagConfig
from tetrarec.modules._lookup import pool_batch
from tetrarec.modules._tables import TablePlan, check_tables
from tetrarec.optim import FusedOptimizer, RowWiseAdagrad
from tetrarec.sparse import KeyedJaggedTensor, KeyedTensor
from tetrarec.tbe import TableBatchedEmbeddingBags

OPTIONS = {"lr": "learning_rate", "eps": "eps"}


class _Table(nn.Module):
    """Holds the weight of one table under its name."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}, dtype={self.weight.dtype}"


class FusedEmbeddingBagCollection(nn.Module):
    """An EmbeddingBagCollection without gradients: backward itself moves the rows that the batch touched.

    The parameters ``embedding_bags.<table>.weight`` require no gradient, so that an optimizer of the rest of
    the model passes them by. Saving and loading the module keeps the weights; the accumulators are in
    ``fused_optimizer().state_dict()``.

    Args:
        tables: as for an EmbeddingBagCollection.
        optimizer_type: :class:`tetrarec.optim.RowWiseAdagrad`; exact: gradients of a row that occurs several
            times in a batch are summed before its update.
        optimizer_kwargs: ``lr``, by default 0.01, and ``eps``, by default 1e-8 (``torch.optim.Adagrad`` has
            1e-10).
        is_weighted: multiply each row by the batch's weight for it; the weights may require a gradient.
        device: of weights and accumulators.

    Raises:
        ValueError: tables that no collection can be made of.
        TypeError: another optimizer, or an option that the fused update doesn't have.

    Example:
        >>> tables = [EmbeddingBagConfig(num_embeddings=4, embedding_dim=2, name="films", feature_names=["film"],
        ...                              init_fn=torch.nn.init.zeros_)]
        >>> bags = FusedEmbeddingBagCollection(tables, RowWiseAdagrad, {"lr": 0.5})
        >>> batch = KeyedJaggedTensor(["film"], torch.tensor([0, 3, 3]), lengths=torch.tensor([2, 1]))
        >>> bags(batch).values().sum().backward()
        >>> bags.embedding_bags["films"].weight.detach()[3]
        tensor([-0.5000, -0.5000])
        >>> bags.fused_optimizer().param_groups[0]["lr"] = 0.1
    """

    def __init__(
        self,
        tables: Sequence[EmbeddingBagConfig],
        optimizer_type: type[Optimizer],
        optimizer_kwargs: dict[str, Any],
        is_weighted: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        check_tables("FusedEmbeddingBagCollection", tables)
        options = _options(optimizer_type, optimizer_kwargs)
        self._tables = list(tables)
        self._optimizer_type = optimizer_type
        self._optimizer_kwargs = dict(optimizer_kwargs)
        self._is_weighted = is_weighted
        self._plan = TablePlan(tables)
        # A tuple, which nn.Module doesn't look into: the tables below are what is seen and saved.
        self._tbes = tuple(
            TableBatchedEmbeddingBags(
                list(zip(group.layout.rows, group.layout.dims, strict=True)),
                group.feature_tables,
                pooling=group.pooling.value.lower(),
                dtype=group.dtype,
                device=device,
                **options,
            )
            for group in self._plan.groups
        )
        weights = dict(self._views())
        self.embedding_bags = nn.ModuleDict({
            table.name: _Table(nn.Parameter(weights[place], requires_grad=False))
            for place, table in enumerate(tables)
        })
        self._optimizer = self._make_optimizer()
        self.register_load_state_dict_post_hook(_adopt)
        self.reset_parameters()

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Look a batch up; backward of the result updates the tables.

        Args:
            features: ids for every feature of the tables; other keys are left alone. Where it has
                ``inverse_indices``, each distinct bag is looked up, and updated, once.

        Returns:
            ``[B, sum of dims]``; keys as in an EmbeddingBagCollection.

        Raises:
            KeyError: a feature that the batch lacks.
            TypeError: values that are no ids.
            ValueError: ``is_weighted`` and the batch has no weights.
            IndexError: an id outside its table (CPU; on a GPU it contributes nothing).
        """
        indices, offsets = features.values(), features.offsets()
        samples = features.weights() if self._is_weighted else None

        def pool(place: int, feature_keys: list[int], batch_sizes: list[int]) -> Tensor:
            return self._tbes[place].lookup(indices, offsets, samples, feature_keys, batch_sizes)

        return pool_batch("FusedEmbeddingBagCollection", self._plan, features, pool)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw every table anew, as its configuration says; the accumulators stay."""
        for place, table in enumerate(self._tables):
            weight = self._weight(place)
            if table.init_fn is not None:
                table.init_fn(weight)
            else:
                weight.uniform_(table.get_weight_init_min(), table.get_weight_init_max())

    def fused_optimizer(self) -> FusedOptimizer:
        """State and settings of the updates, as an optimizer whose step does nothing."""
        return self._optimizer

    def set_learning_rate(self, learning_rate: float) -> None:
        """Use this learning rate from the next backward pass on."""
        for tbe in self._tbes:
            tbe.set_learning_rate(learning_rate)

    def optimizer_type(self) -> type[Optimizer]:
        """The optimizer that runs inside backward."""
        return self._optimizer_type

    def optimizer_kwargs(self) -> dict[str, Any]:
        """The options that it was given."""
        return self._optimizer_kwargs

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """The tables' configurations."""
        return self._tables

    def is_weighted(self) -> bool:
        """Whether rows are multiplied by the batch's weights."""
        return self._is_weighted

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self._tbes[0].weights.device

    def extra_repr(self) -> str:
        """The optimizer in a line."""
        return f"{self._optimizer_type.__name__}({self._optimizer_kwargs}) in backward"

    def _weight(self, place: int) -> nn.Parameter:
        return self.embedding_bags[self._tables[place].name].weight

    def _views(self) -> list[tuple[int, Tensor]]:
        return [
            pair
            for group, tbe in zip(self._plan.groups, self._tbes, strict=True)
            for pair in zip(group.tables, tbe.split_embedding_weights(), strict=True)
        ]

    def _make_optimizer(self) -> FusedOptimizer:
        groups = zip(self._plan.groups, self._tbes, strict=True)
        names = [([f"{self._tables[t].name}.weight" for t in group.tables], tbe) for group, tbe in groups]
        return FusedOptimizer(names, self._group_weights())

    def _group_weights(self) -> list[list[nn.Parameter]]:
        return [[self._weight(table) for table in group.tables] for group in self._plan.groups]

    @torch.no_grad()
    def bind(self, adopt: bool = False) -> None:
        """Make the named parameters views of the buffers again, after either was moved or replaced.

        Args:
            adopt: first copy the values of parameters that lie elsewhere into the buffers.
        """
        for place, view in self._views():
            weight = self._weight(place)
            if adopt and weight.data_ptr() != view.data_ptr():
                view.copy_(weight)
            if weight.is_meta == view.is_meta:
                weight.data = view
                weight.requires_grad_(False)
            else:  # a tensor can't change between these kinds
                self.embedding_bags[self._tables[place].name].weight = nn.Parameter(view, requires_grad=False)
        self._optimizer.bind(self._group_weights())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "FusedEmbeddingBagCollection":
        for tbe in self._tbes:
            tbe._apply(fn, recurse)  # noqa: SLF001  (nn.Module's own protocol)
        self.bind()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_optimizer"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._optimizer = self._make_optimizer()
        self.bind()


def _adopt(module: FusedEmbeddingBagCollection, _: Any) -> None:
    """After load_state_dict: with ``assign=True`` the parameters are new ones."""
    module.bind(adopt=True)


def _options(optimizer_type: type[Optimizer], optimizer_kwargs: dict[str, Any]) -> dict[str, Any]:
    where = "FusedEmbeddingBagCollection"
    if optimizer_type is not RowWiseAdagrad:
        raise TypeError(
            f"{where}: optimizer_type must be tetrarec.optim.RowWiseAdagrad, got {optimizer_type}"
        )
    unknown = sorted(set(optimizer_kwargs) - set(OPTIONS))
    if unknown:
        raise TypeError(
            f"{where}: optimizer_kwargs may hold {', '.join(OPTIONS)}, got {', '.join(unknown)} as well"
        )
    return {OPTIONS[name]: value for name, value in optimizer_kwargs.items()}
