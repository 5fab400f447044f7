"""Non-maximum suppression: its meaning, both CPU paths, the operator."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo.utils import counters

from tetravision import ops
from tetravision.ops import _nms
from tetravision.ops._nms import floor_to, nms_reference, survivors_torch
from tetravision.tv_tensors import BoundingBoxes

NAN, INF = float("nan"), float("inf")
coordinates = st.integers(0, 12)
rows = st.lists(
    st.tuples(
        coordinates, coordinates, st.integers(0, 8), st.integers(0, 8), st.integers(0, 5), st.integers(0, 2)
    ),
    max_size=12,
)


def numba_path():
    pytest.importorskip("numba", reason="needs numba")
    from tetravision.ops._nms_numba import survivors_numba

    return survivors_numba


@pytest.fixture(params=["torch", "numba"])
def path(request):
    return survivors_torch if request.param == "torch" else numba_path()


def unpack(rows, dtype=torch.float32):
    table = torch.tensor(rows, dtype=dtype).reshape(-1, 6)
    boxes = torch.cat([table[:, :2], table[:, :2] + table[:, 2:4]], 1)
    return boxes, table[:, 4], table[:, 5].to(torch.int64)


def slow(boxes, scores, threshold, idxs):
    """Plain Python, box by box, in exact arithmetic on whole numbers."""
    order = sorted(range(len(boxes)), key=lambda i: -scores[i])
    kept = []
    for i in order:
        for j in kept:
            a, b = boxes[i], boxes[j]
            w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            overlap = max(w, 0) * max(h, 0)
            union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - overlap
            if idxs[i] == idxs[j] and union and overlap / union > threshold:
                break
        else:
            kept.append(i)
    return kept


@given(
    rows,
    st.sampled_from([0.0, 0.25, 0.3, 0.5, 1.0]),
    st.booleans(),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_a_slow_program_agrees_with_all_paths(rows, threshold, classes, dtype):
    boxes, scores, idxs = unpack(rows, dtype)
    idxs = idxs if classes else torch.zeros_like(idxs)
    want = slow(boxes.tolist(), scores.tolist(), threshold, idxs.tolist())
    assert nms_reference(boxes, scores, threshold, idxs).tolist() == want
    for path in (survivors_torch, _nms._cpu_survivors()):
        assert _nms._select(boxes, scores, idxs if classes else None, threshold, path).tolist() == want


def many(number, seed=0):
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(number, 2, generator=generator) * 100
    size = 5 + torch.rand(number, 2, generator=generator) * 40
    return torch.cat([corner, corner + size], 1), torch.rand(number, generator=generator)


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9])
def test_more_boxes_than_a_block_are_settled_alike(path, threshold):
    boxes, scores = many(700)
    idxs = torch.arange(700) % 3
    assert torch.equal(
        _nms._select(boxes, scores, None, threshold, path), nms_reference(boxes, scores, threshold)
    )
    assert torch.equal(
        _nms._select(boxes, scores, idxs, threshold, path), nms_reference(boxes, scores, threshold, idxs)
    )


@pytest.mark.smoke
def test_the_best_is_kept_and_the_answer_is_by_falling_score():
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 5], [9, 9, 12, 12]])
    scores = torch.tensor([0.8, 0.9, 0.95])
    assert ops.nms(boxes, scores, 0.5).tolist() == [2, 1]
    assert ops.batched_nms(boxes, scores, torch.tensor([0, 1, 0]), 0.5).tolist() == [2, 1, 0]


def test_only_a_strictly_greater_overlap_drops_a_box(path):
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 2]])  # overlap 0.5
    assert len(_nms._select(boxes, torch.ones(2), None, 0.5, path)) == 2
    assert len(_nms._select(boxes, torch.ones(2), None, 0.4999, path)) == 1
    tenths = torch.tensor([[0.0, 0, 10, 1], [0, 0, 3, 1]])  # float32's 0.3 is above 0.3
    assert (
        len(_nms._select(tenths, torch.ones(2), None, 0.3, path))
        == len(nms_reference(tenths, torch.ones(2), 0.3))
        == 1
    )


def test_equal_scores_keep_their_order(path):
    boxes = torch.tensor([[0.0, 0, 4, 4], [9, 9, 12, 12], [0, 0, 4, 4], [9, 9, 12, 12]])
    assert _nms._select(boxes, torch.ones(4), None, 0.5, path).tolist() == [0, 1]
    assert _nms._select(boxes, torch.ones(4), torch.tensor([1, 1, 0, 1]), 0.5, path).tolist() == [0, 1, 2]


def test_boxes_that_are_not_finite_are_kept_and_drop_no_other(path):
    boxes = torch.tensor([
        [0.0, 0, 4, 4],
        [0, NAN, 4, 4],
        [0, 0, 4, 4],
        [0, 0, INF, 4],
        [-INF, -INF, INF, INF],
        [NAN] * 4,
    ])
    scores = torch.tensor([0.9, 0.95, 0.8, 0.99, 0.7, 0.6])
    assert _nms._select(boxes, scores, None, 0.1, path).tolist() == [3, 1, 0, 4, 5]


def test_a_score_of_nan_comes_first(path):
    boxes = torch.tensor([[0.0, 0, 4, 4]]).repeat(3, 1)
    assert _nms._select(boxes, torch.tensor([0.5, NAN, 0.7]), None, 0.5, path).tolist() == [1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_every_floating_dtype_is_served(dtype):
    boxes, scores = many(60)
    boxes, scores = boxes.to(dtype), scores.to(dtype)
    assert torch.equal(ops.nms(boxes, scores, 0.4), nms_reference(boxes, scores, 0.4))


@pytest.mark.parametrize(
    "call",
    [lambda b, s, i: ops.nms(b, s, 0.5), lambda b, s, i: ops.batched_nms(b, s, i, 0.5)],
    ids=["nms", "batched"],
)
def test_no_boxes_give_no_indices(call):
    out = call(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.int64))
    assert out.shape == (0,)
    assert out.dtype == torch.int64


def test_typed_boxes_are_taken():
    boxes = BoundingBoxes([[0.0, 0, 4, 4], [0, 0, 4, 5]], format="XYXY", canvas_size=(9, 9))
    assert type(ops.nms(boxes, torch.tensor([0.8, 0.9]), 0.5)) is torch.Tensor


@given(st.floats(-2, 2, allow_nan=False), st.floats(width=32, allow_nan=False))
def test_the_rounded_threshold_decides_as_the_given_one_does(threshold, value):
    assert (value > threshold) == (value > floor_to(threshold, torch.float32))


def test_the_torch_path_is_chosen_when_numba_is_missing(monkeypatch):
    _nms._cpu_survivors.cache_clear()
    monkeypatch.setattr(_nms.importlib.util, "find_spec", lambda name: None)
    try:
        assert _nms._cpu_survivors() is survivors_torch
    finally:
        _nms._cpu_survivors.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((torch.zeros(2, 5), torch.zeros(2)), ValueError, r"boxes must be \[N, 4\], got shape \(2, 5\)"),
        (
            (torch.zeros(2, 4), torch.zeros(3)),
            ValueError,
            r"scores must be \[2\], one for each box, got shape \(3,\)",
        ),
        ((torch.zeros(2, 4, dtype=torch.int64), torch.zeros(2)), TypeError, r"pass boxes\.float\(\)"),
    ],
    ids=["boxes", "scores", "whole"],
)
def test_what_cannot_be_suppressed_is_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        ops.nms(*arguments, 0.5)
    with pytest.raises(error, match=says):
        ops.batched_nms(*arguments, torch.zeros(2, dtype=torch.int64), 0.5)
    with pytest.raises(ValueError, match=r"idxs must be \[2\]"):
        ops.batched_nms(torch.zeros(2, 4), torch.zeros(2), torch.zeros(3), 0.5)


def test_both_operators_pass_the_checks_of_torch():
    boxes, scores = many(20)
    idxs = torch.arange(20) % 2
    torch.library.opcheck(torch.ops.tetravision.nms.default, (boxes, scores, 0.5))
    torch.library.opcheck(torch.ops.tetravision.batched_nms.default, (boxes, scores, idxs, 0.5))


def test_both_compile_whole_with_one_graph_for_any_number_of_boxes():
    def run(boxes, scores, idxs):
        return ops.nms(boxes, scores, 0.5), ops.batched_nms(boxes, scores, idxs, 0.5) * 2

    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend="aot_eager")
    for number in (7, 9, 5000):
        boxes, scores = many(number)
        call = (boxes, scores, torch.arange(number) % 5)
        for got, want in zip(compiled(*call), run(*call), strict=True):
            assert torch.equal(got, want)
    assert counters["stats"]["unique_graphs"] == 1
