"""Advantages: how much better an action was than the value of its state."""

import torch
from torch import Tensor

from tetrarl.objectives.value._scan import reverse_scan
from tetrarl.objectives.value._time import (
    Scan,
    bootstrap,
    check_coefficients,
    check_shapes,
    flags,
    shift_back,
    solve,
)


def gae(
    gamma: float | Tensor,
    lmbda: float | Tensor,
    values: tuple[Tensor, Tensor],
    reward: Tensor,
    ends: tuple[Tensor, Tensor | None],
    time_dim: int,
    scan: Scan = reverse_scan,
) -> tuple[Tensor, Tensor]:
    """Advantage and value target, by a scan of the caller's choice."""
    (state_value, next_state_value), (done, terminated) = values, flags(*ends)
    where = "generalized_advantage_estimate"
    check_shapes(
        where,
        state_value=state_value,
        next_state_value=next_state_value,
        reward=reward,
        done=done,
        terminated=terminated,
    )
    check_coefficients(where, reward, gamma=gamma, lmbda=lmbda)
    residual = reward + bootstrap(gamma, next_state_value, terminated) - state_value
    advantage = solve(residual, (gamma * lmbda) * (~done).to(residual.dtype), time_dim, scan)
    return advantage, advantage + state_value


def generalized_advantage_estimate(
    gamma: float | Tensor,
    lmbda: float | Tensor,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    *,
    time_dim: int = -2,
) -> tuple[Tensor, Tensor]:
    """Estimate advantages with an exponentially weighted sum of temporal-difference residuals.

    A next value counts unless the episode ``terminated`` there; the sum stops at ``done``, so that a trajectory cut
    short keeps its bootstrap but takes nothing from the one recorded after it.

    Args:
        gamma: discount in [0, 1]; a number, or a tensor that expands to the rewards (one discount a step).
        lmbda: weight of later residuals in [0, 1]; as ``gamma``.
        state_value: values of the states, ``[..., T, 1]``, floating.
        next_state_value: values of the states after them, as ``state_value``. What stands where ``terminated`` is set
            doesn't matter, be it NaN.
        reward: as ``state_value``.
        done: True at the last step of a trajectory, for whatever reason; bool, shape of ``reward``.
        terminated: True where the episode itself ended; ``done`` when left out.
        time_dim: the dimension of time.

    Returns:
        The advantage and the value target (advantage plus value), both shaped like ``reward``. Differentiable.

    Raises:
        ValueError: the shapes differ, or a coefficient doesn't expand to them.

    Example:
        >>> zeros, ones = torch.zeros(3, 1), torch.ones(3, 1)
        >>> done = torch.tensor([[False], [False], [True]])
        >>> generalized_advantage_estimate(0.5, 1.0, zeros, zeros, ones, done)[0].flatten()
        tensor([1.7500, 1.5000, 1.0000])

    Source: Schulman et al. 2016, equation 16 (arXiv:1506.02438).
    """
    return gae(gamma, lmbda, (state_value, next_state_value), reward, (done, terminated), time_dim)


vec_generalized_advantage_estimate = generalized_advantage_estimate


def vtrace_advantage_estimate(
    gamma: float | Tensor,
    log_pi: Tensor,
    log_mu: Tensor,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rho_thresh: float | Tensor = 1.0,
    c_thresh: float | Tensor = 1.0,
    time_dim: int = -2,
) -> tuple[Tensor, Tensor]:
    """Estimate advantages of one policy from data of another, with truncated importance weights.

    Args:
        gamma: discount in [0, 1]; a number, or a tensor that expands to the rewards.
        log_pi: log-probability of each action under the policy to be judged, ``[..., T, 1]``.
        log_mu: the same under the policy that acted.
        state_value: values of the states, ``[..., T, 1]``, floating.
        next_state_value: values of the states after them.
        reward: as ``state_value``.
        done: True at the last step of a trajectory; nothing is read across it. Bool, shape of ``reward``.
        terminated: True where the episode itself ended; ``done`` when left out.
        rho_thresh: upper bound of the weights on the residuals.
        c_thresh: upper bound of the weights on later corrections.
        time_dim: the dimension of time.

    Returns:
        The advantage and the value target, both shaped like ``reward``. Differentiable.

    Raises:
        ValueError: the shapes differ, or ``gamma`` doesn't expand to them.

    Source: Espeholt et al. 2018, equations 1 and 4.2 (arXiv:1802.01561).
    """
    done, terminated = flags(done, terminated)
    where = "vtrace_advantage_estimate"
    check_shapes(
        where,
        log_pi=log_pi,
        log_mu=log_mu,
        state_value=state_value,
        next_state_value=next_state_value,
        reward=reward,
        done=done,
        terminated=terminated,
    )
    check_coefficients(where, reward, gamma=gamma)
    weight = (log_pi - log_mu).exp()
    rho, c = (weight.clamp(max=limit) for limit in (rho_thresh, c_thresh))
    residual = rho * (reward + bootstrap(gamma, next_state_value, terminated) - state_value)
    correction = solve(residual, gamma * c * (~done).to(residual.dtype), time_dim)
    target = state_value + correction
    later = torch.where(done, next_state_value, shift_back(target, next_state_value, time_dim))
    advantage = rho * (reward + bootstrap(gamma, later, terminated) - state_value)
    return advantage, target
