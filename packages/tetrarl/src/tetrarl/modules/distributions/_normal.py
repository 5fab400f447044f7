"""Normal variables side by side."""

from torch import Tensor
from torch import distributions as D


class IndependentNormal(D.Independent):
    """Normal variables whose last dimensions make one event.

    Args:
        loc: locations, ``[..., D]``, floating.
        scale: standard deviations, positive; expand with ``loc``.
        upscale: with ``tanh_loc``, the range of the locations.
        tanh_loc: squash the locations into ``(-upscale, upscale)`` first.
        event_dim: number of last dimensions whose log-probabilities are summed.

    Example:
        >>> dist = IndependentNormal(torch.zeros(5, 2), torch.ones(5, 2))
        >>> dist.batch_shape, dist.log_prob(dist.mode).shape
        (torch.Size([5]), torch.Size([5]))
    """

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor | float,
        upscale: float = 5.0,
        tanh_loc: bool = False,
        event_dim: int = 1,
    ) -> None:
        if tanh_loc:
            loc = (loc / upscale).tanh() * upscale
        super().__init__(D.Normal(loc, scale, validate_args=False), event_dim, validate_args=False)

    @property
    def deterministic_sample(self) -> Tensor:
        """The locations."""
        return self.base_dist.loc
