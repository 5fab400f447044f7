import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from tetrarec.ops._rowwise_adagrad import rowwise_adagrad_reference

SEEDS = st.integers(0, 10**6)
EPS = 1e-8


def by_hand(case, state, rate, grad):
    """Exact row-wise Adagrad number by number: a row's gradients summed over the batch, then one move."""
    tables = [t.clone() for t in case.tables]
    states = [torch.zeros(r, dtype=torch.float64) for r in case.rows]
    starts, taken = table_states(case), 0
    for table, rows in enumerate(case.rows):
        states[table].copy_(state[starts[table] : starts[table] + rows])
    sums = [torch.zeros_like(t) for t in tables]
    sizes = case.batch_sizes if len(case.batch_sizes) > 1 else case.batch_sizes * (max(case.feature_keys) + 1)
    column = 0
    for table, key in zip(case.feature_tables, case.feature_keys, strict=True):
        dim = case.dims[table]
        for bag in range(sizes[key]):
            place = sum(sizes[:key]) + bag
            begin, end = int(case.offsets[place]), int(case.offsets[place + 1])
            if len(case.batch_sizes) == 1:
                g = grad[bag, column : column + dim]
            else:
                g = grad[taken : taken + dim]
                taken += dim
            for lookup in range(begin, end):
                factor = 1.0 if case.samples is None else case.samples[lookup]
                sums[table][int(case.indices[lookup])] += g * factor / ((end - begin) if case.mean else 1)
        column += dim
    for table, dim in enumerate(case.dims):
        for row in range(case.rows[table]):
            g = sums[table][row]
            states[table][row] += (g * g).sum() / dim
            if g.any():
                tables[table][row] -= rate * g / (states[table][row].sqrt() + EPS)
    return tables, states


def table_states(case):
    from tetrarec.ops._layout import layout_of

    return layout_of(case.rows, case.dims, case.feature_tables, case.feature_keys).table_first_rows


def arguments(case, grad, weights, state, rate):
    tail = (case.indices, case.offsets, case.samples, case.rows, case.dims, *case.lookup)
    return (weights, state, torch.tensor(rate, dtype=state.dtype), EPS, grad, *tail)


def random_grad(case):
    shape = torch.ops.tetrarec.embedding_bags(
        case.tables, case.indices, case.offsets, case.samples, *case.lookup
    ).shape
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@given(seed=SEEDS, ragged=st.booleans(), weighted=st.booleans(), mean=st.booleans())
def test_the_reference_is_what_a_hand_computes(make_case, seed, ragged, weighted, mean):
    case = make_case(seed, ragged=ragged, weighted=weighted, mean=mean, most_bags=3)
    grad, state = random_grad(case), torch.rand(sum(case.rows), dtype=torch.float64)
    tables, states = by_hand(case, state, 0.3, grad)
    rowwise_adagrad_reference(*arguments(case, grad, case.flat, state, 0.3))
    assert_close(case.tables, tables, check_stride=False)
    firsts = zip(table_states(case), case.rows, strict=True)
    assert_close([state[first : first + rows] for first, rows in firsts], states)


@given(seed=SEEDS, ragged=st.booleans(), weighted=st.booleans(), mean=st.booleans())
def test_the_operator_agrees_with_the_reference(make_case, seed, ragged, weighted, mean):
    case = make_case(seed, ragged=ragged, weighted=weighted, mean=mean)
    grad, state = random_grad(case), torch.rand(sum(case.rows), dtype=torch.float64)
    mine, theirs = (case.flat.clone(), state.clone()), (case.flat.clone(), state.clone())
    torch.ops.tetrarec.rowwise_adagrad_(*arguments(case, grad, *mine, 0.3))
    rowwise_adagrad_reference(*arguments(case, grad, *theirs, 0.3))
    assert_close(mine, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_narrow_rows_are_rounded_once(make_case, dtype):
    for seed in range(5):
        case = make_case(seed, weighted=True, mean=True).cast(dtype)
        wide = case.cast(torch.float64)
        grad = random_grad(wide).to(dtype)
        state = torch.rand(sum(case.rows))
        want, want_state = wide.flat.clone(), state.double()
        rowwise_adagrad_reference(*arguments(wide, grad.double(), want, want_state, 0.5))
        torch.ops.tetrarec.rowwise_adagrad_(*arguments(case, grad, case.flat, state, 0.5))
        # One rounding to the dtype of the rows, whose size is at most that of the row and of a step of at most
        # rate x sqrt(dim); the sums before it are float32 with up to 20 lookups a row.
        bound = torch.finfo(dtype).eps * (want.abs() + 0.5 * 8**0.5) + 40 * torch.finfo(torch.float32).eps
        assert ((case.flat.double() - want).abs() <= bound).all()
        assert_close(state.double(), want_state, rtol=40 * torch.finfo(torch.float32).eps, atol=1e-6)


@given(seed=SEEDS)
def test_rows_without_a_lookup_stay_to_the_bit(make_case, seed):
    case = make_case(seed)
    before, state = case.flat.clone(), torch.zeros(sum(case.rows), dtype=torch.float64)
    torch.ops.tetrarec.rowwise_adagrad_(*arguments(case, random_grad(case), case.flat, state, 0.3))
    for table, first in enumerate(table_states(case)):
        still = state[first : first + case.rows[table]] == 0
        old = before.as_strided(
            case.tables[table].shape, case.tables[table].stride(), case.tables[table].storage_offset()
        )
        assert case.tables[table][still].equal(old[still])


@given(seed=SEEDS, weighted=st.booleans())
def test_backward_of_the_lookup_makes_the_update(make_case, seed, weighted):
    case = make_case(seed, weighted=weighted)
    grad, state = random_grad(case), torch.zeros(sum(case.rows), dtype=torch.float64)
    want = case.flat.clone(), state.clone()
    rowwise_adagrad_reference(*arguments(case, grad, *want, 0.3))
    samples = None if case.samples is None else case.samples.clone().requires_grad_()
    expected = None
    if weighted:
        expected = torch.ops.tetrarec.sample_weight_gradients(
            grad, [t.clone() for t in case.tables], case.indices, case.offsets, case.samples, *case.lookup
        )
    out = torch.ops.tetrarec.embedding_bags_rowwise_adagrad(
        torch.zeros((), requires_grad=True),
        case.flat,
        state,
        torch.tensor(0.3, dtype=torch.float64),
        EPS,
        True,
        case.indices,
        case.offsets,
        samples,
        case.rows,
        case.dims,
        *case.lookup,
    )
    assert_close(
        out.detach(),
        torch.ops.tetrarec.embedding_bags(
            case.tables, case.indices, case.offsets, case.samples, *case.lookup
        ),
    )
    out.backward(grad)
    assert_close((case.flat, state), want)
    if weighted:
        assert_close(samples.grad, expected)


@settings(max_examples=4)
@given(seed=SEEDS)
def test_opcheck_passes(make_case, seed):
    case = make_case(seed, weighted=True)
    state = torch.zeros(sum(case.rows), dtype=torch.float64)
    everything = arguments(case, random_grad(case), case.flat, state, 0.3)
    torch.library.opcheck(torch.ops.tetrarec.rowwise_adagrad_.default, everything)
    weights, state, rate, eps, _, *tail = everything
    front = (torch.zeros((), requires_grad=True), weights, state, rate, eps, True)
    torch.library.opcheck(torch.ops.tetrarec.embedding_bags_rowwise_adagrad.default, (*front, *tail))
