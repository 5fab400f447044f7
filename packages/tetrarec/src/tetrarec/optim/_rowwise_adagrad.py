"""Row-wise Adagrad as an ordinary optimizer."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class RowWiseAdagrad(Optimizer):
    """Adagrad with one accumulator a row instead of one an element.

    For parameters with ordinary dense gradients; named as ``optimizer_type`` of a fused collection, the same
    rule runs inside its backward pass and touches only the rows of the batch.

    Args:
        params: parameters, or groups of them; rows are the first dimension.
        lr: learning rate.
        lr_decay: the rate of step n is ``lr / (1 + (n - 1) * lr_decay)``.
        weight_decay: times the parameter, added to the gradient.
        initial_accumulator_value: what the accumulators begin with.
        eps: added to the root. 1e-10 as in ``torch.optim.Adagrad``; the fused update has 1e-8.
        maximize: go up the gradient.

    Raises:
        ValueError: a negative number.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(2, 2))
        >>> optimizer = RowWiseAdagrad([weight], lr=0.5)
        >>> weight[0].sum().backward()
        >>> optimizer.step()
        >>> weight.detach()
        tensor([[-0.5000, -0.5000],
                [ 0.0000,  0.0000]])

    Source: Duchi et al. 2011 (Adagrad), one accumulator a row as in Naumov et al. 2019 (arXiv:1906.00091).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ) -> None:
        numbers = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
        }
        for name, number in numbers.items():
            if number < 0:
                raise ValueError(f"RowWiseAdagrad: {name} must not be negative, got {number}")
        super().__init__(params, {**numbers, "maximize": maximize})

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Move every parameter that has a gradient.

        Args:
            closure: computes the loss again, with gradients.

        Returns:
            What ``closure`` gave.

        Raises:
            TypeError: a sparse gradient.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _move(parameter, self.state[parameter], group)
        return loss


def _move(parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    grad = -parameter.grad if group["maximize"] else parameter.grad
    if grad.is_sparse:
        raise TypeError(
            "RowWiseAdagrad: gradients must be dense, got a sparse one; use sparse=False in the embedding"
        )
    if group["weight_decay"]:
        grad = grad.add(parameter, alpha=group["weight_decay"])
    columns = (1,) * (parameter.ndim - 1)
    if not state:
        state["step"] = 0
        start = group["initial_accumulator_value"]
        state["sum"] = torch.full_like(parameter[:, *(slice(1),) * len(columns)], start)
    state["step"] += 1
    rate = group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
    state["sum"] += grad.reshape(grad.shape[0], -1).square().mean(1).view(-1, *columns)
    parameter.sub_(rate * grad / state["sum"].sqrt().add(group["eps"]))
