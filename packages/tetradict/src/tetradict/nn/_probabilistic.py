"""Modules that draw an entry from a distribution over it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, TransformedDistribution

from tetradict._base import TensorDictBase
from tetradict._protocol import NestedKey
from tetradict.nn._dispatch import with_tensors
from tetradict.nn._interaction import InteractionType, interaction_type
from tetradict.nn._keys import as_keys, path, read
from tetradict.nn._module import TensorDictModuleBase
from tetradict.nn._sequential import TensorDictSequential


class ProbabilisticTensorDictModule(TensorDictModuleBase):
    """Build a distribution from its parameters in a collection and write a value of it.

    Which value is said by set_interaction_type or, outside of it, by ``default_interaction_type``.

    Args:
        in_keys: the entries that hold the parameters. The last level of each key is the keyword of the distribution
            that it goes to; a dict from keywords to entries says it otherwise.
        out_keys: the one entry that the value is written to.
        default_interaction_type: what to take while nothing else is set.
        distribution_class: called with the parameters by keyword; a ``torch.distributions.Distribution`` or its like.
        distribution_kwargs: further keywords for it, the same at every call.
        return_log_prob: also write the log-probability of the value, and list its key in ``out_keys``.
        log_prob_key: where to; the value's key with ``_log_prob`` behind it when left out.
        n_empirical_estimate: number of draws that stand for a mean that the distribution can't tell.

    Raises:
        KeyError: a parameter is missing; the message says which, and what there is.

    Example:
        >>> policy = ProbabilisticTensorDictModule(
        ...     in_keys=["loc", "scale"], out_keys=["action"], distribution_class=torch.distributions.Normal
        ... )
        >>> data = TensorDict({"loc": torch.zeros(2), "scale": torch.ones(2)}, [2])
        >>> policy(data)["action"]
        tensor([0., 0.])
    """

    def __init__(
        self,
        in_keys: NestedKey | Iterable[NestedKey] | Mapping[str, NestedKey],
        out_keys: NestedKey | Iterable[NestedKey],
        *,
        default_interaction_type: InteractionType | str = InteractionType.DETERMINISTIC,
        distribution_class: Callable[..., Distribution],
        distribution_kwargs: Mapping[str, Any] | None = None,
        return_log_prob: bool = False,
        log_prob_key: NestedKey | None = None,
        n_empirical_estimate: int = 1000,
    ) -> None:
        super().__init__()
        if isinstance(in_keys, Mapping):
            self._parameters_names = tuple(in_keys)
            in_keys = list(in_keys.values())
        else:
            in_keys = as_keys(in_keys)
            self._parameters_names = tuple(path(key)[-1] for key in in_keys)
        self.in_keys = as_keys(in_keys)
        out_keys = as_keys(out_keys)
        if len(out_keys) != 1:
            raise ValueError(f"{type(self).__name__}: expected one out_key for the value, got {out_keys}")
        (self._value_key,) = out_keys
        self.log_prob_key = _log_prob_key(self._value_key) if log_prob_key is None else log_prob_key
        self.return_log_prob = return_log_prob
        self.out_keys = [self._value_key, self.log_prob_key] if return_log_prob else [self._value_key]
        if isinstance(default_interaction_type, str):
            default_interaction_type = InteractionType.from_str(default_interaction_type)
        self.default_interaction_type = default_interaction_type
        self.distribution_class = distribution_class
        self.distribution_kwargs = dict(distribution_kwargs or {})
        self.n_empirical_estimate = n_empirical_estimate

    @property
    def dist_params_keys(self) -> list[NestedKey]:
        """The entries that hold the parameters."""
        return self.in_keys

    @property
    def dist_sample_keys(self) -> list[NestedKey]:
        """The entries that hold values of the distribution."""
        return [self._value_key]

    def get_dist(self, tensordict: TensorDictBase) -> Distribution:
        """The distribution with the parameters in ``tensordict``."""
        parameters = zip(self._parameters_names, read(self, tensordict, self.in_keys), strict=True)
        return self.distribution_class(**dict(parameters), **self.distribution_kwargs)

    build_dist_from_params = get_dist

    def log_prob(self, tensordict: TensorDictBase, *, dist: Distribution | None = None) -> Tensor:
        """The log-probability of the value in ``tensordict``, under ``dist`` or the parameters there."""
        dist = self.get_dist(tensordict) if dist is None else dist
        (value,) = read(self, tensordict, [self._value_key])
        return dist.log_prob(value)

    def forward(
        self,
        tensordict: TensorDictBase | None = None,
        *args: Any,
        tensordict_out: TensorDictBase | None = None,
        **kwargs: Any,
    ) -> Any:
        """Write the value, and its log-probability if that was asked for. Takes tensors too, see TensorDictModule."""
        if not isinstance(tensordict, TensorDictBase):
            return with_tensors(self, tensordict, args, kwargs)
        dist = self.get_dist(tensordict)
        value = take(dist, interaction_type() or self.default_interaction_type, self.n_empirical_estimate)
        tensordict_out = tensordict if tensordict_out is None else tensordict_out
        tensordict_out.set(self._value_key, value)
        if self.return_log_prob:
            tensordict_out.set(self.log_prob_key, dist.log_prob(value))
        return tensordict_out

    def extra_repr(self) -> str:
        """What stands in the repr."""
        name = getattr(self.distribution_class, "__name__", self.distribution_class)
        return f"in_keys={self.in_keys}, out_keys={self.out_keys}, distribution_class={name}"


class ProbabilisticTensorDictSequential(TensorDictSequential):
    """A sequence that ends in a distribution: the modules before it compute its parameters.

    Args:
        modules: as for TensorDictSequential; the last is a ProbabilisticTensorDictModule.
        selected_out_keys: the entries to write; all when left out.
        inplace: as for TensorDictSequential.

    Raises:
        TypeError: the last module is none that builds a distribution.
    """

    def __init__(
        self,
        *modules: nn.Module,
        selected_out_keys: Iterable[NestedKey] | None = None,
        inplace: bool | None = None,
    ) -> None:
        last = modules[-1] if modules else None
        if not isinstance(last, (ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential)):
            raise TypeError(
                f"{type(self).__name__}: the last module must be a ProbabilisticTensorDictModule, "
                f"got {type(last).__name__}; for a sequence without a distribution use TensorDictSequential"
            )
        super().__init__(*modules, selected_out_keys=selected_out_keys, inplace=inplace)

    def _of(self, modules: Iterable[nn.Module]) -> TensorDictSequential:
        modules = list(modules)
        if modules and isinstance(
            modules[-1], (ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential)
        ):
            return ProbabilisticTensorDictSequential(*modules, inplace=self.inplace)
        return super()._of(modules)

    @property
    def det_part(self) -> TensorDictSequential:
        """All but the last module."""
        return super()._of(self.module[:-1])

    @property
    def default_interaction_type(self) -> InteractionType:
        """What the distribution's module takes while nothing else is set."""
        return self.module[-1].default_interaction_type

    @property
    def log_prob_key(self) -> NestedKey:
        """Where the log-probability of the value is written."""
        return self.module[-1].log_prob_key

    @property
    def dist_params_keys(self) -> list[NestedKey]:
        """The entries that hold the parameters."""
        return self.module[-1].dist_params_keys

    @property
    def dist_sample_keys(self) -> list[NestedKey]:
        """The entries that hold values of the distribution."""
        return self.module[-1].dist_sample_keys

    def get_dist_params(self, tensordict: TensorDictBase) -> TensorDictBase:
        """A copy of ``tensordict`` (its tensors are shared) with what all but the last module write."""
        out = tensordict.copy()
        for module in list(self.module)[:-1]:  # a slice of the ModuleList would be a new one
            out = module(out)
        return out

    def get_dist(self, tensordict: TensorDictBase) -> Distribution:
        """The distribution over the value; ``tensordict`` is left alone."""
        return self.module[-1].get_dist(self.get_dist_params(tensordict))

    def build_dist_from_params(self, tensordict: TensorDictBase) -> Distribution:
        """The distribution with the parameters already in ``tensordict``."""
        return self.module[-1].build_dist_from_params(tensordict)

    def log_prob(self, tensordict: TensorDictBase, *, dist: Distribution | None = None) -> Tensor:
        """The log-probability of the value in ``tensordict``, under ``dist`` or the modules' own distribution."""
        dist = self.get_dist(tensordict) if dist is None else dist
        return self.module[-1].log_prob(tensordict, dist=dist)


