import os

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from tetrarec.ops._layout import plan
from tetrarec.ops._rowwise_adagrad import rowwise_adagrad_reference
from tetrarec.ops._run_sums import table_gradients_reference

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1",
        reason="needs a GPU, or TRITON_INTERPRET=1",
    ),
]
EPS = 1e-8
FLOAT = torch.finfo(torch.float32).eps


@pytest.fixture
def short_segments(monkeypatch):
    """Runs cross borders, and pieces fill more than one step of the second pass, already in tiny batches."""
    from tetrarec.ops import _run_sums_triton as kernels

    monkeypatch.setattr(kernels, "SEGMENT", 4)
    monkeypatch.setattr(kernels, "LANES", 2)
    monkeypatch.setattr(kernels, "LIST_BAGS", 2)


def tail(case):
    return (case.indices, case.offsets, case.samples, case.rows, case.dims, *case.lookup)


def random_grad(case, dtype, device):
    layout, batch = plan(*tail(case))
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch.output_shape(layout), generator=generator).to(device, dtype)


def check(case, dtype, device):
    """Gradients, and rows and states after an update, against float64."""
    from tetrarec.ops._run_sums_triton import launch

    narrow = case.cast(dtype, device)
    grad = random_grad(narrow, dtype, device)
    layout, batch = plan(*tail(narrow))
    wide = narrow.cast(torch.float64, "cpu")
    flat = torch.zeros_like(narrow.flat)
    launch(layout, grad, batch, flat)
    want = table_gradients_reference(grad.cpu().double(), *tail(wide))
    samples = None if wide.samples is None else wide.samples.abs()
    scale = table_gradients_reference(grad.cpu().double().abs(), *tail(wide._replace(samples=samples)))
    # At most 25 lookups of a row are summed in float32, then rounded once to the dtype.
    assert ((flat.cpu().double() - want).abs() <= (torch.finfo(dtype).eps + 50 * FLOAT) * scale).all()

    state = torch.rand(sum(case.rows), generator=torch.Generator().manual_seed(2)).add_(0.1)
    weights, mine = narrow.flat.clone(), state.to(device, copy=True)
    rate = torch.tensor(0.3)
    launch(layout, grad, batch, weights, mine, rate.to(device), EPS)
    rows, theirs = wide.flat.clone(), state.double()
    rowwise_adagrad_reference(rows, theirs, rate.double(), EPS, grad.cpu().double(), *tail(wide))
    assert ((mine.cpu().double() - theirs).abs() <= 200 * FLOAT * theirs).all()
    # The step is rate x gradient / root of a state of at least 0.1.
    step = 0.3 * scale / 0.1**0.5
    bound = torch.finfo(dtype).eps * (wide.flat.abs() + step) + 200 * FLOAT * step
    assert ((weights.cpu().double() - rows).abs() <= bound).all()


@pytest.mark.parametrize("mean", [False, True], ids=["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("ragged", [False, True], ids=["one batch size", "one a key"])
@pytest.mark.parametrize("seed", [3, 8])
def test_gradients_and_updates_agree_with_float64(
    make_case, device, short_segments, seed, ragged, weighted, mean
):
    check(make_case(seed, ragged=ragged, weighted=weighted, mean=mean, most_bags=3), torch.float32, device)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_rows_are_rounded_once(make_case, device, short_segments, dtype):
    check(make_case(3, weighted=True, most_bags=3), dtype, device)


@pytest.mark.parametrize("dim", [1, 16, 33])
def test_any_width_is_updated(make_case, device, short_segments, dim):
    check(make_case(4, dims=(dim, 5), most_bags=3), torch.float32, device)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 65, 600])
def test_one_row_looked_up_all_the_time_is_summed_over_all_segments(device, count):
    from tetrarec.ops._run_sums_triton import launch

    ids = torch.cat([torch.tensor([0]), torch.full((count,), 1), torch.tensor([2, 2])]).to(device)
    total = count + 3
    offsets = torch.arange(total + 1, device=device)
    grad = torch.arange(1.0, total + 1, device=device).view(-1, 1)
    layout, batch = plan(ids, offsets, None, [3], [1], [0], [], [total], False)
    flat = torch.zeros(layout.numel, device=device)
    launch(layout, grad, batch, flat)
    want = [1, sum(range(2, count + 2)), 2 * count + 5]
    assert flat[:3].tolist() == want  # whole numbers below 2 ** 24: exact in float32


def test_an_id_outside_its_table_moves_nothing(device):
    from tetrarec.ops._run_sums_triton import launch

    ids, offsets = torch.tensor([0, 5, -1, 1], device=device), torch.tensor([0, 1, 2, 3, 4], device=device)
    layout, batch = plan(ids, offsets, None, [2, 9], [1, 1], [0], [], [4], False)
    flat = torch.zeros(layout.numel, device=device)
    launch(layout, torch.ones(4, 1, device=device), batch, flat)
    assert flat.tolist() == [1, 1] + [0] * (layout.numel - 2)


def test_the_same_batch_gives_the_same_bits(make_case, device, short_segments):
    from tetrarec.ops._run_sums_triton import launch

    case = make_case(3, weighted=True).cast(torch.float32, device)
    grad = random_grad(case, torch.float32, device)
    layout, batch = plan(*tail(case))
    first, second = torch.zeros(2, layout.numel, device=device)
    launch(layout, grad, batch, first)
    launch(layout, grad, batch, second)
    assert first.equal(second)
    assert first.abs().sum() > 0
