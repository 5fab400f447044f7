import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetrarl.objectives.value.functional import (
    generalized_advantage_estimate,
    td0_advantage_estimate,
    td1_advantage_estimate,
    vec_generalized_advantage_estimate,
    vtrace_advantage_estimate,
)


def episodes(T, seed=0, n=3, dtype=torch.float64):
    """Values, next values, rewards, done and terminated of shape [n, T, 1]."""
    g = torch.Generator().manual_seed(seed)
    value, next_value, reward = (torch.randn(n, T, 1, dtype=dtype, generator=g) for _ in range(3))
    done = torch.rand(n, T, 1, generator=g) < 0.3
    terminated = done & (torch.rand(n, T, 1, generator=g) < 0.5)
    return value, next_value, reward, done, terminated


def slow_gae(gamma, lmbda, value, next_value, reward, done, terminated):
    """The recursion, one number at a time, for shape [n, T, 1]."""
    gamma, lmbda = (torch.as_tensor(c, dtype=torch.float64).expand_as(reward) for c in (gamma, lmbda))
    out = torch.zeros_like(reward)
    for n in range(reward.shape[0]):
        later = 0.0
        for t in reversed(range(reward.shape[1])):
            g, lam = gamma[n, t, 0].item(), lmbda[n, t, 0].item()
            target = reward[n, t, 0].item()
            if not terminated[n, t, 0]:
                target += g * next_value[n, t, 0].item()
            later = target - value[n, t, 0].item() + (0.0 if done[n, t, 0] else g * lam * later)
            out[n, t, 0] = later
    return out


def slow_vtrace(gamma, log_pi, log_mu, value, next_value, reward, done, terminated, rho_bar, c_bar):
    """Equation 1 of the paper as a double sum over each trajectory."""
    weight = (log_pi - log_mu).exp()
    rho, c = weight.clamp(max=rho_bar), weight.clamp(max=c_bar)
    target, advantage = value.clone(), torch.zeros_like(value)
    N, T, _ = reward.shape
    for n in range(N):
        for s in range(T):
            factor = 1.0
            for t in range(s, T):
                ahead = 0 if terminated[n, t, 0] else next_value[n, t, 0]
                residual = rho[n, t, 0] * (reward[n, t, 0] + gamma * ahead - value[n, t, 0])
                target[n, s, 0] += factor * residual
                if done[n, t, 0]:
                    break
                factor *= gamma * c[n, t, 0].item()
        for t in range(T):
            cut = done[n, t, 0] or t == T - 1
            ahead = next_value[n, t, 0] if cut else target[n, t + 1, 0]
            ahead = 0 if terminated[n, t, 0] else ahead
            advantage[n, t, 0] = rho[n, t, 0] * (reward[n, t, 0] + gamma * ahead - value[n, t, 0])
    return advantage, target


@given(T=st.integers(1, 40), seed=st.integers(0, 999), gamma=st.floats(0, 1), lmbda=st.floats(0, 1))
def test_gae_agrees_with_the_slow_recursion(T, seed, gamma, lmbda):
    data = episodes(T, seed)
    advantage, target = generalized_advantage_estimate(gamma, lmbda, *data)
    want = slow_gae(gamma, lmbda, *data)
    assert_close(advantage, want)
    assert_close(target, want + data[0])


@given(T=st.integers(2, 30), seed=st.integers(0, 999))
def test_what_follows_the_end_of_a_trajectory_never_reaches_it(T, seed):
    data = episodes(T, seed)
    cut = T // 2
    data[3][:, cut - 1] = True
    whole, _ = generalized_advantage_estimate(0.9, 0.8, *data)
    alone, _ = generalized_advantage_estimate(0.9, 0.8, *(x[:, :cut] for x in data))
    assert_close(whole[:, :cut], alone)


@given(T=st.integers(1, 30), seed=st.integers(0, 999))
def test_lambda_zero_and_one_are_td0_and_td1(T, seed):
    data = episodes(T, seed)
    assert_close(generalized_advantage_estimate(0.9, 0.0, *data)[0], td0_advantage_estimate(0.9, *data))
    value, next_value, reward, done, terminated = data
    # inside a trajectory TD(1) never reads a value, so GAE agrees where next values are the values of the next states
    chained = torch.cat([value[:, 1:], next_value[:, -1:]], 1)
    next_value = torch.where(done, next_value, chained)
    data = value, next_value, reward, done, terminated
    assert_close(generalized_advantage_estimate(0.9, 1.0, *data)[0], td1_advantage_estimate(0.9, *data))


def test_per_step_coefficients_agree_with_the_slow_recursion():
    data = episodes(17)
    gamma, lmbda = torch.rand(3, 17, 1).double() * 0.2 + 0.8, torch.rand(3, 17, 1).double()
    want = slow_gae(gamma, lmbda, *data)
    assert_close(generalized_advantage_estimate(gamma, lmbda, *data)[0], want)
    assert_close(vec_generalized_advantage_estimate(gamma, lmbda, *data)[0], want)
    by_step = gamma[:1]
    assert_close(
        generalized_advantage_estimate(by_step, 0.9, *data)[0], slow_gae(by_step.expand(3, 17, 1), 0.9, *data)
    )


