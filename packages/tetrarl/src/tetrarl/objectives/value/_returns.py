"""Returns: what was earned from a step on, bootstrapped where the record stops."""

import torch
from torch import Tensor

from tetrarl.objectives.value._scan import reverse_scan
from tetrarl.objectives.value._time import (
    Scan,
    bootstrap,
    check_coefficients,
    check_shapes,
    flags,
    last_step,
    solve,
)


def td_lambda(
    gamma: float | Tensor,
    lmbda: float | Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    ends: tuple[Tensor, Tensor | None],
    time_dim: int,
    scan: Scan = reverse_scan,
) -> Tensor:
    """The lambda-return, by a scan of the caller's choice."""
    done, terminated = flags(*ends)
    where = "td_lambda_return_estimate"
    check_shapes(where, next_state_value=next_state_value, reward=reward, done=done, terminated=terminated)
    check_coefficients(where, reward, gamma=gamma, lmbda=lmbda)
    trace = lmbda * (~last_step(done, time_dim)).to(reward.dtype)
    known = reward + (1 - trace) * bootstrap(gamma, next_state_value, terminated)
    return solve(known, gamma * trace * (~terminated).to(reward.dtype), time_dim, scan)


def td_lambda_return_estimate(
    gamma: float | Tensor,
    lmbda: float | Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    *,
    time_dim: int = -2,
) -> Tensor:
    """Mix the n-step returns of every n with weights that fall by ``lmbda`` a step.

    Args:
        gamma: discount in [0, 1]; a number, or a tensor that expands to the rewards (one discount a step).
        lmbda: 0 is the one-step return, 1 the return up to the end of the trajectory; as ``gamma``.
        next_state_value: values of the states after each step, ``[..., T, 1]``, floating.
        reward: as ``next_state_value``.
        done: True at the last step of a trajectory, where the return falls back on the next value. Bool, shape of
            ``reward``. The last recorded step counts as one.
        terminated: True where the episode itself ended, so that no next value counts; ``done`` when left out.
        rolling_gamma: with one ``gamma`` a step, True (when left out) discounts what comes after a step by that step's,
            False discounts all that follows a step by the one of the step it starts from, in time O(T²).
        time_dim: the dimension of time.

    Returns:
        The return, shaped like ``reward``. Differentiable.

    Raises:
        ValueError: the shapes differ, a coefficient doesn't expand to them, or ``rolling_gamma`` was given for a
            number.

    Example:
        >>> value, reward = torch.full((3, 1), 10.0), torch.ones(3, 1)
        >>> flag = torch.zeros(3, 1, dtype=torch.bool)
        >>> td_lambda_return_estimate(0.5, 0.0, value, reward, flag).flatten()
        tensor([6., 6., 6.])
        >>> td_lambda_return_estimate(0.5, 1.0, value, reward, flag).flatten()
        tensor([3., 4., 6.])

    Source: Sutton and Barto 2018, equation 12.2.
    """
    ends = (done, terminated)
    if _rolls("td_lambda_return_estimate", gamma, rolling_gamma):
        return td_lambda(gamma, lmbda, next_state_value, reward, ends, time_dim)
    each = [
        td_lambda(start.unsqueeze(time_dim), lmbda, next_state_value, reward, ends, time_dim).select(
            time_dim, t
        )
        for t, start in enumerate(gamma.expand_as(reward).unbind(time_dim))
    ]
    return torch.stack(each, time_dim)


def td_lambda_advantage_estimate(
    gamma: float | Tensor,
    lmbda: float | Tensor,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    *,
    time_dim: int = -2,
) -> Tensor:
    """Subtract ``state_value`` from td_lambda_return_estimate."""
    check_shapes("td_lambda_advantage_estimate", state_value=state_value, reward=reward)
    target = td_lambda_return_estimate(
        gamma, lmbda, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )
    return target - state_value


