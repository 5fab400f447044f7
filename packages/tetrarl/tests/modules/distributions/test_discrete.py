import pytest
import torch
from torch import distributions as D
from torch.testing import assert_close

from tetrarl.modules import MaskedCategorical, OneHotCategorical

LOGITS = torch.tensor([[0.0, 1.0, -1.0], [3.0, 0.0, 0.0]])


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32], ids=str)
def test_one_hot_probabilities_are_those_of_the_index(dtype):
    dist, plain = OneHotCategorical(logits=LOGITS), D.Categorical(logits=LOGITS)
    index = torch.tensor([2, 0])
    value = torch.nn.functional.one_hot(index, 3).to(dtype)
    assert_close(dist.log_prob(value), plain.log_prob(index))
    assert_close(dist.entropy(), plain.entropy())


def test_one_hot_draws_follow_the_probabilities():
    torch.manual_seed(0)
    draws = OneHotCategorical(logits=LOGITS).sample((20000,))
    assert draws.dtype == torch.int64 and (draws.sum(-1) == 1).all()
    assert ((draws.double().mean(0) - LOGITS.softmax(-1)).abs() < 5 * 0.5 / 20000**0.5).all()


def test_one_hot_mode_is_the_likeliest_choice():
    dist = OneHotCategorical(probs=torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]]))
    want = torch.tensor([[0, 1, 0], [1, 0, 0]])
    assert torch.equal(dist.mode, want) and torch.equal(dist.deterministic_sample, want)


def test_a_forbidden_one_hot_choice_has_no_effect_on_the_others():
    dist = OneHotCategorical(logits=torch.tensor([0.0, -float("inf")]))
    assert_close(dist.log_prob(torch.tensor([1, 0])), torch.tensor(0.0))
    assert dist.log_prob(torch.tensor([0, 1])) == -float("inf")


def test_one_hot_moments_and_divergence_are_those_of_torch():
    other = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 2.0]])
    dist, plain = OneHotCategorical(logits=LOGITS), D.OneHotCategorical(logits=LOGITS)
    assert_close((dist.probs, dist.mean, dist.variance), (plain.probs, plain.mean, plain.variance))
    want = D.kl_divergence(plain, D.OneHotCategorical(logits=other))
    assert_close(D.kl_divergence(dist, OneHotCategorical(logits=other)), want)


def test_one_hot_expands():
    dist = OneHotCategorical(logits=LOGITS).expand((4, 2))
    assert dist.batch_shape == (4, 2) and dist.sample((5,)).shape == (5, 4, 2, 3)


def test_one_hot_draws_never_take_what_has_no_probability():
    torch.manual_seed(0)
    dist = OneHotCategorical(probs=torch.tensor([0.0, 0.5, 0.5]))
    assert (dist.sample((2000,))[:, 0] == 0).all()
    assert_close(dist.entropy(), torch.tensor(2.0).log())


def test_one_hot_gradients_reach_the_logits():
    logits = LOGITS.double().requires_grad_()
    value = torch.tensor([[0, 0, 1], [1, 0, 0]])
    assert torch.autograd.gradcheck(lambda x: OneHotCategorical(logits=x).log_prob(value), (logits,))


MASK = torch.tensor([[True, True, False], [False, True, True]])


def test_a_mask_leaves_a_categorical_over_what_is_allowed():
    dist = MaskedCategorical(LOGITS, mask=MASK)
    for row in range(2):
        plain = D.Categorical(logits=LOGITS[row, MASK[row]])
        assert_close(dist.probs[row, MASK[row]], plain.probs)
        assert_close(dist.entropy()[row], plain.entropy())
    assert (dist.probs[~MASK] == 0).all()
    assert torch.equal(dist.mode, torch.tensor([1, 1])) and torch.equal(dist.deterministic_sample, dist.mode)


def test_masked_draws_are_allowed():
    torch.manual_seed(0)
    draws = MaskedCategorical(probs=LOGITS.softmax(-1), mask=MASK).sample((500,))
    assert MASK.expand(500, 2, 3).gather(-1, draws[..., None]).all()


def test_masked_gradients_are_finite():
    logits = LOGITS.clone().requires_grad_()
    dist = MaskedCategorical(logits, mask=MASK)
    (dist.log_prob(torch.tensor([0, 2])).sum() + dist.entropy().sum()).backward()
    assert logits.grad.isfinite().all() and (logits.grad[~MASK] == 0).all()


def test_a_finite_floor_keeps_a_trace_of_probability():
    dist = MaskedCategorical(torch.zeros(2), mask=torch.tensor([True, False]), neg_inf=-2.0)
    assert_close(dist.probs, torch.tensor([0.0, -2.0]).softmax(-1))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="either logits or probs"):
        MaskedCategorical(mask=MASK)
    with pytest.raises(ValueError, match=r"must be \[\.\.\., K\], got a number"):
        OneHotCategorical(torch.tensor(1.0))
    with pytest.raises(TypeError, match=r"mask must be bool.*got torch\.float32"):
        MaskedCategorical(LOGITS, mask=MASK.float())


@pytest.mark.parametrize(
    "make", [OneHotCategorical, lambda x: MaskedCategorical(x, mask=MASK)], ids=["one_hot", "masked"]
)
def test_it_compiles_in_one_graph(make):
    def run(logits):
        dist = make(logits)
        draw = dist.sample()
        return draw, dist.log_prob(draw), dist.entropy(), dist.mode

    draw, log_prob, entropy, mode = torch.compile(run, backend="aot_eager", fullgraph=True)(LOGITS)
    dist = make(LOGITS)
    assert_close((log_prob, entropy, mode), (dist.log_prob(draw), dist.entropy(), dist.mode))
