"""A normal distribution squashed into an interval."""

import math

import torch
from torch import Size, Tensor
from torch.distributions import Distribution, constraints
from torch.nn.functional import softplus

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_MODE_STEPS = 12


class TanhNormal(Distribution):
    """``tanh`` of a normal variable, stretched to ``(low, high)``: for actions with bounds.

    Args:
        loc: location of the normal variable, ``[..., D]``, floating.
        scale: its standard deviation, positive; expands with ``loc``.
        upscale: with ``tanh_loc``, the range of the location.
        low: lower end of the interval; a number, or a tensor that expands with ``loc``.
        high: upper end, above ``low``; as ``low``.
        event_dims: number of last dimensions that make one event, whose log-probabilities are summed; 1, or 0 for a
            ``loc`` without dimensions, when left out.
        tanh_loc: squash the location into ``(-upscale, upscale)`` first, so that it can't run away.

    The mode is the arg-max of the density on the interval, which differs from the squashed ``loc``; the latter is
    the median, and what ``deterministic_sample`` gives. Mean and entropy have no closed form: estimate them from draws.
    Values are kept off the very ends of the interval, where the density isn't finite.

    Raises:
        ValueError: ``low`` isn't below ``high`` (checked for numbers).

    Example:
        >>> dist = TanhNormal(torch.zeros(2), torch.ones(2), low=-2.0, high=4.0)
        >>> dist.median
        tensor([1., 1.])
        >>> dist.log_prob(dist.median).shape
        torch.Size([])

    Source: Haarnoja et al. 2018, appendix C (arXiv:1801.01290).
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012  (torch's own name)
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor | float,
        upscale: Tensor | float = 5.0,
        low: Tensor | float = -1.0,
        high: Tensor | float = 1.0,
        event_dims: int | None = None,
        tanh_loc: bool = False,
    ) -> None:
        if not isinstance(low, Tensor) and not isinstance(high, Tensor) and low >= high:
            raise ValueError(f"TanhNormal: low must be below high, got low={low}, high={high}")
        if tanh_loc:
            loc = (loc / upscale).tanh() * upscale
        if not isinstance(scale, Tensor) or scale.shape != loc.shape:
            loc, scale = torch.broadcast_tensors(
                loc, torch.as_tensor(scale, dtype=loc.dtype, device=loc.device)
            )
        self.loc, self.scale = loc, scale
        self.low, self.high = (
            end.to(loc.device, loc.dtype) if isinstance(end, Tensor) else end for end in (low, high)
        )
        self._middle, self._half = (self.high + self.low) / 2, (self.high - self.low) / 2
        self._event_dims = min(1, loc.ndim) if event_dims is None else event_dims
        split = loc.ndim - self._event_dims
        super().__init__(loc.shape[:split], loc.shape[split:], validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        """The interval, for each event."""
        return constraints.independent(constraints.interval(self.low, self.high), self._event_dims)

    def expand(self, batch_shape: Size, _instance: Distribution | None = None) -> "TanhNormal":
        """The same distribution over a larger batch."""
        shape = Size(batch_shape) + self.event_shape
        return TanhNormal(
            self.loc.expand(shape), self.scale.expand(shape), 1.0, self.low, self.high, self._event_dims
        )

    def rsample(self, sample_shape: Size = Size()) -> Tensor:  # noqa: B008  (torch's own signature)
        """Draw, with a gradient."""
        return self._squash(self._normal_draw(sample_shape)[0])

    def rsample_and_log_prob(self, sample_shape: Size = Size()) -> tuple[Tensor, Tensor]:  # noqa: B008
        """Draw, with a gradient, and tell the log-density there.

        It is found from the normal variable itself, which costs half of ``log_prob`` and knows no end of the
        interval. Where a draw is all but at an end, ``log_prob`` of the rounded value differs.
        """
        normal, noise = self._normal_draw(sample_shape)
        bend = 2 * (math.log(2) - normal - softplus(-2 * normal))  # log(1 - tanh²), without the cancellation
        density = -0.5 * noise.square() - bend - self.scale.log() - self._constant()
        return self._squash(normal), self._over_event(density)

    def sample_and_log_prob(self, sample_shape: Size = Size()) -> tuple[Tensor, Tensor]:  # noqa: B008
        """Draw and tell the log-density there, both without a gradient; see rsample_and_log_prob."""
        with torch.no_grad():
            return self.rsample_and_log_prob(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density at ``value``; a value on or past an end counts as one just inside."""
        unit = (value - self._middle) / self._half
        edge = 1 - torch.finfo(unit.dtype).eps
        unit = unit.clamp(-edge, edge)
        up, down = unit.log1p(), (-unit).log1p()
        z = ((up - down) / 2 - self.loc) / self.scale
        return self._over_event(-0.5 * z.square() - self.scale.log() - (up + down) - self._constant())

    def _normal_draw(self, sample_shape: Size) -> tuple[Tensor, Tensor]:
        """The variable before it is squashed, and the standard normal noise it is made of."""
        shape = self._extended_shape(sample_shape)
        noise = torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return torch.addcmul(self.loc, self.scale, noise), noise

    def _constant(self) -> Tensor | float:
        """What the log-density loses to the normal's own constant and to the width of the interval."""
        return _HALF_LOG_2PI + (self._half.log() if isinstance(self._half, Tensor) else math.log(self._half))

    def _over_event(self, density: Tensor) -> Tensor:
        return density.sum(tuple(range(-self._event_dims, 0))) if self._event_dims else density

    @property
    def deterministic_sample(self) -> Tensor:
        """The squashed location."""
        return self._squash(self.loc)

    @property
    def median(self) -> Tensor:
        """The squashed location."""
        return self._squash(self.loc)

    @property
    def mode(self) -> Tensor:
        """The arg-max of the density, at the location's side of the middle (the upper one on a tie)."""
        return self._squash(_mode_before_tanh(self.loc, self.scale))

    def get_mode(self) -> Tensor:
        """The mode."""
        return self.mode

    def _squash(self, normal: Tensor) -> Tensor:
        edge = 1 - torch.finfo(normal.dtype).eps
        return self._middle + self._half * normal.tanh().clamp(-edge, edge)


def _mode_before_tanh(loc: Tensor, scale: Tensor) -> Tensor:
    """Where the density of ``tanh`` of a normal variable is highest, as a value of that variable.

    The log-density has a stationary point where ``x = loc + 2 scale² tanh(x)``. On the side of ``loc`` the difference
    of both sides is concave, so that Newton's steps from the far end fall on its largest root, which is the highest
    maximum. The last step alone is differentiated: at a root that is the implicit derivative.
    """
    side = torch.where(loc < 0, -1.0, 1.0).to(loc.dtype)
    pull = 2 * scale.square()
    tiny = torch.finfo(loc.dtype).eps

    def step(x: Tensor, far: Tensor, pull: Tensor) -> Tensor:
        level = x.tanh()
        slope = (1 - pull.detach() * (1 - level.square())).clamp(min=tiny)
        return x - (x - far - pull * level) / slope

    with torch.no_grad():
        far = loc * side
        x = far + pull
        for _ in range(_MODE_STEPS):
            x = torch.maximum(step(x, far, pull), torch.zeros_like(x))
    return side * step(x, loc * side, pull)