def take(dist: Distribution, kind: InteractionType, draws: int) -> Tensor:
    """A value of ``dist`` of the given kind; ``draws`` stand for a mean that it can't tell.

    Raises:
        ValueError: the distribution has no median.
        NotImplementedError: from torch, when it has no mode.
    """
    if kind is InteractionType.RANDOM:
        return dist.rsample() if dist.has_rsample else dist.sample()
    if kind is InteractionType.MEAN:
        mean = _mean(dist)
        return dist.sample((draws,)).mean(0) if mean is None else mean
    if kind is InteractionType.DETERMINISTIC:
        return _best(dist)
    return dist.mode if kind is InteractionType.MODE else _median(dist)


def _log_prob_key(key: NestedKey) -> NestedKey:
    *nodes, name = path(key)
    return (*nodes, f"{name}_log_prob") if nodes else f"{name}_log_prob"


def _mean(dist: Distribution) -> Tensor | None:
    try:
        return dist.mean
    except NotImplementedError:
        return None


def _median(dist: Distribution) -> Tensor:
    own = getattr(dist, "median", None)
    if own is not None:
        return own
    try:
        return dist.icdf(torch.tensor(0.5))
    except NotImplementedError as error:
        raise ValueError(f"{type(dist).__name__} has no median; set another interaction type") from error


def _best(dist: Distribution) -> Tensor:
    """What the distribution itself offers, else the mode of a discrete one, the mean of a continuous one.

    A transformed distribution without a mean gives what becomes of the best value of its base.
    """
    own = getattr(dist, "deterministic_sample", None)
    if own is not None:
        return own
    for name in ("mode", "mean") if dist.support.is_discrete else ("mean", "mode"):
        try:
            return getattr(dist, name)
        except NotImplementedError:
            pass
    if not isinstance(dist, TransformedDistribution):
        raise ValueError(f"{type(dist).__name__} has neither mean nor mode; set another interaction type")
    value = _best(dist.base_dist)
    for transform in dist.transforms:
        value = transform(value)
    return value