def td1_return_estimate(
    gamma: float | Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    *,
    time_dim: int = -2,
) -> Tensor:
    """Sum discounted rewards up to the end of the trajectory: td_lambda_return_estimate with ``lmbda=1``."""
    return td_lambda_return_estimate(
        gamma, 1.0, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )


def td1_advantage_estimate(
    gamma: float | Tensor,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    *,
    time_dim: int = -2,
) -> Tensor:
    """Subtract ``state_value`` from td1_return_estimate."""
    check_shapes("td1_advantage_estimate", state_value=state_value, reward=reward)
    target = td1_return_estimate(
        gamma, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )
    return target - state_value


def td0_return_estimate(
    gamma: float | Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    terminated: Tensor | None = None,
    *,
    done: Tensor | None = None,
) -> Tensor:
    """Add the discounted value of the next state to the reward.

    Args:
        gamma: discount in [0, 1]; a number, or a tensor that expands to the rewards.
        next_state_value: values of the states after each step, any shape, floating.
        reward: as ``next_state_value``.
        terminated: True where the episode ended, so that the next value doesn't count. Bool, shape of ``reward``.
        done: stands for ``terminated`` when that is left out.

    Returns:
        The one-step return, shaped like ``reward``. Differentiable.

    Raises:
        ValueError: neither flag was given, or the shapes differ.

    Source: Sutton and Barto 2018, equation 6.3.
    """
    terminated = done if terminated is None else terminated
    if terminated is None:
        raise ValueError(
            "td0_return_estimate: expected `terminated` or `done`, got neither; pass one of them"
        )
    where = "td0_return_estimate"
    check_shapes(where, next_state_value=next_state_value, reward=reward, terminated=terminated)
    check_coefficients(where, reward, gamma=gamma)
    return reward + bootstrap(gamma, next_state_value, terminated.to(torch.bool))


def td0_advantage_estimate(
    gamma: float | Tensor,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
) -> Tensor:
    """Subtract ``state_value`` from td0_return_estimate."""
    check_shapes("td0_advantage_estimate", state_value=state_value, reward=reward)
    return td0_return_estimate(gamma, next_state_value, reward, terminated, done=done) - state_value


def reward2go(reward: Tensor, done: Tensor, gamma: float | Tensor, *, time_dim: int = -2) -> Tensor:
    """Sum the discounted rewards from each step to the end of its trajectory, with no bootstrap.

    Args:
        reward: ``[..., T, 1]``, floating.
        done: True at the last step of a trajectory. Bool, shape of ``reward``.
        gamma: discount in [0, 1]; a number, or a tensor that expands to the rewards.
        time_dim: the dimension of time.

    Returns:
        Shaped like ``reward``. Differentiable.

    Raises:
        ValueError: the shapes differ, or ``gamma`` doesn't expand to them.

    Example:
        >>> reward, done = torch.ones(4, 1), torch.tensor([[False], [True], [False], [True]])
        >>> reward2go(reward, done, 0.5).flatten()
        tensor([1.5000, 1.0000, 1.5000, 1.0000])
    """
    check_shapes("reward2go", reward=reward, done=done)
    check_coefficients("reward2go", reward, gamma=gamma)
    return solve(reward, gamma * (~done.to(torch.bool)).to(reward.dtype), time_dim)


def _rolls(where: str, gamma: float | Tensor, rolling_gamma: bool | None) -> bool:
    """Whether each step's discount counts for that step alone."""
    per_step = isinstance(gamma, Tensor) and gamma.numel() > 1
    if rolling_gamma is not None and not per_step:
        raise ValueError(f"{where}: rolling_gamma is for one gamma a step, got a single number; leave it out")
    return rolling_gamma is None or rolling_gamma


vec_td_lambda_return_estimate = td_lambda_return_estimate
vec_td_lambda_advantage_estimate = td_lambda_advantage_estimate
vec_td1_return_estimate = td1_return_estimate
vec_td1_advantage_estimate = td1_advantage_estimate
