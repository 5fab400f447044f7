"""Distributions over a finite number of choices."""

import torch
from torch import Size, Tensor
from torch import distributions as D
from torch.distributions import Distribution, constraints


class OneHotCategorical(Distribution):
    """One of K choices, as a vector of zeros with a single one.

    Args:
        logits: unnormalised log-probabilities, ``[..., K]``; or
        probs: unnormalised probabilities, ``[..., K]``.

    Draws and modes are int64. ``log_prob`` takes vectors of any dtype, bool among them.

    Raises:
        ValueError: neither or both of the parameters were given, or they have no dimension.

    Example:
        >>> dist = OneHotCategorical(logits=torch.tensor([0.0, 2.0, 1.0]))
        >>> dist.mode
        tensor([0, 1, 0])
        >>> dist.log_prob(dist.mode.bool())
        tensor(-0.4076)
    """

    arg_constraints = {"logits": constraints.real_vector}  # noqa: RUF012  (torch's own name)
    support = constraints.one_hot

    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None) -> None:
        self.logits = _log_weights("OneHotCategorical", logits, probs).log_softmax(-1)
        super().__init__(self.logits.shape[:-1], self.logits.shape[-1:], validate_args=False)

    @property
    def probs(self) -> Tensor:
        """The probability of each choice, ``[..., K]``."""
        return self.logits.exp()

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """The variance of each component."""
        return self.probs * (1 - self.probs)

    @property
    def mode(self) -> Tensor:
        """The likeliest choice, the first on a tie."""
        return _one_hot(self.logits)

    @property
    def deterministic_sample(self) -> Tensor:
        """The likeliest choice."""
        return self.mode

    def expand(self, batch_shape: Size, _instance: Distribution | None = None) -> "OneHotCategorical":
        """The same distribution over a larger batch."""
        return OneHotCategorical(self.logits.expand(Size(batch_shape) + self.event_shape))

    def sample(self, sample_shape: Size = Size()) -> Tensor:  # noqa: B008  (torch's own signature)
        """Draw, as the arg-max of the logits with Gumbel noise."""
        shape = self._extended_shape(sample_shape)
        noise = torch.empty(shape, dtype=self.logits.dtype, device=self.logits.device).exponential_()
        return _one_hot(self.logits.detach() - noise.log())

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of the choice marked in ``value``, ``[..., K]``."""
        return torch.where(value.to(torch.bool), self.logits, 0.0).sum(-1)

    def entropy(self) -> Tensor:
        """The entropy of the choice."""
        return _entropy(self.logits)


@D.register_kl(OneHotCategorical, OneHotCategorical)
def _kl_one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    probs = p.probs
    return torch.where(probs > 0, probs * (p.logits - q.logits), 0.0).sum(-1)


class MaskedCategorical(D.Categorical):
    """One of K choices, some of which are forbidden, as an index.

    Args:
        logits: unnormalised log-probabilities, ``[..., K]``; or
        probs: unnormalised probabilities, ``[..., K]``.
        mask: True where a choice is allowed, bool, expands with the former. Each row allows at least one.
        neg_inf: the log-probability of what is forbidden, before normalising. With a finite one it keeps a trace of
            probability.

    Example:
        >>> dist = MaskedCategorical(torch.zeros(3), mask=torch.tensor([True, False, True]))
        >>> dist.probs
        tensor([0.5000, 0.0000, 0.5000])
        >>> dist.entropy()
        tensor(0.6931)
    """

    def __init__(
        self,
        logits: Tensor | None = None,
        probs: Tensor | None = None,
        *,
        mask: Tensor,
        neg_inf: float = -float("inf"),
    ) -> None:
        logits = _log_weights("MaskedCategorical", logits, probs)
        if mask.dtype is not torch.bool:
            raise TypeError(
                f"MaskedCategorical: mask must be bool, True for what is allowed, got {mask.dtype}"
            )
        self.mask = mask
        super().__init__(logits=torch.where(mask, logits, neg_inf), validate_args=False)

    def entropy(self) -> Tensor:
        """The entropy over what is allowed."""
        return _entropy(self.logits)

    @property
    def deterministic_sample(self) -> Tensor:
        """The likeliest choice."""
        return self.mode


def _log_weights(name: str, logits: Tensor | None, probs: Tensor | None) -> Tensor:
    """Unnormalised log-probabilities."""
    if (logits is None) == (probs is None):
        raise ValueError(f"{name}: pass either logits or probs")
    weights = probs.log() if logits is None else logits
    if weights.ndim == 0:
        raise ValueError(f"{name}: logits or probs must be [..., K], got a number")
    return weights


def _entropy(logits: Tensor) -> Tensor:
    """The entropy of normalised logits; a choice without probability adds nothing, nor to the gradient."""
    probs = logits.exp()
    return -(probs * torch.where(probs > 0, logits, 0.0)).sum(-1)


def _one_hot(scores: Tensor) -> Tensor:
    """int64 rows with a one at the highest score; ``torch.nn.functional.one_hot`` reads its index to be sure of it."""
    rows = torch.zeros_like(scores, dtype=torch.int64)
    return rows.scatter_(-1, scores.argmax(-1, keepdim=True), 1)
