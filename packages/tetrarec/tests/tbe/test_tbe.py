import copy
import pickle

import pytest
import torch
from torch.testing import assert_close

from tetrarec.tbe import TableBatchedEmbeddingBags


def batch(features, bags=3, rows=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 4, (features * bags,), generator=generator)
    ids = torch.randint(0, rows, (int(lengths.sum()),), generator=generator)
    return ids, torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def by_torch(tables, features, ids, offsets, mode, samples=None):
    bags = (offsets.numel() - 1) // len(features)
    pooled = []
    for place, table in enumerate(features):
        bounds = offsets[place * bags : (place + 1) * bags + 1]
        span = slice(int(bounds[0]), int(bounds[-1]))
        bag = torch.nn.functional.embedding_bag(
            ids[span],
            tables[table],
            bounds - bounds[0],
            mode="sum",
            include_last_offset=True,
            per_sample_weights=None if samples is None else samples[span],
        )
        pooled.append(bag / bounds.diff().clamp(min=1).unsqueeze(1) if mode == "mean" else bag)
    return torch.cat(pooled, 1)


@pytest.mark.smoke
@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_three_steps_are_three_steps_of_exact_adagrad_in_float64(mode, weighted):
    specs, features, rate, eps = [(5, 4), (6, 3), (7, 4)], [0, 1, 1, 2], 0.3, 1e-6
    tbe = TableBatchedEmbeddingBags(
        specs, features, pooling=mode, learning_rate=rate, eps=eps, dtype=torch.float64
    )
    tables = [t.clone().requires_grad_() for t in tbe.split_embedding_weights()]
    sums = [torch.zeros(rows, 1, dtype=torch.float64) for rows, _ in specs]
    for step in range(3):
        ids, offsets = batch(len(features), seed=step)
        samples = torch.rand(len(ids), dtype=torch.float64) if weighted else None
        out, want = tbe(ids, offsets, samples), by_torch(tables, features, ids, offsets, mode, samples)
        assert_close(out, want)
        grad = torch.randn_like(want)
        out.backward(grad)
        for table, total, g in zip(tables, sums, torch.autograd.grad(want, tables, grad), strict=True):
            total += g.square().mean(1, keepdim=True)
            with torch.no_grad():
                table -= rate * g / (total.sqrt() + eps)
        assert_close(tbe.split_embedding_weights(), tables, check_stride=False)
        assert_close(tbe.split_optimizer_states(), [total.squeeze(1) for total in sums])


def test_two_lookups_in_one_step_update_twice():
    tbe = TableBatchedEmbeddingBags([(5, 4)], dtype=torch.float64)
    twin = copy.deepcopy(tbe)
    (one, two), weights = (batch(1, seed=s) for s in (1, 2)), torch.randn(4, dtype=torch.float64)
    ((tbe(*one) * weights).sum() + tbe(*two).sum()).backward()
    # Autograd goes back in the reverse order of the lookups.
    twin(*two).sum().backward()
    (twin(*one) * weights).sum().backward()
    assert_close(tbe.weights, twin.weights)
    assert_close(tbe.row_state, twin.row_state)


def test_the_gradient_of_sample_weights_is_that_before_the_update():
    tbe = TableBatchedEmbeddingBags([(5, 4)], dtype=torch.float64, learning_rate=10.0)
    ids, offsets = batch(1, seed=1)
    samples = torch.rand(len(ids), dtype=torch.float64, requires_grad=True)
    rows = tbe.split_embedding_weights()[0][ids].clone()
    tbe(ids, offsets, samples).sum().backward()
    assert_close(samples.grad, rows.sum(1))


def test_no_gradient_means_no_update():
    tbe = TableBatchedEmbeddingBags([(5, 4)])
    before = tbe.weights.clone()
    with torch.no_grad():
        out = tbe(*batch(1))
    assert not out.requires_grad
    with torch.inference_mode():
        tbe(*batch(1))
    assert tbe.weights.equal(before)
    assert tbe.weights.grad is None
    assert [p.requires_grad for p in tbe.parameters()] == [False]


def test_the_learning_rate_is_read_at_backward():
    tbe = TableBatchedEmbeddingBags([(5, 4)], learning_rate=0.5)
    assert tbe.get_learning_rate() == 0.5
    before = tbe.weights.clone()
    out = tbe(*batch(1))
    tbe.set_learning_rate(0.0)
    out.sum().backward()
    assert tbe.weights.equal(before)
    assert tbe.row_state.sum() > 0


