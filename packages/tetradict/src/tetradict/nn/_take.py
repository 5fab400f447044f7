"""A value of a distribution, of the kind that is asked for."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import (
    Distribution,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
    TransformedDistribution,
)
from torch.nn.functional import one_hot

from tetradict.nn._interaction import InteractionType


def take(
    dist: Distribution,
    kind: InteractionType,
    draws: int,
    shape: Sequence[int] = (),
    generator: torch.Generator | None = None,
) -> Any:
    """A value of ``dist`` of the given kind.

    Args:
        dist: the distribution.
        kind: see InteractionType.
        draws: how many values stand for a mean that it can't tell.
        shape: of how many random values.
        generator: where the randomness comes from; torch's global state when left out.

    Raises:
        ValueError: the distribution has no median.
        NotImplementedError: from torch, when it has no mode.
    """
    if kind is InteractionType.RANDOM:
        draw = dist.rsample if dist.has_rsample else dist.sample
        return _with(generator, lambda: draw(Size(shape)))
    if kind is InteractionType.MEAN:
        mean = _mean(dist)
        return _with(generator, lambda: dist.sample(Size((draws,))).mean(0)) if mean is None else mean
    if kind is InteractionType.DETERMINISTIC:
        return _best(dist)
    return dist.mode if kind is InteractionType.MODE else _median(dist)


def _with(generator: torch.Generator | None, draw: Callable[[], Any]) -> Any:
    """Draw from a generator: torch's distributions take none, so its state stands in for the global one."""
    if generator is None:
        return draw()
    device = generator.device
    before = _state(device)
    try:
        _put_state(device, generator.get_state())
        out = draw()
        generator.set_state(_state(device))
    finally:
        _put_state(device, before)
    return out


def _state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _put_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def _mean(dist: Distribution) -> Any:
    try:
        return dist.mean
    except NotImplementedError:
        return None


def _median(dist: Distribution) -> Any:
    own = getattr(dist, "median", None)
    if own is not None:
        return own
    try:
        return dist.icdf(torch.tensor(0.5))
    except NotImplementedError as error:
        raise ValueError(f"{type(dist).__name__} has no median; set another interaction type") from error


def _best(dist: Distribution) -> Any:
    """What the distribution itself offers, else the mode of a discrete one, the mean of a continuous one.

    A transformed distribution without a mean gives what becomes of the best value of its base.
    """
    own = getattr(dist, "deterministic_sample", None)
    if own is not None:
        return own() if callable(own) and not isinstance(own, Tensor) else own
    if isinstance(dist, RelaxedBernoulli):
        return (dist.probs > 0.5).to(dist.probs)
    if isinstance(dist, RelaxedOneHotCategorical):
        return one_hot(dist.probs.argmax(-1), dist.probs.shape[-1]).to(dist.probs)
    for name in ("mode", "mean") if _is_discrete(dist) else ("mean", "mode"):
        try:
            return getattr(dist, name)
        except (NotImplementedError, AttributeError):
            pass
    if not isinstance(dist, TransformedDistribution):
        raise RuntimeError(
            f"{type(dist).__name__} has none of the values that DETERMINISTIC, MEAN and MODE ask for; set another "
            "interaction type"
        )
    value = _best(dist.base_dist)
    for transform in dist.transforms:
        value = transform(value)
    return value


def _is_discrete(dist: Distribution) -> bool:
    try:
        return dist.support.is_discrete
    except NotImplementedError:
        return False
