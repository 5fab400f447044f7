"""Where regions sample a map."""

import pytest
import torch
from torch.testing import assert_close

from tetravision.ops._roi_samples import Grid, entries, finite


def dense(rois, shape, grid, **more):
    """Weights of all map pixels in all bins, ``[K * bins, B * H * W]``."""
    out = torch.zeros(len(rois), grid.bins, shape[0] * shape[2] * shape[3], dtype=rois.dtype)
    for part in entries(rois, shape, grid, **more):
        pixels, weights = part.pixels.long(), part.weights
        block = torch.zeros(len(pixels), out.shape[-1], dtype=rois.dtype).scatter_add_(1, pixels, weights)
        out[part.regions] += block.view(-1, grid.bins, out.shape[-1])
    return out


def rois():
    return torch.tensor(
        [[0, 1.3, 2.2, 6.1, 7.7], [1, 0.5, 0.5, 1.5, 3.0], [0, -2, -3, 12, 15], [1, 3, 3, 3, 3]],
        dtype=torch.float64,
    )


@pytest.mark.parametrize("ratio", [0, 1, 2, 5])
@pytest.mark.parametrize("aligned", [True, False])
def test_the_weights_of_a_bin_inside_the_map_sum_to_one(ratio, aligned):
    inside = rois()[:2]
    weights = dense(inside, (2, 1, 9, 11), Grid(1.0, 2, 3, ratio, aligned))
    assert_close(weights.sum(-1), torch.ones(2, 6, dtype=torch.float64))
    assert (weights >= 0).all()
    assert weights[0, :, 99:].sum() == 0  # another picture


@pytest.mark.parametrize("ratio", [0, 2])
def test_parts_make_the_whole(ratio):
    grid = Grid(1.0, 2, 3, ratio, True)
    whole = dense(rois(), (2, 1, 9, 11), grid)
    assert_close(dense(rois(), (2, 1, 9, 11), grid, most_regions=1), whole)


def test_huge_regions_need_no_more_entries_than_the_map_has_places():
    huge = torch.tensor([[0, -1e9, -1e9, 1e9, 1e9], [0, 0, 0, 1e30, 1e30]], dtype=torch.float64)
    for part in entries(huge, (1, 1, 9, 11), Grid(1.0, 2, 2, 0, True)):
        assert part.pixels.shape[1] <= 99
        assert torch.isfinite(part.weights).all()


def test_regions_that_are_not_finite_or_of_no_picture_have_no_entries():
    bad = rois()[[0, 0, 0, 0]]
    bad[0, 2], bad[1, 3], bad[2, 0], bad[3, 0] = torch.nan, torch.inf, 7, torch.nan
    grid = Grid(1.0, 2, 2, 2, True)
    assert list(entries(bad, (2, 1, 9, 11), grid)) == []
    assert finite(bad, grid).tolist() == [False, False, True, False]
