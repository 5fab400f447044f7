"""The GPU kernels of RoIAlign, natively or under Triton's interpreter."""

import os

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings(
        "ignore:.*encountered in:RuntimeWarning"
    ),  # the interpreter is numpy, and NaN is meant
    pytest.mark.skipif(
        not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1",
        reason="needs a GPU, or TRITON_INTERPRET=1",
    ),
]


def feature(dtype, channels=5):
    return torch.randn(2, channels, 9, 7, generator=torch.Generator().manual_seed(0)).to(dtype)


def rois():
    return torch.tensor([[0, 1, 2, 12, 9], [1, 0.5, 3, 4, 16], [1, -6, -6, 20, 20], [0, 4, 4, 4, 4]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("ratio", "aligned"), [(2, True), (0, True), (0, False)], ids=["two", "adaptive", "not aligned"]
)
def test_kernel_agrees_with_the_float64_reference(dtype, ratio, aligned, device):
    from tetravision.ops._roi_align import roi_align_reference
    from tetravision.ops._roi_align_triton import launch
    from tetravision.ops._roi_samples import Grid

    grid, source = Grid(0.5, 2, 2, ratio, aligned), feature(dtype)
    want = roi_align_reference(source.double(), rois().double(), grid)
    got = launch(source.to(device), rois().to(device), grid)
    assert got.dtype == dtype
    count = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    bound = (
        64 * count + torch.finfo(dtype).eps
    ) * source.double().abs().max()  # counting, then rounding once
    assert ((got.cpu().double() - want).abs() <= bound).all()


@pytest.mark.parametrize("channels", [1, 16, 17])  # below, at and past one block
def test_channels_fill_blocks_or_do_not(channels, device):
    from tetravision.ops._roi_align import roi_align_reference
    from tetravision.ops._roi_align_triton import launch
    from tetravision.ops._roi_samples import Grid

    grid, source = Grid(0.5, 1, 2, 1, True), feature(torch.float32, channels)
    want = roi_align_reference(source.double(), rois().double(), grid)
    got = launch(source.to(device), rois().to(device), grid).cpu()
    assert got.is_contiguous()
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


def test_channels_last_stays_so(device):
    from tetravision.ops._roi_align_triton import launch
    from tetravision.ops._roi_samples import Grid

    source = feature(torch.float32).contiguous(memory_format=torch.channels_last).to(device)
    assert launch(source, rois().to(device), Grid(0.5, 2, 2, 1, True)).is_contiguous(
        memory_format=torch.channels_last
    )


def test_regions_that_are_not_finite_or_of_no_picture_give_nan(device):
    from tetravision.ops._roi_align_triton import launch
    from tetravision.ops._roi_samples import Grid

    bad = torch.tensor([
        [0.0, 1, 1, 3, 3],
        [0, torch.nan, 1, 3, 3],
        [0, 1, 1, torch.inf, 3],
        [2, 1, 1, 3, 3],
        [-1, 1, 1, 3, 3],
    ])
    out = launch(feature(torch.float32).to(device), bad.to(device), Grid(1.0, 1, 1, 0, True)).cpu()
    assert out.isnan().flatten(1).all(1).tolist() == [False, True, True, True, True]


def test_huge_regions_end_and_agree(device):
    from tetravision.ops._roi_align_triton import launch
    from tetravision.ops._roi_samples import Grid

    huge = torch.tensor([[0.0, -1e4, -1e4, 1e4, 1e4], [0, 0, 0, 1e30, 1e30]])
    source, grid = feature(torch.float32), Grid(1.0, 1, 1, 0, True)
    got = launch(source.to(device), huge.to(device), grid).cpu()
    want = torch.ops.tetravision.roi_align(source.double(), huge.double(), 1.0, 1, 1, 0, True)
    torch.testing.assert_close(got.double(), want, rtol=1e-2, atol=1e-7)


def test_no_regions_launch_nothing(device):
    from tetravision.ops._roi_align_triton import launch
    from tetravision.ops._roi_samples import Grid

    out = launch(
        feature(torch.float32).to(device), torch.zeros(0, 5, device=device), Grid(1.0, 2, 3, 0, True)
    )
    assert out.shape == (0, 5, 2, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_sum_of_the_gradient_agrees_with_the_dense_one(dtype, device):
    from tetravision.ops._roi_align_triton import sum_rows

    rows = torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=dtype)
    sources = torch.tensor([0, 3, 3, 5, 1])
    weights = torch.tensor([0.5, 0.25, 1.0, 2.0, 0.0], dtype=dtype)
    ends = torch.tensor([0, 2, 2, 5])
    dense = torch.zeros(3, 6, dtype=torch.float64)
    for segment in range(3):
        for entry in range(ends[segment], ends[segment + 1]):
            dense[segment, sources[entry]] += weights[entry]
    got = sum_rows(*[each.to(device) for each in (rows, sources, weights, ends)]).cpu()
    assert got.dtype == dtype
    bound = 4 * torch.finfo(dtype).eps * (dense.abs() @ rows.double().abs())
    assert ((got.double() - dense @ rows.double()).abs() <= bound).all()


@pytest.mark.parametrize("ratio", [2, 0])
def test_backward_through_the_kernel_is_that_of_the_cpu(ratio, device):
    from tetravision.ops._roi_align import _sum_rows, backward
    from tetravision.ops._roi_align_triton import sum_rows
    from tetravision.ops._roi_samples import Grid

    grid = Grid(0.5, 2, 2, ratio, True)
    grad = torch.randn(4, 5, 2, 2, generator=torch.Generator().manual_seed(0))
    want = backward(grad, rois(), (2, 5, 9, 7), grid, _sum_rows)
    got = backward(grad.to(device), rois().to(device), (2, 5, 9, 7), grid, sum_rows).cpu()
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
