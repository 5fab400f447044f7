"""Distributions over a finite number of choices."""

import torch
from torch import Size, Tensor
from torch import distributions as D


class OneHotCategorical(D.OneHotCategorical):
    """One of K choices, as a vector of zeros with a single one.

    Args:
        logits: unnormalised log-probabilities, ``[..., K]``; or
        probs: unnormalised probabilities, ``[..., K]``.

    Draws and modes are int64. ``log_prob`` takes vectors of any dtype, bool among them.

    Example:
        >>> dist = OneHotCategorical(logits=torch.tensor([0.0, 2.0, 1.0]))
        >>> dist.mode
        tensor([0, 1, 0])
        >>> dist.log_prob(dist.mode.bool())
        tensor(-0.4076)
    """

    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None) -> None:
        super().__init__(probs=probs, logits=logits, validate_args=False)

    def sample(self, sample_shape: Size = Size()) -> Tensor:  # noqa: B008  (torch's own signature)
        """Draw."""
        return super().sample(sample_shape).to(torch.int64)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of the choice marked in ``value``, ``[..., K]``."""
        return torch.where(value.to(torch.bool), self.logits, 0.0).sum(-1)

    @property
    def mode(self) -> Tensor:
        """The likeliest choice, the first on a tie."""
        return _one_hot(self.logits.argmax(-1), self.logits)

    @property
    def deterministic_sample(self) -> Tensor:
        """The likeliest choice."""
        return self.mode


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
        if (logits is None) == (probs is None):
            raise ValueError("MaskedCategorical: pass either logits or probs")
        if mask.dtype is not torch.bool:
            raise TypeError(
                f"MaskedCategorical: mask must be bool, True for what is allowed, got {mask.dtype}"
            )
        self.mask = mask
        logits = probs.log() if logits is None else logits
        super().__init__(logits=torch.where(mask, logits, neg_inf), validate_args=False)

    def entropy(self) -> Tensor:
        """The entropy over what is allowed."""
        return -(self.probs * torch.where(self.probs > 0, self.logits, 0.0)).sum(-1)

    @property
    def deterministic_sample(self) -> Tensor:
        """The likeliest choice."""
        return self.mode


def _one_hot(index: Tensor, like: Tensor) -> Tensor:
    """int64 rows of zeros with a one at ``index``; ``torch.nn.functional.one_hot`` reads it to be sure."""
    rows = torch.zeros(like.shape, dtype=torch.int64, device=like.device)
    return rows.scatter_(-1, index.unsqueeze(-1), 1)
