"""One distribution over several entries of a collection."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Size, Tensor
from torch.distributions import Distribution

from tetradict._base import TensorDictBase
from tetradict._entries import unravel_key
from tetradict._protocol import NestedKey
from tetradict._td import TensorDict
from tetradict.nn._interaction import InteractionType
from tetradict.nn._keys import beside
from tetradict.nn._settings import composite_lp_aggregate
from tetradict.nn._take import take


class CompositeDistribution(Distribution, Mapping):
    """Independent distributions over entries of a collection, each with its parameters in a nested collection.

    Values, log-probabilities and entropies are collections; the distributions themselves are reached by key. Input
    collections are left alone.

    Args:
        params: for each key of ``distribution_map`` a collection of the parameters, by their keyword. Its batch size
            is the batch shape.
        distribution_map: the class of the distribution of each entry.
        name_map: the key of each entry in values, where it is not that in ``distribution_map``.
        extra_kwargs: further keywords for the distribution of an entry.
        log_prob_key: where the sum of the log-probabilities goes (with composite_lp_aggregate); else each goes to the
            key of its entry with ``_log_prob`` behind it.
        entropy_key: where the sum of the entropies goes; likewise.

    Raises:
        KeyError: an entry has no parameters.

    Example:
        >>> params = TensorDict({"a": {"loc": torch.zeros(3), "scale": torch.ones(3)}, "b": {"logits": torch.zeros(3, 2)}}, [3])
        >>> dist = CompositeDistribution(params, {"a": torch.distributions.Normal, "b": torch.distributions.Categorical})
        >>> sorted(dist.log_prob(dist.sample()).keys())
        ['a_log_prob', 'b_log_prob']
    """

    def __init__(
        self,
        params: TensorDictBase,
        distribution_map: Mapping[NestedKey, Callable[..., Distribution]],
        *,
        name_map: Mapping[NestedKey, NestedKey] | None = None,
        extra_kwargs: Mapping[NestedKey, Mapping[str, Any]] | None = None,
        log_prob_key: NestedKey = "sample_log_prob",
        entropy_key: NestedKey = "entropy",
    ) -> None:
        extra = {unravel_key(key): kwargs for key, kwargs in (extra_kwargs or {}).items()}
        dists = {}
        for key, kind in distribution_map.items():
            key = unravel_key(key)
            if key not in params:
                raise KeyError(
                    f"CompositeDistribution: expected the parameters of {key!r} in params, got "
                    f"{list(params.keys(True))}"
                )
            dists[key] = kind(**dict(params.get(key).items()), **extra.get(key, {}))
        self._fill(params.batch_size, dists, name_map, log_prob_key, entropy_key)

    @classmethod
    def from_distributions(
        cls,
        params: TensorDictBase,
        distributions: Mapping[NestedKey, Distribution],
        *,
        name_map: Mapping[NestedKey, NestedKey] | None = None,
        log_prob_key: NestedKey = "sample_log_prob",
        entropy_key: NestedKey = "entropy",
    ) -> Self:
        """One distribution of ready ones.

        Args:
            params: says the batch shape; its entries are not read.
            distributions: the distribution of each entry.
            name_map: see the class, as for the others.
            log_prob_key: see the class.
            entropy_key: see the class.
        """
        self = cls.__new__(cls)
        dists = {unravel_key(key): dist for key, dist in distributions.items()}
        self._fill(params.batch_size, dists, name_map, log_prob_key, entropy_key)
        return self

    def _fill(
        self,
        batch_shape: Size,
        dists: dict[NestedKey, Distribution],
        name_map: Mapping[NestedKey, NestedKey] | None,
        log_prob_key: NestedKey,
        entropy_key: NestedKey,
    ) -> None:
        self._batch_shape, self._event_shape, self._validate_args = batch_shape, Size(), False
        names = {unravel_key(key): unravel_key(name) for key, name in (name_map or {}).items()}
        unknown = [key for key in names if key not in dists]
        if unknown:
            raise KeyError(f"CompositeDistribution: name_map has {unknown}, expected keys of {list(dists)}")
        self.dists = {names.get(key, key): dist for key, dist in dists.items()}
        self._log_prob_key, self._entropy_key = unravel_key(log_prob_key), unravel_key(entropy_key)

    # --- a mapping of distributions

    def __getitem__(self, key: NestedKey) -> Distribution:
        return self.dists[unravel_key(key)]

    def __iter__(self) -> Iterator[NestedKey]:
        return iter(self.dists)

    def __len__(self) -> int:
        return len(self.dists)

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __repr__(self) -> str:
        body = ", ".join(f"{key!r}: {dist}" for key, dist in self.dists.items())
        return f"CompositeDistribution({{{body}}}, batch_shape={self.batch_shape})"

    # --- values

    @property
    def log_prob_key(self) -> NestedKey:
        """Where the sum of the log-probabilities goes."""
        return self._log_prob_key

    @property
    def entropy_key(self) -> NestedKey:
        """Where the sum of the entropies goes."""
        return self._entropy_key

    @property
    def has_rsample(self) -> bool:
        """Whether some of the values have gradients."""
        return any(dist.has_rsample for dist in self.dists.values())

    def _collect(self, values: Mapping[NestedKey, Any], shape: Sequence[int] = ()) -> TensorDict:
        out = TensorDict({}, (*shape, *self.batch_shape))
        for key, value in values.items():
            out.set(key, value)
        return out

    def _all(self, kind: InteractionType) -> TensorDict:
        return self._collect({key: take(dist, kind, 1000) for key, dist in self.dists.items()})

    def sample(self, shape: Sequence[int] = ()) -> TensorDict:
        """Draw all entries, without gradients."""
        return self._collect({key: dist.sample(Size(shape)) for key, dist in self.dists.items()}, shape)

    def rsample(self, shape: Sequence[int] = ()) -> TensorDict:
        """Draw all entries, with gradients where a distribution has them."""
        values = {
            key: dist.rsample(Size(shape)) if dist.has_rsample else dist.sample(Size(shape))
            for key, dist in self.dists.items()
        }
        return self._collect(values, shape)

    @property
    def mode(self) -> TensorDict:
        """The mode of each."""
        return self._all(InteractionType.MODE)

    @property
    def mean(self) -> TensorDict:
        """The mean of each."""
        return self._all(InteractionType.MEAN)

    @property
    def median(self) -> TensorDict:
        """The median of each."""
        return self._all(InteractionType.MEDIAN)

    @property
    def deterministic_sample(self) -> TensorDict:
        """What each holds to be its best value."""
        return self._all(InteractionType.DETERMINISTIC)

    # --- of a value

    def _log_probs(self, sample: TensorDictBase) -> dict[NestedKey, Tensor]:
        return {beside(key, "_log_prob"): dist.log_prob(sample.get(key)) for key, dist in self.dists.items()}

    def _total(self, parts: Mapping[NestedKey, Tensor], ndim: int) -> Tensor:
        """The sum over entries, and over all dimensions behind the batch."""
        return sum(part.flatten(ndim).sum(-1) if part.ndim > ndim else part for part in parts.values())

    def _is_summed(self, aggregate_probabilities: bool | None) -> bool:
        return composite_lp_aggregate() if aggregate_probabilities is None else aggregate_probabilities

    def log_prob(
        self,
        sample: TensorDictBase,
        *,
        aggregate_probabilities: bool | None = None,
        include_sum: bool | None = None,
    ) -> Tensor | TensorDict:
        """The log-probability of a value: a collection with one of each entry, or their sum.

        Args:
            sample: holds the entries.
            aggregate_probabilities: whether to sum; as composite_lp_aggregate says when left out.
            include_sum: put the sum into the collection too, see log_prob_composite.
        """
        if self._is_summed(aggregate_probabilities):
            return self._total(self._log_probs(sample), sample.batch_dims)
        return self.log_prob_composite(sample, include_sum=bool(include_sum))

    def log_prob_composite(self, sample: TensorDictBase, *, include_sum: bool | None = None) -> TensorDict:
        """The log-probability of each entry, under its key with ``_log_prob`` behind it.

        Args:
            sample: holds the entries.
            include_sum: also put the sum at ``log_prob_key``; with composite_lp_aggregate when left out.
        """
        parts = self._log_probs(sample)
        out = TensorDict({}, sample.batch_size)
        for key, part in parts.items():
            out.set(key, part)
        if self._is_summed(include_sum):
            out.set(self._log_prob_key, self._total(parts, sample.batch_dims))
        return out

    def _entropies(self, samples_mc: int) -> dict[NestedKey, Tensor]:
        return {beside(key, "_entropy"): _entropy(dist, samples_mc) for key, dist in self.dists.items()}

    def entropy(
        self,
        samples_mc: int = 1,
        *,
        aggregate_probabilities: bool | None = None,
        include_sum: bool | None = None,
    ) -> Tensor | TensorDict:
        """The entropy: a collection with that of each entry, or their sum.

        Args:
            samples_mc: number of draws that stand for an entropy that a distribution can't tell.
            aggregate_probabilities: whether to sum; as composite_lp_aggregate says when left out.
            include_sum: put the sum into the collection too, see entropy_composite.
        """
        if self._is_summed(aggregate_probabilities):
            return self._total(self._entropies(samples_mc), len(self.batch_shape))
        return self.entropy_composite(samples_mc, include_sum=bool(include_sum))

    def entropy_composite(self, samples_mc: int = 1, *, include_sum: bool | None = None) -> TensorDict:
        """The entropy of each entry, under its key with ``_entropy`` behind it.

        Args:
            samples_mc: see entropy.
            include_sum: also put the sum at ``entropy_key``; with composite_lp_aggregate when left out.
        """
        parts = self._entropies(samples_mc)
        out = self._collect(parts)
        if self._is_summed(include_sum):
            out.set(self._entropy_key, self._total(parts, len(self.batch_shape)))
        return out

    def cdf(self, sample: TensorDictBase) -> TensorDictBase:
        """A copy of ``sample`` with the cumulative probability of each entry, under its key with ``_cdf``."""
        out = sample.copy()
        for key, dist in self.dists.items():
            out.set(beside(key, "_cdf"), dist.cdf(sample.get(key)))
        return out

    def icdf(self, sample: TensorDictBase) -> TensorDictBase:
        """What undoes cdf: a copy of ``sample`` with the values of its ``_cdf`` entries, under ``_icdf``.

        An entry without its ``_cdf`` is taken for a probability itself.
        """
        out = sample.copy()
        for key, dist in self.dists.items():
            source = beside(key, "_cdf")
            out.set(beside(key, "_icdf"), dist.icdf(sample.get(source if source in sample else key)))
        return out


def _entropy(dist: Distribution, draws: int) -> Tensor:
    own = dist.entropy
    try:
        return own() if callable(own) else own
    except NotImplementedError:
        draw = dist.rsample if dist.has_rsample else dist.sample
        return -dist.log_prob(draw(torch.Size([draws]))).mean(0)