@pytest.mark.smoke
def test_rewards_of_one_give_geometric_sums():
    T, gamma, lmbda = 500, 0.97, 0.9
    zeros, ones = torch.zeros(1, T, 1).double(), torch.ones(1, T, 1).double()
    flag = torch.zeros(1, T, 1, dtype=torch.bool)
    got, _ = generalized_advantage_estimate(gamma, lmbda, zeros, zeros, ones, flag)
    left = torch.arange(T, 0, -1).double()
    d = gamma * lmbda
    assert_close(got[0, :, 0], (1 - d**left) / (1 - d))


@pytest.mark.parametrize("time_dim", [0, 1, -1, -2])
def test_time_may_lie_anywhere(time_dim):
    data = [x[..., 0] for x in episodes(20, n=20)]
    want = generalized_advantage_estimate(0.9, 0.8, *data, time_dim=1)[0]
    if time_dim in (0, -2):
        data = [x.T for x in data]
        want = want.T
    assert_close(generalized_advantage_estimate(0.9, 0.8, *data, time_dim=time_dim)[0], want)


def test_a_single_line_of_time_is_enough():
    data = episodes(30)
    want = generalized_advantage_estimate(0.9, 0.8, *data)[0][0, :, 0]
    got = generalized_advantage_estimate(0.9, 0.8, *(x[0, :, 0] for x in data), time_dim=0)[0]
    assert_close(got, want)


def test_a_value_that_is_no_number_past_the_end_does_no_harm():
    value, next_value, reward, done, terminated = episodes(25)
    value.requires_grad_()
    spoiled = next_value.masked_fill(terminated, float("nan")).requires_grad_()
    got, _ = generalized_advantage_estimate(0.9, 0.8, value, spoiled, reward, done, terminated)
    want, _ = generalized_advantage_estimate(0.9, 0.8, value, next_value, reward, done, terminated)
    assert_close(got, want)
    got.sum().backward()
    assert spoiled.grad.isfinite().all() and (spoiled.grad[terminated] == 0).all()


def test_gae_is_differentiable_in_everything_that_floats():
    value, next_value, reward, done, terminated = episodes(20, n=2)
    gamma, lmbda = torch.full((2, 20, 1), 0.9).double(), torch.tensor(0.8).double()
    leaves = [x.requires_grad_() for x in (gamma, lmbda, value, next_value, reward)]

    def run(*tensors):
        return generalized_advantage_estimate(*tensors, done, terminated)

    assert torch.autograd.gradcheck(run, leaves)


def test_done_stands_for_terminated_when_that_is_left_out():
    value, next_value, reward, done, _ = episodes(10)
    got = generalized_advantage_estimate(0.9, 0.8, value, next_value, reward, done)
    want = generalized_advantage_estimate(0.9, 0.8, value, next_value, reward, done, done)
    assert_close(got, want)


def test_flags_may_be_numbers():
    value, next_value, reward, done, terminated = episodes(10)
    want = generalized_advantage_estimate(0.9, 0.8, value, next_value, reward, done, terminated)
    got = generalized_advantage_estimate(
        0.9, 0.8, value, next_value, reward, done.float(), terminated.to(torch.uint8)
    )
    assert_close(got, want)


def test_the_result_is_contiguous():
    advantage, target = generalized_advantage_estimate(0.9, 0.8, *episodes(40))
    assert advantage.is_contiguous() and target.is_contiguous()


def test_gae_compiles_in_one_graph():
    data = episodes(30)
    compiled = torch.compile(generalized_advantage_estimate, backend="aot_eager", fullgraph=True)
    assert_close(compiled(0.9, 0.8, *data), generalized_advantage_estimate(0.9, 0.8, *data))


def test_differing_shapes_are_refused_with_the_mend():
    value, next_value, reward, done, terminated = episodes(5)
    with pytest.raises(ValueError, match=r"reward \(3, 5\).*unsqueeze\(-1\)"):
        generalized_advantage_estimate(0.9, 0.8, value, next_value, reward[..., 0], done, terminated)


def test_a_discount_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"gamma must be a number.*\(3, 5, 1\).*shape \(4,\)"):
        generalized_advantage_estimate(torch.rand(4), 0.8, *episodes(5))


@given(T=st.integers(1, 20), seed=st.integers(0, 999))
def test_vtrace_agrees_with_the_sum_of_the_paper(T, seed):
    data = episodes(T, seed)
    g = torch.Generator().manual_seed(seed)
    log_pi, log_mu = (torch.randn(3, T, 1, dtype=torch.float64, generator=g) for _ in range(2))
    got = vtrace_advantage_estimate(0.9, log_pi, log_mu, *data, 1.1, 0.8)
    assert_close(got, slow_vtrace(0.9, log_pi, log_mu, *data, 1.1, 0.8))


def test_vtrace_does_not_read_across_a_truncation():
    zero = torch.zeros(1, 4, 1)
    value = torch.tensor([1.0, 1.0, 100.0, 100.0]).view(1, 4, 1)
    done = torch.tensor([False, True, False, True]).view(1, 4, 1)
    advantage, target = vtrace_advantage_estimate(
        1.0, zero, zero, value, value, zero, done, torch.zeros_like(done)
    )
    assert_close(advantage, zero)
    assert_close(target, value)
