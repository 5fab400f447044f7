import os

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from tetrarec.ops._embedding_bags import embedding_bags_reference, matrices_of
from tetrarec.ops._layout import plan

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1",
        reason="needs a GPU, or TRITON_INTERPRET=1",
    ),
]


def pooled(case, tables=None):
    from tetrarec.ops._embedding_bags_triton import launch

    layout, batch = plan(case.indices, case.offsets, case.samples, case.rows, case.dims, *case.lookup)
    return launch(*matrices_of(tables or case.tables, layout), batch)


def check(case, dtype, device, tables=None):
    narrow = case.cast(dtype, device)
    wide = narrow.cast(torch.float64, "cpu")
    want = embedding_bags_reference(wide.tables, wide.indices, wide.offsets, wide.samples, *wide.lookup)
    scale = embedding_bags_reference(
        [t.abs() for t in wide.tables],
        wide.indices,
        wide.offsets,
        None if wide.samples is None else wide.samples.abs(),
        *wide.lookup,
    )
    got = pooled(narrow, tables(narrow) if tables else None)
    assert got.dtype == dtype
    # The sum of at most 4 products in float32, a division, and one rounding to the dtype.
    bound = torch.finfo(dtype).eps + 8 * torch.finfo(torch.float32).eps
    assert ((got.double().cpu() - want).abs() <= bound * scale).all()


@pytest.mark.parametrize("mean", [False, True], ids=["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("ragged", [False, True], ids=["one batch size", "one a key"])
@pytest.mark.parametrize("seed", [3, 7])
def test_the_kernel_agrees_with_the_float64_reference(make_case, device, seed, ragged, weighted, mean):
    check(make_case(seed, ragged=ragged, weighted=weighted, mean=mean), torch.float32, device)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_numbers_are_rounded_once(make_case, device, dtype):
    check(make_case(3, weighted=True), dtype, device)


@pytest.mark.parametrize("dim", [1, 16, 33, 130])  # below, at, off and past a warp's worth
def test_any_width_is_pooled(make_case, device, dim):
    check(make_case(3, dims=(dim, 5)), torch.float32, device)


def test_int32_ids_and_tables_apart_are_taken(make_case, device):
    case = make_case(3, index_dtype=torch.int32)
    check(case, torch.float32, device, tables=lambda c: [t.clone() for t in c.tables])


def test_float64_is_summed_in_float64(make_case, device):
    case = make_case(4, weighted=True).cast(torch.float64, device)
    want = embedding_bags_reference(case.tables, case.indices, case.offsets, case.samples, *case.lookup)
    torch.testing.assert_close(pooled(case), want, rtol=1e-14, atol=1e-14)


def test_an_id_outside_its_table_contributes_nothing(device):
    from tetrarec.ops._embedding_bags_triton import launch

    table = torch.ones(4, 2, device=device)
    ids, offsets = torch.tensor([0, 9, -3, 1], device=device), torch.tensor([0, 2, 4], device=device)
    layout, batch = plan(ids, offsets, None, [2, 2], [2, 2], [0], [], [2], False)
    assert launch(layout, [table], batch).tolist() == [[1, 1], [1, 1]]


def test_long_bags_and_no_bags(device):
    from tetrarec.ops._embedding_bags_triton import launch

    table = torch.arange(8.0, device=device).view(4, 2)
    ids = torch.arange(37, device=device) % 4
    offsets = torch.tensor([0, 0, 37, 37], device=device)
    layout, batch = plan(ids, offsets, None, [4], [2], [0], [], [3], False)
    assert launch(layout, [table], batch).tolist() == [
        [0, 0],
        [table[ids][:, 0].sum().item(), table[ids][:, 1].sum().item()],
        [0, 0],
    ]
    layout, batch = plan(ids[:0], offsets[:1], None, [4], [2], [0], [], [0], False)
    assert launch(layout, [table], batch).shape == (0, 2)