def test_saving_moving_and_copying_keep_state_and_views():
    tbe = TableBatchedEmbeddingBags([(5, 4), (6, 3)], learning_rate=0.25)
    tbe(*batch(2)).sum().backward()
    other = TableBatchedEmbeddingBags([(5, 4), (6, 3)])
    other.load_state_dict(tbe.state_dict())
    for twin in (copy.deepcopy(tbe), pickle.loads(pickle.dumps(tbe)), other):
        assert twin.get_learning_rate() == 0.25
        twin(*batch(2, seed=1)).sum().backward()
        assert not twin.weights.equal(tbe.weights)
        assert not twin.row_state.equal(tbe.row_state)
    half = copy.deepcopy(tbe).half()
    assert (half.weights.dtype, half.row_state.dtype, half.learning_rate.dtype) == (
        torch.float16,
        *[torch.float32] * 2,
    )
    assert half.row_state.equal(tbe.row_state)
    wide = copy.deepcopy(tbe).double()
    assert wide.row_state.dtype == torch.float64
    wide(*batch(2)).sum().backward()


def test_a_module_from_the_meta_device_starts_with_its_settings():
    tbe = TableBatchedEmbeddingBags([(5, 4)], learning_rate=0.25, device="meta")
    assert tbe(torch.zeros(2, device="meta").long(), torch.zeros(3, device="meta").long()).shape == (2, 4)
    tbe.to_empty(device="cpu")
    assert tbe.get_learning_rate() == 0.25
    assert not tbe.row_state.any()


def test_keys_in_another_order_are_looked_up_where_they_are():
    tbe = TableBatchedEmbeddingBags([(5, 4), (5, 2)], [0, 1, 0])
    ids, offsets = batch(2, seed=3)
    first, second = slice(0, int(offsets[3])), slice(int(offsets[3]), None)
    parts = [(ids[second], offsets[3:] - offsets[3]), (ids[first], offsets[:4]), (ids[first], offsets[:4])]
    want = by_torch(tbe.split_embedding_weights(), [0, 1, 0], *join(parts), "sum")
    assert_close(tbe.lookup(ids, offsets, None, [1, 0, 0], [3]).detach(), want)
    ragged = tbe.lookup(ids, offsets, None, [1, 0, 0], [3, 3])
    assert ragged.shape == (3 * 10,)
    assert_close(torch.cat([b.view(3, -1) for b in ragged.detach().split([12, 6, 12])], 1), want)


def join(parts):
    ids, offsets, first = [], [torch.zeros(1).long()], 0
    for part, bounds in parts:
        ids.append(part)
        offsets.append(bounds[1:] + first)
        first += len(part)
    return torch.cat(ids), torch.cat(offsets)


def test_ids_are_checked_unless_told_not_to():
    ids, offsets = torch.tensor([6]), torch.tensor([0, 1, 1])
    with pytest.raises(IndexError, match="feature 0 looks up id 6 in table 0"):
        TableBatchedEmbeddingBags([(5, 4), (5, 4)])(ids, offsets)
    careless = TableBatchedEmbeddingBags([(5, 4), (5, 4)], check_ids=False)
    assert_close(careless(ids, offsets)[0, :4].detach(), careless.split_embedding_weights()[1][1])


def test_it_prints_its_tables():
    text = repr(TableBatchedEmbeddingBags([(5, 4)] * 9))
    assert "tables=[5x4, 5x4, 5x4, 5x4, 5x4, 5x4, and 3 more], features=9, pooling=sum" in text


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "message"),
    [
        ([[]], {}, ValueError, r"embedding_specs must hold \(rows, dim\)"),
        ([[(0, 4)]], {}, ValueError, "both positive"),
        ([[(5, 4)], [1]], {}, ValueError, "must name tables 0 to 0"),
        ([[(5, 4)]], {"pooling": "max"}, ValueError, "pooling must be"),
        ([[(5, 4)]], {"eps": 0.0}, ValueError, "eps must be positive"),
        ([[(5, 4)]], {"dtype": torch.int8}, TypeError, "dtype must be floating"),
    ],
)
def test_sizes_and_options_that_are_none_are_named(arguments, options, kind, message):
    with pytest.raises(kind, match=message):
        TableBatchedEmbeddingBags(*arguments, **options)
