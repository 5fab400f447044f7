import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from tetrarec.ops import _run_sums
from tetrarec.ops._layout import plan
from tetrarec.ops._run_sums import table_gradients_reference, touched_rows

SEEDS = st.integers(0, 10**6)


def output_grad(case, dtype=torch.float64):
    shape = torch.ops.tetrarec.embedding_bags(
        case.tables, case.indices, case.offsets, case.samples, *case.lookup
    ).shape
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def lookup(case):
    return (case.indices, case.offsets, case.samples, case.rows, case.dims, *case.lookup)


@given(seed=SEEDS, ragged=st.booleans(), weighted=st.booleans(), mean=st.booleans())
def test_table_gradients_agree_with_the_reference(make_case, seed, ragged, weighted, mean):
    case = make_case(seed, ragged=ragged, weighted=weighted, mean=mean)
    grad = output_grad(case)
    assert_close(
        torch.ops.tetrarec.table_gradients(grad, *lookup(case)),
        table_gradients_reference(grad, *lookup(case)),
    )


@given(seed=SEEDS, size=st.sampled_from([1, 8, 64]))
def test_small_blocks_and_small_sorts_change_nothing(make_case, seed, size):
    case = make_case(seed, weighted=True)
    grad = output_grad(case)
    want = table_gradients_reference(grad, *lookup(case))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_run_sums, "SUM_ELEMENTS", size)
        patch.setattr(_run_sums, "SORTED_LOOKUPS", size // 8)
        assert_close(torch.ops.tetrarec.table_gradients(grad, *lookup(case)), want)


@given(seed=SEEDS)
def test_each_touched_row_is_given_once_and_rising(make_case, seed):
    case = make_case(seed)
    layout, batch = plan(*lookup(case))
    seen = []
    for runs in touched_rows(layout, output_grad(case), batch):
        assert runs.rows.equal(runs.rows.unique())
        assert sum(len(sums) for _, sums in runs.sums()) == len(runs.rows)
        seen += [(runs.group.start, row) for row in runs.rows.tolist()]
    features = {f.index: (group, f) for group in layout.groups for f in group.features}
    want = {
        (features[index][0].start, features[index][1].first_row + int(i))
        for index, key in enumerate(case.feature_keys)
        for i in ids_of(case, key)
    }
    assert len(seen) == len(set(seen))
    assert set(seen) == want


def ids_of(case, key):
    sizes = case.batch_sizes if len(case.batch_sizes) > 1 else case.batch_sizes * (key + 1)
    first = sum(sizes[:key])
    bounds = case.offsets[first : first + sizes[key] + 1]
    return case.indices[int(bounds[0]) : int(bounds[-1])] if sizes[key] else []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_gradients_are_summed_in_float32(dtype):
    # 2049 ones do not fit a float16 sum: adding one by one stops at 2048 (256 for bfloat16).
    count = 2049
    bags = torch.arange(count + 1)
    grad = torch.ones(count, 1, dtype=dtype)
    arguments = (torch.zeros(count, dtype=torch.long), bags, None, [1], [1], [0], [], [count], False)
    layout, batch = plan(*arguments)
    (runs,) = touched_rows(layout, grad, batch)
    ((_, sums),) = runs.sums()
    assert sums.dtype == torch.float32
    assert sums.item() == count


@settings(max_examples=4)
@given(seed=SEEDS)
def test_opcheck_passes(make_case, seed):
    case = make_case(seed, weighted=True)
    torch.library.opcheck(torch.ops.tetrarec.table_gradients.default, (output_grad(case), *lookup(case)))
