import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetrarl.objectives.value import functional as F


def episodes(T, seed=0, n=3):
    """Next values, rewards, done and terminated of shape [n, T, 1]."""
    g = torch.Generator().manual_seed(seed)
    next_value, reward = (torch.randn(n, T, 1, dtype=torch.float64, generator=g) for _ in range(2))
    done = torch.rand(n, T, 1, generator=g) < 0.3
    terminated = done & (torch.rand(n, T, 1, generator=g) < 0.5)
    return next_value, reward, done, terminated


def n_step_return(gamma, t, n, next_value, reward, terminated):
    """Rewards of n steps from t on, then the value of the state they lead to."""
    total = sum(gamma**k * reward[t + k].item() for k in range(n))
    return total + (0.0 if terminated[t + n - 1] else gamma**n * next_value[t + n - 1].item())


def slow_lambda_return(gamma, lmbda, next_value, reward, done, terminated):
    """Equation 12.2: a weighted mean of the n-step returns, the longest one taking the rest of the weight."""
    out = torch.zeros_like(reward)
    for i in range(reward.shape[0]):
        row = [x[i, :, 0] for x in (next_value, reward, terminated)]
        T = reward.shape[1]
        for t in range(T):
            ends = [s for s in range(t, T) if done[i, s, 0] or s == T - 1]
            longest = ends[0] - t + 1
            mixed = [
                (1 - lmbda) * lmbda ** (n - 1) * n_step_return(gamma, t, n, *row) for n in range(1, longest)
            ]
            out[i, t, 0] = sum(mixed) + lmbda ** (longest - 1) * n_step_return(gamma, t, longest, *row)
    return out


@given(T=st.integers(1, 25), seed=st.integers(0, 999), gamma=st.floats(0, 1), lmbda=st.floats(0, 1))
def test_the_lambda_return_is_the_weighted_mean_of_n_step_returns(T, seed, gamma, lmbda):
    data = episodes(T, seed)
    want = slow_lambda_return(gamma, lmbda, *data)
    assert_close(F.td_lambda_return_estimate(gamma, lmbda, *data), want)
    assert_close(F.vec_td_lambda_return_estimate(gamma, lmbda, *data), want)


@given(T=st.integers(1, 25), seed=st.integers(0, 999))
def test_td0_and_td1_are_the_ends_of_the_lambda_return(T, seed):
    next_value, reward, _done, terminated = data = episodes(T, seed)
    assert_close(
        F.td0_return_estimate(0.9, next_value, reward, terminated), slow_lambda_return(0.9, 0.0, *data)
    )
    assert_close(F.td1_return_estimate(0.9, *data), slow_lambda_return(0.9, 1.0, *data))
    assert_close(F.vec_td1_return_estimate(0.9, *data), slow_lambda_return(0.9, 1.0, *data))


@given(T=st.integers(1, 25), seed=st.integers(0, 999))
def test_an_advantage_is_the_return_less_the_value(T, seed):
    data = episodes(T, seed)
    value = torch.randn(3, T, 1).double()
    assert_close(
        F.td_lambda_advantage_estimate(0.9, 0.5, value, *data), slow_lambda_return(0.9, 0.5, *data) - value
    )
    assert_close(F.td1_advantage_estimate(0.9, value, *data), slow_lambda_return(0.9, 1.0, *data) - value)
    assert_close(F.td0_advantage_estimate(0.9, value, *data), slow_lambda_return(0.9, 0.0, *data) - value)


@given(T=st.integers(1, 25), seed=st.integers(0, 999))
def test_reward_to_go_is_the_return_of_valueless_states(T, seed):
    next_value, reward, done, _ = episodes(T, seed)
    want = slow_lambda_return(0.9, 1.0, torch.zeros_like(next_value), reward, done, done)
    assert_close(F.reward2go(reward, done, 0.9), want)


def test_a_discount_per_step_discounts_what_comes_after_that_step():
    next_value, reward, done, terminated = data = episodes(3, n=1)
    done.zero_(), terminated.zero_()
    g = torch.tensor([0.5, 0.7, 0.9]).double().view(1, 3, 1)
    r, v = reward.flatten(), next_value.flatten()
    last = r[2] + 0.9 * v[2]
    want = torch.stack([r[0] + 0.5 * (r[1] + 0.7 * last), r[1] + 0.7 * last, last]).view(1, 3, 1)
    assert_close(F.td1_return_estimate(g, *data), want)
    assert_close(F.td0_return_estimate(g, next_value, reward, terminated), reward + g * next_value)


def test_a_discount_that_does_not_roll_counts_for_all_that_follows():
    next_value, reward, done, terminated = data = episodes(12)
    gamma = torch.rand(3, 12, 1).double()
    want = torch.zeros_like(reward)
    for n in range(3):
        for t in range(12):
            row = [x[n : n + 1] for x in data]
            want[n, t] = slow_lambda_return(gamma[n, t, 0].item(), 0.7, *row)[0, t]
    assert_close(F.td_lambda_return_estimate(gamma, 0.7, *data, rolling_gamma=False), want)
    rolling = F.td_lambda_return_estimate(gamma, 0.7, *data)
    assert_close(F.td_lambda_return_estimate(gamma, 0.7, *data, rolling_gamma=True), rolling)
    assert not torch.allclose(rolling, want)
    with pytest.raises(ValueError, match="rolling_gamma is for one gamma a step"):
        F.td1_return_estimate(0.9, next_value, reward, done, terminated, False)


@pytest.mark.parametrize("lmbda", [0.0, 0.5, 1.0])
def test_the_lambda_return_is_differentiable(lmbda):
    next_value, reward, done, terminated = episodes(20, n=2)
    leaves = next_value.requires_grad_(), reward.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda v, r: F.td_lambda_return_estimate(0.9, lmbda, v, r, done, terminated), leaves
    )


def test_td0_takes_done_for_terminated():
    next_value, reward, done, _ = episodes(5)
    want = F.td0_return_estimate(0.9, next_value, reward, done)
    assert_close(F.td0_return_estimate(0.9, next_value, reward, done=done), want)
    with pytest.raises(ValueError, match="got neither"):
        F.td0_return_estimate(0.9, next_value, reward)


def test_every_return_compiles_in_one_graph():
    data = episodes(20)
    compiled = torch.compile(F.td_lambda_return_estimate, backend="aot_eager", fullgraph=True)
    assert_close(compiled(0.9, 0.8, *data), F.td_lambda_return_estimate(0.9, 0.8, *data))


def test_no_steps_give_no_returns():
    data = episodes(0)
    assert F.td_lambda_return_estimate(0.9, 0.8, *data).shape == (3, 0, 1)
    assert F.reward2go(data[1], data[2], 0.9).shape == (3, 0, 1)


def test_differing_shapes_are_refused():
    next_value, reward, done, terminated = episodes(5)
    with pytest.raises(ValueError, match=r"reward2go.*done \(3, 5\)"):
        F.reward2go(reward, done[..., 0], 0.9)
    with pytest.raises(ValueError, match=r"td_lambda_return_estimate.*terminated \(3, 4, 1\)"):
        F.td_lambda_return_estimate(0.9, 0.5, next_value, reward, done, terminated[:, 1:])
