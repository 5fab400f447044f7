"""Modules that draw entries from a distribution over them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Size, Tensor, nn
from torch.distributions import Distribution

from tetradict._base import TensorDictBase
from tetradict._entries import shown
from tetradict._nontensor import NonTensorData
from tetradict._protocol import NestedKey
from tetradict.nn._composite import CompositeDistribution
from tetradict.nn._discrete import Delta
from tetradict.nn._dispatch import with_tensors
from tetradict.nn._interaction import InteractionType, interaction_type
from tetradict.nn._keys import as_keys, beside, describe, path, read
from tetradict.nn._module import TensorDictModuleBase
from tetradict.nn._settings import composite_lp_aggregate, is_done, settings
from tetradict.nn._take import take


class ProbabilisticTensorDictModule(TensorDictModuleBase):
    """Build a distribution from its parameters in a collection and write a value of it.

    Which value is said by set_interaction_type or, outside of it, by ``default_interaction_type``.

    Args:
        in_keys: the entries that hold the parameters. The last level of each key is the keyword of the distribution
            that it goes to; a dict from keywords to entries says it otherwise.
        out_keys: the entry that the value is written to; several for a CompositeDistribution, which knows them itself
            when they are left out.
        default_interaction_type: what to take while nothing else is set.
        distribution_class: called with the parameters by keyword; a ``torch.distributions.Distribution`` or its like.
        distribution_kwargs: further keywords for it, the same at every call. A TensorDictParams moves with the module.
        return_log_prob: also write the log-probability of the value, and list its key in ``out_keys``.
        log_prob_keys: where to, for each of several values.
        log_prob_key: where to, for a single value or the sum (see set_composite_lp_aggregate): the value's key with
            ``_log_prob`` behind it when left out, ``"sample_log_prob"`` for the sum.
        cache_dist: keep the distribution and call its ``update`` with new parameters, if it has one, rather than build
            a new one at each call.
        n_empirical_estimate: number of draws that stand for a mean that the distribution can't tell.
        num_samples: draw this many values (or of this shape), in new leading dimensions of the result.
        generator: where random values come from: a ``torch.Generator``; a seed for one; or the entry of the collection
            that holds a generator or a seed, which is replaced by a new one after each draw.

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
        out_keys: NestedKey | Iterable[NestedKey] | None = None,
        *,
        default_interaction_type: InteractionType | str = InteractionType.DETERMINISTIC,
        distribution_class: Callable[..., Distribution] = Delta,
        distribution_kwargs: Mapping[str, Any] | None = None,
        return_log_prob: bool = False,
        log_prob_keys: Iterable[NestedKey] | None = None,
        log_prob_key: NestedKey | None = None,
        cache_dist: bool = False,
        n_empirical_estimate: int = 1000,
        num_samples: int | Sequence[int] | None = None,
        generator: torch.Generator | int | NestedKey | None = None,
    ) -> None:
        super().__init__()
        if isinstance(in_keys, Mapping):
            self._parameters_names = tuple(in_keys)
            self.in_keys = list(in_keys.values())
        else:
            self.in_keys = in_keys
            self._parameters_names = tuple(path(key)[-1] for key in self.in_keys)
        self.distribution_class = distribution_class
        if isinstance(distribution_kwargs, nn.Module):
            self.distribution_kwargs = distribution_kwargs
        else:
            self.distribution_kwargs = dict(distribution_kwargs or {})
        self._sample_keys = self._known_keys() if out_keys is None else as_keys(out_keys, "out_keys")
        self.return_log_prob = return_log_prob
        self._is_summed = composite_lp_aggregate()
        self._name_log_probs(log_prob_key, log_prob_keys)
        self.default_interaction_type = _as_type(default_interaction_type)
        self.cache_dist, self._dist = cache_dist, None
        self.n_empirical_estimate = n_empirical_estimate
        self.num_samples = Size(
            () if num_samples is None else (num_samples,) if isinstance(num_samples, int) else num_samples
        )
        self.generator = _as_generator(generator)

    def _known_keys(self) -> list[NestedKey]:
        """The entries that a composite distribution names itself."""
        kwargs = self.distribution_kwargs
        if "distribution_map" not in kwargs:
            raise ValueError(
                "ProbabilisticTensorDictModule: out_keys can be left out for a distribution_map in distribution_kwargs "
                "alone; name the entry that the value goes to"
            )
        names = kwargs.get("name_map") or {}
        return as_keys([names.get(key, key) for key in kwargs["distribution_map"]])

    def _name_log_probs(self, key: NestedKey | None, keys: Iterable[NestedKey] | None) -> None:
        single = len(self._sample_keys) == 1
        if key is not None and keys is not None:
            raise TypeError("ProbabilisticTensorDictModule: give log_prob_key or log_prob_keys, not both")
        if keys is not None:
            keys = as_keys(list(keys), "log_prob_keys")
            if len(keys) != len(self._sample_keys) and not (self._is_summed and len(keys) == 1):
                raise ValueError(
                    f"ProbabilisticTensorDictModule: expected a log_prob_key for each of {self._sample_keys}, got {keys}"
                )
        elif self._is_summed:
            given = self.distribution_kwargs.get("log_prob_key")
            keys = as_keys(key or given or "sample_log_prob")
        elif key is not None:
            if not single:
                raise ValueError(
                    f"ProbabilisticTensorDictModule: one log_prob_key can't take those of {self._sample_keys}; "
                    "give log_prob_keys, or sum them by set_composite_lp_aggregate(True)"
                )
            keys = as_keys(key)
        else:
            keys = [beside(name, "_log_prob") for name in self._sample_keys]
        self._log_prob_keys = keys

    # --- keys

    @property
    def out_keys(self) -> list[NestedKey]:
        """The entries that are written; may be set."""
        if "_out_keys" in self.__dict__:
            return self._out_keys
        return [*self._sample_keys, *self.log_prob_keys] if self.return_log_prob else self._sample_keys

    @out_keys.setter
    def out_keys(self, keys: NestedKey | Iterable[NestedKey]) -> None:
        self._out_keys = as_keys(keys, "out_keys")

    @property
    def log_prob_keys(self) -> list[NestedKey]:
        """Where the log-probabilities are written.

        Raises:
            RuntimeError: they were to be summed when the module was made, and no longer are; or the reverse.
        """
        if len(self._sample_keys) > 1 and self._is_summed != composite_lp_aggregate():
            raise RuntimeError(
                f"{describe(self)}: made while composite_lp_aggregate was {self._is_summed}, it can't be used while it is "
                f"{not self._is_summed}; set it once, before modules are made"
            )
        return self._log_prob_keys

    @property
    def log_prob_key(self) -> NestedKey:
        """Where the log-probability is written, when it is one.

        Raises:
            RuntimeError: there are several, see log_prob_keys.
        """
        keys = self.log_prob_keys
        if len(keys) != 1:
            raise RuntimeError(
                f"{describe(self)}: there are several log-probabilities, {keys}; see log_prob_keys"
            )
        return keys[0]

    SAMPLE_LOG_PROB_KEY = log_prob_key

    @property
    def dist_params_keys(self) -> list[NestedKey]:
        """The entries that hold the parameters."""
        return self.in_keys

    @property
    def dist_sample_keys(self) -> list[NestedKey]:
        """The entries that hold values of the distribution."""
        return self._sample_keys

    # --- the distribution

    def get_dist(self, tensordict: TensorDictBase) -> Distribution:
        """The distribution with the parameters in ``tensordict``."""
        parameters = dict(zip(self._parameters_names, read(self, tensordict, self.in_keys), strict=True))
        if self._dist is not None:
            self._dist.update(**parameters)
            return self._dist
        kwargs = self.distribution_kwargs
        if isinstance(kwargs, nn.Module):
            kwargs = {key: shown(value) for key, value in kwargs.items()}
        dist = self.distribution_class(**parameters, **kwargs)
        if self.cache_dist and hasattr(dist, "update"):
            self._dist = dist
        return dist

    build_dist_from_params = get_dist

    def log_prob(
        self, tensordict: TensorDictBase, *, dist: Distribution | None = None
    ) -> Tensor | TensorDictBase:
        """The log-probability of the value in ``tensordict``, under ``dist`` or the parameters there.

        For a composite distribution, a collection with that of each entry, or the sum, see set_composite_lp_aggregate.
        """
        dist = self.get_dist(tensordict) if dist is None else dist
        if isinstance(dist, CompositeDistribution):
            return dist.log_prob(tensordict)
        (value,) = read(self, tensordict, self._sample_keys)
        return dist.log_prob(value)

    def forward(
        self,
        tensordict: TensorDictBase | None = None,
        *args: Any,
        tensordict_out: TensorDictBase | None = None,
        _requires_sample: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Write the value, and its log-probability if that was asked for. Takes tensors too, see TensorDictModule."""
        if not isinstance(tensordict, TensorDictBase):
            return with_tensors(self, tensordict, args, kwargs)
        if settings.skip_existing and is_done(tensordict, self.in_keys, self.out_keys):
            return tensordict
        dist = self.get_dist(tensordict)
        if self.num_samples:
            tensordict = tensordict.expand(*self.num_samples, *tensordict.batch_size)
        out = tensordict if tensordict_out is None else tensordict_out
        if _requires_sample:
            kind = interaction_type() or self.default_interaction_type
            generator = None if self.generator is None else self._generator(tensordict, out)
            value = take(dist, kind, self.n_empirical_estimate, self.num_samples, generator)
            if self.num_samples and kind is not InteractionType.RANDOM:
                value = value.expand(*self.num_samples, *value.shape)
        else:
            value = (
                tensordict
                if isinstance(dist, CompositeDistribution)
                else tensordict.get(self._sample_keys[0])
            )
        if isinstance(dist, CompositeDistribution):
            self._write_all(out, dist, value)
        else:
            self._write(out, self._sample_keys[0], value)
            if self.return_log_prob:
                self._write(out, self._log_prob_keys[0], dist.log_prob(value))
        return out

    def _write(self, out: TensorDictBase, key: NestedKey, value: Any) -> None:
        if "_unselected" not in self.__dict__ or key in self._out_keys:
            out.set(key, value)

    def _write_all(self, out: TensorDictBase, dist: CompositeDistribution, value: TensorDictBase) -> None:
        """Write the values of a composite distribution, and their log-probabilities."""
        for key, name in zip(dist.dists, _named(dist, self._sample_keys), strict=True):
            self._write(out, name, value.get(key))
        if not self.return_log_prob:
            return
        summed = composite_lp_aggregate()
        given = dist.log_prob_composite(value, include_sum=summed)
        names = [beside(key, "_log_prob") for key in dist.dists]
        targets = names if summed or len(names) != len(self._sample_keys) else self.log_prob_keys
        for name, key in zip(names, targets, strict=True):
            self._write(out, key, given.get(name))
        if summed:
            self._write(out, self.log_prob_key, given.get(dist.log_prob_key))

    def _select(self) -> None:
        if "_unselected" not in self.__dict__:
            self.__dict__.pop("_out_keys", None)

    # --- randomness

    def _generator(self, tensordict: TensorDictBase, out: TensorDictBase) -> torch.Generator:
        """The generator to draw from; a seed in the collection is replaced by the next one."""
        if isinstance(self.generator, torch.Generator):
            return self.generator
        (held,) = read(self, tensordict, [self.generator])
        if isinstance(held, torch.Generator):
            return held
        generator = torch.Generator().manual_seed(int(held))
        following = torch.randint(0, 2**62, (), generator=generator)
        out.set(
            self.generator,
            following.to(held) if isinstance(held, Tensor) else NonTensorData(int(following), out.batch_size),
        )
        return generator

    def _fields(self) -> dict[str, str]:
        name = getattr(self.distribution_class, "__name__", repr(self.distribution_class))
        return super()._fields() | {"distribution_class": name}


def _named(dist: CompositeDistribution, keys: list[NestedKey]) -> list[NestedKey]:
    """The entries that the values of ``dist`` go to: those that were named, if one was for each."""
    return keys if len(keys) == len(dist.dists) else list(dist.dists)


def _as_type(kind: InteractionType | str) -> InteractionType:
    return InteractionType.from_str(kind) if isinstance(kind, str) else kind


def _as_generator(generator: Any) -> torch.Generator | NestedKey | None:
    if generator is None or isinstance(generator, (torch.Generator, str)):
        return generator
    if isinstance(generator, int) and not isinstance(generator, bool):
        return torch.Generator().manual_seed(generator)
    if isinstance(generator, tuple) and generator:
        return as_keys(generator, "generator")[0]
    raise TypeError(
        "ProbabilisticTensorDictModule: generator must be a torch.Generator, a seed (int), the key of an entry, or None; "
        f"got a {type(generator).__name__}"
    )
