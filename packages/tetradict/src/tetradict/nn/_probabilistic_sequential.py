"""Sequences of modules among which some draw from a distribution."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from torch import Size, Tensor, nn
from torch.distributions import Distribution

from tetradict._base import TensorDictBase
from tetradict._protocol import NestedKey
from tetradict.nn._composite import CompositeDistribution
from tetradict.nn._interaction import InteractionType
from tetradict.nn._probabilistic import ProbabilisticTensorDictModule
from tetradict.nn._sequential import TensorDictSequential


class ProbabilisticTensorDictSequential(TensorDictSequential):
    """A sequence with a distribution: usually the last module draws, and those before compute its parameters.

    Args:
        modules: as for TensorDictSequential. Without a ProbabilisticTensorDictModule among them it is one.
        partial_tolerant: as for TensorDictSequential.
        return_composite: let ``get_dist`` give one CompositeDistribution over the values of all modules that draw, each
            given the values of those before, rather than the distribution of the last module. When left out: if more
            than one module draws, or the last does not.
        selected_out_keys: the entries to write; all when left out.
        inplace: as for TensorDictSequential.

    Raises:
        ValueError: ``return_composite`` is ``False`` and the last module doesn't draw.
    """

    def __init__(
        self,
        *modules: nn.Module | Callable[..., Any] | Mapping[str, Any],
        partial_tolerant: bool = False,
        return_composite: bool | None = None,
        selected_out_keys: Iterable[NestedKey] | None = None,
        inplace: bool | Literal["empty"] | None = None,
    ) -> None:
        selected = {} if selected_out_keys is None else {"selected_out_keys": selected_out_keys}
        super().__init__(*modules, partial_tolerant=partial_tolerant, inplace=inplace, **selected)
        parts = list(self._parts())
        drawing = [part for part in parts if _draws(part)]
        last_draws = bool(parts) and _draws(parts[-1])
        if return_composite is None:
            return_composite = len(drawing) > 1 or not last_draws
        elif not return_composite and not last_draws:
            raise ValueError(
                f"{type(self).__name__}: the last module must draw for return_composite=False, got a "
                f"{type(parts[-1]).__name__ if parts else 'sequence without modules'}; leave return_composite out"
            )
        self.return_composite = return_composite

    def _of(self, items: Iterable[tuple[str, nn.Module]]) -> TensorDictSequential:
        items = list(items)
        if not (self.return_composite and any(_draws(part) for _, part in items)) and not (
            items and _draws(items[-1][1])
        ):
            return super()._of(items)
        return ProbabilisticTensorDictSequential(*self._arguments(items), **self._options())

    def _drawing(self) -> list[Any]:
        """The modules whose values the distribution is over."""
        parts = [part for part in self._parts() if _draws(part)]
        if not parts:
            raise RuntimeError(
                f"{type(self).__name__}: none of the modules draws, so there is no distribution; "
                "add a ProbabilisticTensorDictModule"
            )
        return parts if self.return_composite else parts[-1:]

    @property
    def det_part(self) -> TensorDictSequential:
        """All but the last module."""
        items = list(self._items())[:-1]
        return TensorDictSequential(*self._arguments(items), **self._options())

    @property
    def default_interaction_type(self) -> InteractionType | None:
        """What the last module that draws takes while nothing else is set; ``None`` without one."""
        parts = [part for part in self._parts() if _draws(part)]
        return parts[-1].default_interaction_type if parts else None

    @property
    def log_prob_keys(self) -> list[NestedKey]:
        """Where the log-probabilities of the values are written."""
        return [key for part in self._drawing() for key in part.log_prob_keys]

    @property
    def log_prob_key(self) -> NestedKey:
        """Where the log-probability of the last value is written."""
        return self._drawing()[-1].log_prob_key

    @property
    def dist_params_keys(self) -> list[NestedKey]:
        """The entries that hold the parameters."""
        return [key for part in self._drawing() for key in part.dist_params_keys]

    @property
    def dist_sample_keys(self) -> list[NestedKey]:
        """The entries that hold values of the distribution."""
        return [key for part in self._drawing() for key in part.dist_sample_keys]

    @property
    def num_samples(self) -> Size:
        """How many values are drawn: the shape of the new leading dimensions."""
        return Size([size for part in reversed(self._drawing()) for size in part.num_samples])

    def get_dist_params(
        self, tensordict: TensorDictBase, tensordict_out: TensorDictBase | None = None, **kwargs: Any
    ) -> TensorDictBase:
        """A copy of ``tensordict`` (its tensors are shared) with what all but the last module write.

        Args:
            tensordict: the input.
            tensordict_out: take this in place of a copy.
            kwargs: passed on to the modules.
        """
        out = tensordict.copy()
        for module in list(self._parts())[:-1]:  # a slice of the ModuleList would be a new one
            out = module(out, **kwargs)
        return out if tensordict_out is None else tensordict_out.update(out)

    def get_dist(
        self, tensordict: TensorDictBase, tensordict_out: TensorDictBase | None = None, **kwargs: Any
    ) -> Distribution:
        """The distribution over the values; ``tensordict`` is left alone.

        Values of earlier modules that are in ``tensordict`` are taken from there; others are drawn.

        Args:
            tensordict: the input.
            tensordict_out: where parameters and drawn values are written, if anywhere.
            kwargs: passed on to the modules.
        """
        if not self.return_composite:
            return self._drawing()[-1].get_dist(self.get_dist_params(tensordict, tensordict_out, **kwargs))
        self._drawing()
        work, dists = tensordict.copy(), {}
        for module in self._parts():
            if not _draws(module):
                work = module(work, **kwargs)
                continue
            dist = module.get_dist(work)
            keys = module.dist_sample_keys
            dists |= dist.dists if isinstance(dist, CompositeDistribution) else {keys[0]: dist}
            if not all(key in work for key in keys):
                work = module(work)
        if tensordict_out is not None:
            tensordict_out.update(work)
        return CompositeDistribution.from_distributions(work, dists)

    def build_dist_from_params(self, tensordict: TensorDictBase) -> Distribution:
        """The distribution with the parameters already in ``tensordict``."""
        parts = self._drawing()
        if not self.return_composite:
            return parts[-1].build_dist_from_params(tensordict)
        dists = {}
        for module in parts:
            dist = module.build_dist_from_params(tensordict)
            composite = isinstance(dist, CompositeDistribution)
            dists |= dist.dists if composite else {module.dist_sample_keys[0]: dist}
        return CompositeDistribution.from_distributions(tensordict, dists)

    def log_prob(
        self,
        tensordict: TensorDictBase,
        tensordict_out: TensorDictBase | None = None,
        *,
        dist: Distribution | None = None,
        **kwargs: Any,
    ) -> Tensor | TensorDictBase:
        """The log-probability of the values in ``tensordict``, under ``dist`` or the modules' own distribution."""
        dist = self.get_dist(tensordict, tensordict_out, **kwargs) if dist is None else dist
        if isinstance(dist, CompositeDistribution):
            return dist.log_prob(tensordict)
        return self._drawing()[-1].log_prob(tensordict, dist=dist)


def _draws(module: Any) -> bool:
    if isinstance(module, ProbabilisticTensorDictSequential):
        return any(_draws(part) for part in module)
    return isinstance(module, ProbabilisticTensorDictModule)
