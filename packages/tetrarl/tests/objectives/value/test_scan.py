import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetrarl.objectives.value._scan import reverse_scan, reverse_scan_reference

LENGTHS = [0, 1, 2, 16, 17, 24, 25, 26, 100]  # around the shortest blocks, and off and on their ends


def problem(T, M, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(T, M, dtype=dtype, generator=generator)
    decay = torch.rand(T, M, dtype=dtype, generator=generator)
    return values, decay * (torch.rand(T, M, generator=generator) > 0.1)


def by_hand(values, decay):
    """The recursion over Python floats."""
    rows = [[0.0] * values.shape[1]]
    for x, d in zip(reversed(values.tolist()), reversed(decay.tolist()), strict=True):
        rows.append([a + b * c for a, b, c in zip(x, d, rows[-1], strict=True)])
    return torch.tensor(rows[:0:-1], dtype=torch.float64).reshape(values.shape)


@given(T=st.integers(0, 60), M=st.integers(1, 4), seed=st.integers(0, 99))
def test_scanning_the_tail_first_gives_the_same(T, M, seed):
    values, decay = problem(T, M, seed=seed)
    whole = reverse_scan(values, decay)
    cut = T // 2
    tail = reverse_scan(values[cut:], decay[cut:])
    head = values[:cut].clone()
    if 0 < cut < T:
        head[-1] += decay[cut - 1] * tail[0]
    assert_close(torch.cat([reverse_scan(head, decay[:cut]), tail]), whole)


@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("M", [1, 3])
def test_it_agrees_with_the_recursion_over_floats(T, M):
    values, decay = problem(T, M)
    want = by_hand(values, decay)
    assert_close(reverse_scan(values, decay), want)
    assert_close(reverse_scan_reference(values, decay), want)


def test_a_constant_decay_sums_a_geometric_series():
    T, d = 1000, 0.99
    got = reverse_scan(torch.ones(T, 1, dtype=torch.float64), torch.full((T, 1), d, dtype=torch.float64))
    left = torch.arange(T, 0, -1, dtype=torch.float64)
    assert_close(got[:, 0], (1 - d**left) / (1 - d))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("T", [7, 300])
def test_low_precision_accumulates_in_float32(T, dtype):
    values, decay = problem(T, 2, dtype)
    decay = decay.clamp(max=0.99)
    got = reverse_scan(values, decay)
    assert got.dtype == dtype
    want = by_hand(values.double(), decay.double())
    scale = by_hand(values.double().abs(), decay.double())  # the sum's own scale
    steps = 4 * T * torch.finfo(torch.float32).eps + torch.finfo(dtype).eps
    assert ((got.double() - want).abs() <= steps * scale).all()


@pytest.mark.parametrize("T", [0, 1, 5, 17, 26])
def test_first_and_second_derivatives_agree_with_finite_differences(T):
    inputs = [t.requires_grad_() for t in problem(T, 2)]
    if T:
        assert torch.autograd.gradcheck(reverse_scan, inputs)
        assert torch.autograd.gradgradcheck(reverse_scan, inputs)
    else:
        reverse_scan(*inputs).sum().backward()
        assert inputs[1].grad.shape == (0, 2)


@pytest.mark.parametrize("T", [1, 5, 30])
def test_the_operator_is_registered_soundly(T):
    values, decay = problem(T, 2)
    torch.library.opcheck(reverse_scan, (values.requires_grad_(), decay.requires_grad_()))
    torch.library.opcheck(reverse_scan, (values.detach(), decay.detach().T.contiguous().T))


@pytest.mark.parametrize("in_dims", [(0, 0), (1, None), (None, 2)])
def test_vmap_is_the_same_as_one_call_for_each(in_dims):
    shapes = {0: (3, 20, 2), 1: (20, 3, 2), 2: (20, 2, 3), None: (20, 2)}
    values, decay = (torch.rand(shapes[dim], dtype=torch.float64) for dim in in_dims)
    got = torch.vmap(reverse_scan, in_dims)(values, decay)
    pick = [lambda t, i, dim=dim: t if dim is None else t.select(dim, i) for dim in in_dims]
    want = torch.stack([reverse_scan(pick[0](values, i), pick[1](decay, i)) for i in range(3)])
    assert_close(got, want)


def test_it_compiles_to_one_node_for_every_length():
    compiled = torch.compile(reverse_scan, backend="aot_eager", fullgraph=True, dynamic=True)
    for T in (20, 33):
        values, decay = problem(T, 2)
        assert_close(compiled(values, decay), by_hand(values, decay))


def test_inputs_are_left_alone():
    for T in (5, 50):
        values, decay = problem(T, 2)
        kept = values.clone(), decay.clone()
        reverse_scan(values, decay)
        assert torch.equal(values, kept[0]) and torch.equal(decay, kept[1])
