"""Distributions over one-hot vectors, and a point as a distribution."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import Categorical, Distribution, constraints
from torch.nn.functional import gumbel_softmax, one_hot


def rand_one_hot(
    values: Tensor, do_softmax: bool = True, *, generator: torch.Generator | None = None
) -> Tensor:
    """Draw one-hot vectors.

    Args:
        values: logits, or with ``do_softmax=False`` probabilities that add up to 1, ``[..., C]``.
        do_softmax: see above.
        generator: where the randomness comes from; torch's global state when left out.

    Returns:
        ``[..., C]``, int64, with a single 1 in the last dimension.
    """
    probabilities = values.softmax(-1) if do_softmax else values
    flat = probabilities.reshape(-1, values.shape[-1])
    index = torch.multinomial(flat, 1, generator=generator).reshape(values.shape[:-1])
    return one_hot(index, values.shape[-1])


class OneHotCategorical(Categorical):
    """A categorical distribution whose values are one-hot vectors.

    Args:
        logits: log-probabilities up to a constant, ``[..., C]``; or
        probs: probabilities up to a factor, ``[..., C]``. One of the two.
        kwargs: as for ``torch.distributions.Categorical``.

    Example:
        >>> OneHotCategorical(logits=torch.tensor([0.0, 5.0])).mode
        tensor([0, 1])
    """

    num_params = 1
    has_rsample = True

    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(probs=probs, logits=logits, **kwargs)
        self._event_shape = self._param.shape[-1:]

    support = constraints.one_hot

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of one-hot vectors, ``[..., C]``, as ``[...]``."""
        index, logits = torch.broadcast_tensors(value.argmax(-1, keepdim=True), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    @property
    def mode(self) -> Tensor:
        """The most likely vector; the first of several."""
        return one_hot(self._param.argmax(-1), self._num_events)

    deterministic_sample = mode

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw one-hot vectors, int64."""
        with torch.no_grad():
            probs = self.probs.expand(*sample_shape, *self.probs.shape)
            return rand_one_hot(probs, do_softmax=False)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw one-hot vectors with the gradient of a relaxed draw (straight through)."""
        return gumbel_softmax(self.logits.expand(*sample_shape, *self.logits.shape), hard=True)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "OneHotCategorical":
        """The same distribution with a longer batch shape."""
        return type(self)(logits=self.logits.expand(*batch_shape, self._num_events), validate_args=False)


class Delta(Distribution):
    """All the probability at one point.

    Args:
        param: the point.
        atol: how far from it, absolutely, a value still counts as the point.
        rtol: and how far relative to it.
        batch_shape: see ``torch.distributions``; all but the last dimension of ``param`` when left out.
        event_shape: the last dimension of ``param`` when left out.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012  (as torch.distributions has it)
    has_rsample = True

    def __init__(
        self,
        param: Tensor,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        batch_shape: Sequence[int] | None = None,
        event_shape: Sequence[int] | None = None,
    ) -> None:
        if not batch_shape and not event_shape:
            batch_shape, event_shape = param.shape[:-1], param.shape[-1:]
        self.update(param)
        self.atol, self.rtol = atol, rtol
        super().__init__(Size(batch_shape or ()), Size(event_shape or ()), validate_args=False)

    def update(self, param: Tensor) -> None:
        """Move the point."""
        self.param = param

    @property
    def support(self) -> Any:
        """All real numbers."""
        return constraints.independent(constraints.real, len(self.event_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Infinity at the point, minus infinity elsewhere."""
        at = (value - self.param).abs() <= self.atol + self.rtol * self.param.abs()
        for _ in self.event_shape:
            at = at.all(-1)
        dtype = value.dtype if value.is_floating_point() else torch.get_default_dtype()
        inf = torch.full_like(at, math.inf, dtype=dtype)
        return torch.where(at, inf, -inf)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The point, without a gradient."""
        with torch.no_grad():
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The point, with its gradient."""
        return self.param.expand(*sample_shape, *self.param.shape)

    @property
    def mode(self) -> Tensor:
        """The point."""
        return self.param

    mean = mode
    deterministic_sample = mode

    @property
    def variance(self) -> Tensor:
        """Zero."""
        return torch.zeros_like(self.param)
