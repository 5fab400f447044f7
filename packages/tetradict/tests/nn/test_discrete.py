import pytest
import torch
from torch import distributions as D
from torch.testing import assert_close

from tetradict.nn import Delta, OneHotCategorical, rand_one_hot

LOGITS = torch.tensor([[0.0, 1.0, -1.0], [3.0, 0.0, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize("key", ["logits", "probs"])
def test_one_hot_values_have_the_log_probability_of_torch(key):
    value = {"logits": LOGITS, "probs": LOGITS.softmax(-1)}[key]
    ours, torchs = OneHotCategorical(**{key: value}), D.OneHotCategorical(**{key: value})
    every = torch.eye(3, dtype=torch.int64)[:, None].expand(3, 2, 3)
    assert_close(ours.log_prob(every), torchs.log_prob(every))
    assert_close(ours.entropy(), torchs.entropy())
    assert_close(ours.mode, torchs.mode.long())
    assert_close(ours.mean, torchs.mean)
    assert_close(ours.variance, torchs.variance)
    assert ours.batch_shape == torchs.batch_shape and ours.event_shape == torchs.event_shape


def test_the_first_of_equals_is_the_mode():
    assert OneHotCategorical(logits=torch.zeros(3)).mode.tolist() == [1, 0, 0]


def test_draws_are_one_hot_and_as_frequent_as_they_should_be():
    torch.manual_seed(0)
    draws = OneHotCategorical(logits=LOGITS).sample((20000,))
    assert draws.shape == (20000, 2, 3) and draws.dtype == torch.int64 and (draws.sum(-1) == 1).all()
    p = LOGITS.softmax(-1)
    assert ((draws.double().mean(0) - p).abs() <= 5 * (p * (1 - p) / 20000).sqrt()).all()


def test_relaxed_draws_are_one_hot_and_have_a_gradient():
    logits = LOGITS.clone().requires_grad_()
    draws = OneHotCategorical(logits=logits).rsample((5,))
    assert_close(draws.max(-1).values, torch.ones(5, 2, dtype=torch.float64))
    (draws * torch.arange(3)).sum().backward()
    assert logits.grad.abs().sum() > 0


def test_vectors_are_drawn_from_a_generator():
    first, second = (rand_one_hot(LOGITS, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second) and (first.sum(-1) == 1).all()
    sure = rand_one_hot(torch.tensor([[0.0, 1.0]]), do_softmax=False)
    assert sure.tolist() == [[0, 1]]


def test_a_delta_is_at_its_point():
    point = torch.rand(3, 4, requires_grad=True)
    dist = Delta(point)
    assert dist.batch_shape == (3,) and dist.event_shape == (4,)
    assert_close(dist.log_prob(point.detach()), torch.full((3,), torch.inf))
    assert_close(dist.log_prob(point.detach() + 1), torch.full((3,), -torch.inf))
    assert dist.rsample((2,)).shape == (2, 3, 4) and dist.rsample().requires_grad
    assert not dist.sample().requires_grad
    for value in (dist.mean, dist.mode, dist.deterministic_sample):
        assert value is point
    dist.update(point + 1)
    assert_close(dist.mean, point + 1)
