import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from tetrarec.ops._embedding_bags import embedding_bags_reference
from tetrarec.ops._sample_weights import sample_weight_gradients_reference

SEEDS = st.integers(0, 10**6)


@given(seed=SEEDS, ragged=st.booleans(), mean=st.booleans())
def test_the_operator_and_the_reference_are_the_gradient_of_the_pooled_lookup(make_case, seed, ragged, mean):
    case = make_case(seed, ragged=ragged, weighted=True, mean=mean)
    samples = case.samples.clone().requires_grad_()
    out = embedding_bags_reference(case.tables, case.indices, case.offsets, samples, *case.lookup)
    grad = torch.randn(out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    want = torch.zeros_like(samples)
    if out.requires_grad:
        (want,) = torch.autograd.grad(out, samples, grad)
    arguments = (grad, case.tables, case.indices, case.offsets, case.samples, *case.lookup)
    assert_close(torch.ops.tetrarec.sample_weight_gradients(*arguments), want)
    assert_close(sample_weight_gradients_reference(*arguments), want)


def test_weights_of_another_dtype_get_gradients_in_it(make_case):
    case = make_case(2, weighted=True)
    samples = case.samples.float().requires_grad_()
    out = torch.ops.tetrarec.embedding_bags(case.tables, case.indices, case.offsets, samples, *case.lookup)
    out.sum().backward()
    assert samples.grad.dtype == torch.float32
    assert samples.grad.abs().sum() > 0


@settings(max_examples=4)
@given(seed=SEEDS)
def test_opcheck_passes(make_case, seed):
    case = make_case(seed, weighted=True)
    grad = torch.ops.tetrarec.embedding_bags(
        case.tables, case.indices, case.offsets, case.samples, *case.lookup
    )
    arguments = (
        grad,
        [t.clone() for t in case.tables],
        case.indices,
        case.offsets,
        case.samples,
        *case.lookup,
    )
    torch.library.opcheck(torch.ops.tetrarec.sample_weight_gradients.default, arguments)
