"""Arguments that all estimators share: shapes, flags and the time dimension."""

from collections.abc import Callable

import torch
from torch import Tensor

from tetrarl.objectives.value._scan import reverse_scan

Scan = Callable[[Tensor, Tensor], Tensor]


def check_shapes(where: str, **tensors: Tensor | None) -> None:
    """Raise unless all tensors have one shape."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items() if tensor is not None}
    if len(set(shapes.values())) > 1:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(
            f"{where}: all tensors must have one shape (..., T, 1), got {found}; "
            "give rewards and flags the trailing dimension of the values with unsqueeze(-1)"
        )


def check_coefficients(where: str, like: Tensor, **coefficients: float | Tensor) -> None:
    """Raise unless each tensor among the coefficients can be expanded to the shape of the rewards."""
    for name, value in coefficients.items():
        if not isinstance(value, Tensor):
            continue
        sizes = zip(reversed(value.shape), reversed(like.shape), strict=False)
        if value.ndim > like.ndim or any(have not in {1, want} for have, want in sizes):
            raise ValueError(
                f"{where}: {name} must be a number or expand to the rewards' shape {tuple(like.shape)}, "
                f"got a tensor of shape {tuple(value.shape)}"
            )


def flags(done: Tensor, terminated: Tensor | None) -> tuple[Tensor, Tensor]:
    """Both flags as bool tensors; episodes that end count as terminated where nothing else is said."""
    done = done.to(torch.bool)
    return done, done if terminated is None else terminated.to(torch.bool)


def bootstrap(gamma: float | Tensor, next_state_value: Tensor, terminated: Tensor) -> Tensor:
    """The discounted value of the next state: nothing (and no gradient) where the episode terminated."""
    return gamma * next_state_value.masked_fill(terminated, 0)


def solve(values: Tensor, decay: Tensor, time_dim: int, scan: Scan = reverse_scan) -> Tensor:
    """Run the recursion ``y[t] = values[t] + decay[t] * y[t + 1]`` along ``time_dim``."""
    rows = values.movedim(time_dim, 0)
    factors = decay.expand_as(values).movedim(time_dim, 0)
    if rows.ndim == 1:
        return scan(rows[:, None], factors[:, None])[:, 0]
    solved = scan(rows.flatten(1), factors.flatten(1))
    return solved.view(rows.shape).movedim(0, time_dim).contiguous()


def shift_back(values: Tensor, last: Tensor, time_dim: int) -> Tensor:
    """What comes one step later: ``values[t + 1]``, and after the end the last step of ``last``."""
    T = values.shape[time_dim]
    later = values.narrow(time_dim, 1, T - 1) if T else values
    return torch.cat([later, last.narrow(time_dim, T - 1, 1)], time_dim) if T else values


def last_step(flag: Tensor, time_dim: int) -> Tensor:
    """Mark also the end of the recorded time, where a return has nothing later to build on."""
    T = flag.shape[time_dim]
    at_end = torch.arange(T, device=flag.device) == T - 1
    shape = [1] * flag.ndim
    shape[time_dim] = T
    return flag | at_end.view(shape)
