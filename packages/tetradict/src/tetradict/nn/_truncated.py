"""The normal distribution between two bounds."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

_SQRT2 = math.sqrt(2)
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class TruncatedNormal(Distribution):
    """A normal distribution of which only what lies between two bounds is left.

    All quantities are computed from logarithms of tail areas, on the side of the mean where they are small, so that
    bounds far out in a tail lose no digits.

    Args:
        loc: the mean of the whole distribution.
        scale: its standard deviation, positive.
        a: the lower bound.
        b: the upper bound, above ``a``. All four are broadcast.
        validate_args: check arguments, as in torch.distributions.

    Raises:
        ValueError: ``a`` is not below ``b`` (with ``validate_args``).

    Example:
        >>> TruncatedNormal(torch.zeros(1), torch.ones(1), -1.0, 1.0).mean
        tensor([0.])
    """

    arg_constraints = {  # noqa: RUF012  (as torch.distributions has it)
        "loc": constraints.real,
        "scale": constraints.positive,
        "a": constraints.real,
        "b": constraints.real,
    }
    has_rsample = True
    eps = 1e-6

    def __init__(
        self,
        loc: float | Tensor,
        scale: float | Tensor,
        a: float | Tensor,
        b: float | Tensor,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.a, self.b = broadcast_all(loc, scale, a, b)
        super().__init__(self.loc.shape, validate_args=validate_args)
        if self._validate_args and not (self.a < self.b).all():
            raise ValueError(
                "TruncatedNormal: the lower bound a must be below the upper bound b everywhere, "
                f"got a={self.a} and b={self.b}"
            )
        self._low, self._high = (self.a - self.loc) / self.scale, (self.b - self.loc) / self.scale
        self._log_area = _log_area(self._low, self._high)

    @property
    def support(self) -> Any:
        """The interval from ``a`` to ``b``."""
        return constraints.interval(self.a, self.b)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "TruncatedNormal":
        """The same distribution with a longer batch shape."""
        parts = [part.expand(batch_shape) for part in (self.loc, self.scale, self.a, self.b)]
        return type(self)(*parts, validate_args=False)

    @property
    def auc(self) -> Tensor:
        """The probability that the whole distribution has between the bounds."""
        return self._log_area.exp()

    def _densities(self) -> tuple[Tensor, Tensor]:
        """The standard normal density at the lower and at the upper bound, over the area between them."""
        return tuple((_log_density(x) - self._log_area).exp() for x in (self._low, self._high))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        low, high = self._densities()
        return (self.loc + self.scale * (low - high)).clamp(self.a, self.b)

    @property
    def mode(self) -> Tensor:
        """``loc``, or the bound that is nearest to it."""
        return self.loc.clamp(self.a, self.b)

    deterministic_sample = mode

    @property
    def median(self) -> Tensor:
        """The value with half of the probability on each side."""
        return self.icdf(torch.full_like(self.loc, 0.5))

    def _moment(self) -> Tensor:
        low, high = self._densities()
        return _times(self._low, low) - _times(self._high, high)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        low, high = self._densities()
        return self.scale.square() * (1 + self._moment() - (low - high).square()).clamp_min(0)

    def entropy(self) -> Tensor:
        """The differential entropy."""
        return _LOG_SQRT_2PI + 0.5 + self.scale.log() + self._log_area + self._moment() / 2

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density at ``value``; minus infinity outside of the bounds."""
        if self._validate_args:
            self._validate_sample(value)
        inside = (value >= self.a) & (value <= self.b)
        out = _log_density((value - self.loc) / self.scale) - self.scale.log() - self._log_area
        return torch.where(inside, out, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of what is at most ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        z = ((value - self.loc) / self.scale).clamp(self._low, self._high)
        return (_log_area(self._low, z) - self._log_area).exp().clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """The value that ``cdf`` takes to ``value``, a probability."""
        value = torch.as_tensor(value, dtype=self.loc.dtype, device=self.loc.device)
        mirrored = self._low > 0  # the tail above: work in the one below, where small areas keep their digits
        low = torch.where(mirrored, -self._high, self._low)
        below, area = torch.special.log_ndtr(low), self._log_area
        share = torch.where(mirrored, 1 - value, value)
        z = _from_log_area(torch.logaddexp(below, share.log() + area))
        z = torch.where(mirrored, -z, z)
        return (self.loc + self.scale * z).clamp(self.a, self.b)

    def rsample(
        self, sample_shape: Sequence[int] = (), *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw, with a gradient to ``loc``, ``scale`` and the bounds."""
        shape = self._extended_shape(Size(sample_shape))
        noise = torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device, generator=generator)
        tiny = torch.finfo(noise.dtype).eps
        return self.icdf(noise.clamp(tiny, 1 - tiny))


def _log_density(z: Tensor) -> Tensor:
    return -0.5 * z.square() - _LOG_SQRT_2PI


def _times(bound: Tensor, density: Tensor) -> Tensor:
    """``bound * density``, which is 0 at an infinite bound."""
    return torch.where(bound.isinf(), 0.0, torch.where(bound.isinf(), 0.0, bound) * density)


def _log_area(low: Tensor, high: Tensor) -> Tensor:
    """The logarithm of the standard normal probability between ``low`` and ``high``."""
    mirrored = low > 0
    low, high = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
    above, below = torch.special.log_ndtr(high), torch.special.log_ndtr(low)
    ratio = (below - above).clamp(max=0)
    return above + torch.log(-torch.expm1(ratio))


class _FromLogArea(torch.autograd.Function):
    """The ``z`` with ``log_ndtr(z) == log_p``."""

    @staticmethod
    def forward(ctx: Any, log_p: Tensor) -> Tensor:
        p = log_p.exp()
        z = torch.special.ndtri(p)
        far = log_p < -10  # where p itself has few digits left, start from the tail's asymptote
        guess = -torch.sqrt((-2 * log_p - math.log(2 * math.pi)).clamp_min(1e-6))
        guess = -torch.sqrt((-2 * (log_p + torch.log(-guess)) - math.log(2 * math.pi)).clamp_min(1e-6))
        z = torch.where(far, guess, z)
        usable = far & torch.isfinite(log_p)
        for _ in range(4):  # Newton on log_ndtr, which is nearly quadratic there
            value = torch.special.log_ndtr(z)
            step = (value - log_p) * (value - _log_density(z)).exp()
            z = torch.where(usable, z - step, z)
        z = torch.where(log_p == -math.inf, -math.inf, z)
        ctx.save_for_backward(log_p, z)
        return z

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        log_p, z = ctx.saved_tensors
        return grad * (log_p - _log_density(z)).exp()


def _from_log_area(log_p: Tensor) -> Tensor:
    return _FromLogArea.apply(log_p)
