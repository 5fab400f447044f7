import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tetrarec.ops import table_batched_embedding_bags
from tetrarec.ops._embedding_bags import embedding_bags_reference, lie_together
from tetrarec.ops._layout import layout_of

SEEDS = st.integers(0, 10**6)


def by_torch(case):
    """An independent answer: torch.nn.functional.embedding_bag, bag by bag of every feature."""
    if len(case.batch_sizes) == 1:
        keys = max(1, (case.offsets.numel() - 1) // max(1, case.batch_sizes[0]))
        sizes = case.batch_sizes * max(keys, max(case.feature_keys) + 1)
    else:
        sizes = case.batch_sizes
    outputs = []
    for table, key in zip(case.feature_tables, case.feature_keys, strict=True):
        first = sum(sizes[:key])
        bounds = case.offsets[first : first + sizes[key] + 1].long()
        ids = slice(int(bounds[0]), int(bounds[-1])) if sizes[key] else slice(0, 0)
        samples = None if case.samples is None else case.samples[ids]
        pooled = torch.nn.functional.embedding_bag(
            case.indices[ids].long(),
            case.tables[table],
            bounds - bounds[0] if sizes[key] else torch.zeros(1, dtype=torch.long),
            mode="sum",
            per_sample_weights=samples,
            include_last_offset=True,
        )
        if case.mean:
            pooled = pooled / bounds.diff().clamp(min=1).unsqueeze(1)
        outputs.append(pooled)
    if len(case.batch_sizes) == 1:
        return torch.cat(outputs, 1)
    return torch.cat([output.reshape(-1) for output in outputs])


@given(seed=SEEDS, ragged=st.booleans(), weighted=st.booleans(), mean=st.booleans())
def test_the_reference_is_embedding_bag_table_by_table(make_case, seed, ragged, weighted, mean):
    case = make_case(seed, ragged=ragged, weighted=weighted, mean=mean)
    got = embedding_bags_reference(case.tables, case.indices, case.offsets, case.samples, *case.lookup)
    assert_close(got, by_torch(case), check_stride=False)


@given(
    seed=SEEDS,
    ragged=st.booleans(),
    weighted=st.booleans(),
    mean=st.booleans(),
    index_dtype=st.sampled_from([torch.int32, torch.int64]),
    apart=st.booleans(),
)
def test_the_operator_and_its_gradients_agree_with_the_reference(
    make_case, seed, ragged, weighted, mean, index_dtype, apart
):
    case = make_case(seed, ragged=ragged, weighted=weighted, mean=mean, index_dtype=index_dtype)
    tables = [(t.clone() if apart else t).detach().requires_grad_() for t in case.tables]
    samples = None if case.samples is None else case.samples.requires_grad_()
    inputs = tables if samples is None else [*tables, samples]
    got = torch.ops.tetrarec.embedding_bags(tables, case.indices, case.offsets, samples, *case.lookup)
    want = by_torch(case._replace(tables=tables))
    assert_close(got, want, check_stride=False)
    grad = torch.randn(want.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    wanted = (
        torch.autograd.grad(want, inputs, grad, allow_unused=True)
        if want.requires_grad
        else [None] * len(inputs)
    )
    for mine, theirs, source in zip(torch.autograd.grad(got, inputs, grad), wanted, inputs, strict=True):
        assert_close(mine, torch.zeros_like(source) if theirs is None else theirs, check_stride=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mean", [False, True], ids=["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_narrow_numbers_stay_within_their_rounding(make_case, dtype, mean, weighted):
    for seed in range(5):
        case = make_case(seed, weighted=weighted, mean=mean).cast(dtype)
        wide = case.cast(torch.float64)
        want = embedding_bags_reference(wide.tables, wide.indices, wide.offsets, wide.samples, *wide.lookup)
        scale = embedding_bags_reference(
            [t.abs() for t in wide.tables],
            wide.indices,
            wide.offsets,
            None if wide.samples is None else wide.samples.abs(),
            *wide.lookup,
        )
        got = torch.ops.tetrarec.embedding_bags(
            case.tables, case.indices, case.offsets, case.samples, *case.lookup
        )
        assert got.dtype == dtype
        # Sum and, for a mean, quotient and its divisor are each rounded once to the table's dtype.
        assert ((got.double() - want).abs() <= 4 * torch.finfo(dtype).eps * scale).all()


@pytest.mark.smoke
def test_gradients_are_those_of_finite_differences(make_case):
    case = make_case(3, weighted=True, mean=True)
    tables = [t.clone().requires_grad_() for t in case.tables]

    def pool(samples, *weights):
        return torch.ops.tetrarec.embedding_bags(
            list(weights), case.indices, case.offsets, samples, *case.lookup
        )

    assert case.indices.numel() > 3
    assert torch.autograd.gradcheck(pool, (case.samples.requires_grad_(), *tables))


def test_a_second_gradient_is_refused(make_case):
    case = make_case(3)
    tables = [t.clone().requires_grad_() for t in case.tables]
    out = torch.ops.tetrarec.embedding_bags(tables, case.indices, case.offsets, None, *case.lookup)
    grads = torch.autograd.grad(out.square().sum(), tables, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        sum(g.sum() for g in grads).backward()


def test_a_gradient_that_is_not_contiguous_is_taken(make_case):
    case = make_case(5)
    tables = [t.detach().requires_grad_() for t in case.tables]
    got = torch.ops.tetrarec.embedding_bags(tables, case.indices, case.offsets, None, *case.lookup)
    (got.sum() + got.t().contiguous().sum()).backward()
    grads = [t.grad.clone() for t in tables]
    want = embedding_bags_reference(
        [t.detach().requires_grad_() for t in tables], case.indices, case.offsets, None, *case.lookup
    )
    assert got.numel() == want.numel() > 0
    again = [t.detach().requires_grad_() for t in tables]
    torch.ops.tetrarec.embedding_bags(again, case.indices, case.offsets, None, *case.lookup).backward(
        torch.full_like(got, 2.0)
    )
    assert_close(grads, [t.grad for t in again])


@pytest.mark.parametrize("ragged", [False, True], ids=["one batch size", "one a key"])
def test_opcheck_passes(make_case, ragged):
    case = make_case(3, ragged=ragged, weighted=True)
    assert case.indices.numel() > 3
    tables = [t.clone().requires_grad_() for t in case.tables]
    arguments = (tables, case.indices, case.offsets, case.samples.requires_grad_(), *case.lookup)
    torch.library.opcheck(torch.ops.tetrarec.embedding_bags.default, arguments)


def test_the_public_function_defaults_to_a_feature_a_table():
    tables = [torch.eye(3, 2), torch.ones(2, 4)]
    ids, offsets = torch.tensor([0, 1, 1]), torch.tensor([0, 2, 2, 3, 3])
    got = table_batched_embedding_bags(tables, ids, offsets)
    assert_close(got, torch.tensor([[1.0, 1, 1, 1, 1, 1], [0.0] * 6]))
    got = table_batched_embedding_bags(
        tables, ids, offsets, torch.full((3,), 4.0), feature_table_map=[0, 0], pooling="mean"
    )
    assert_close(got, torch.tensor([[2.0, 2, 0, 4], [0.0] * 4]))


def test_an_id_outside_its_table_is_refused_and_named():
    tables = layout_of([2, 3], [4, 4], [0, 1]).tables(torch.zeros(32))
    for bad in (2, -1):
        with pytest.raises(
            IndexError, match=rf"feature 0 looks up id {bad} in table 0, whose ids are 0 to 1"
        ):
            table_batched_embedding_bags(tables, torch.tensor([bad, 2]), torch.tensor([0, 1, 2]))
    table_batched_embedding_bags(tables, torch.tensor([1, 2]), torch.tensor([0, 1, 2]))


@pytest.mark.parametrize("offsets", [[1, 2, 2], [0, 1, 3], [0, 2, 1], [0, 0, 1]])
def test_offsets_that_do_not_span_the_ids_are_refused(offsets):
    tables = [torch.zeros(4, 2)] * 2
    with pytest.raises(ValueError, match="offsets must rise from 0 to the number of ids, 2"):
        table_batched_embedding_bags(tables, torch.tensor([0, 1]), torch.tensor(offsets))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"tables": []}, ValueError, r"tables must be \[rows, dim\]"),
        ({"tables": [torch.zeros(3)]}, ValueError, r"got \[\(3,\)\]"),
        ({"tables": [torch.zeros(3, 2), torch.zeros(3, 2).double()]}, TypeError, "share one floating dtype"),
        ({"tables": [torch.zeros(3, 2).long()]}, TypeError, "share one floating dtype"),
        ({"feature_table_map": [1]}, ValueError, "must name tables 0 to 0"),
        ({"indices": torch.zeros(2, 1).long()}, ValueError, "must be 1-D"),
        ({"indices": torch.zeros(2)}, TypeError, "must be int32 or int64, got torch.float32"),
        ({"offsets": torch.zeros(2)}, TypeError, "must be int32 or int64"),
        ({"feature_table_map": [0, 0]}, ValueError, r"F \* B \+ 1 items for F = 2 features, got 2"),
        ({"per_sample_weights": torch.zeros(3)}, ValueError, "one for each of the 2 ids"),
        ({"pooling": "max"}, ValueError, """"sum" or "mean", got 'max'"""),
    ],
)
def test_arguments_that_do_not_fit_are_named(change, kind, message):
    good = {"tables": [torch.zeros(3, 2)], "indices": torch.tensor([0, 1]), "offsets": torch.tensor([0, 2])}
    with pytest.raises(kind, match=message):
        table_batched_embedding_bags(**{**good, **change})


def test_tables_are_known_to_lie_together_only_where_they_do():
    layout = layout_of([3, 5, 2], [4, 3, 4], [0, 1, 2])
    tables = layout.tables(torch.zeros(layout.numel))
    assert lie_together(tables, layout)
    assert not lie_together([t.clone() for t in tables], layout)
    assert not lie_together([tables[0], tables[1], tables[2].flip(0)], layout)
    short = torch.zeros(3 * 4)
    assert not lie_together([short.view(3, 4), tables[1], tables[2]], layout)
    one = layout_of([3], [4], [0])
    assert lie_together([torch.zeros(3, 4)], one)
    assert not lie_together([torch.zeros(4, 3).t()], one)
