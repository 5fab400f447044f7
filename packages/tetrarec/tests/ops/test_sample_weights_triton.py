import os

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from tetrarec.ops._embedding_bags import matrices_of
from tetrarec.ops._layout import plan
from tetrarec.ops._sample_weights import sample_weight_gradients_reference

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1",
        reason="needs a GPU, or TRITON_INTERPRET=1",
    ),
]


@pytest.mark.parametrize("mean", [False, True], ids=["sum", "mean"])
@pytest.mark.parametrize("ragged", [False, True], ids=["one batch size", "one a key"])
@pytest.mark.parametrize("seed", [3, 8])
def test_the_kernel_agrees_with_the_float64_reference(make_case, device, seed, ragged, mean):
    from tetrarec.ops._sample_weights_triton import launch

    case = make_case(seed, ragged=ragged, weighted=True, mean=mean).cast(torch.float32, device)
    layout, batch = plan(case.indices, case.offsets, case.samples, case.rows, case.dims, *case.lookup)
    grad = torch.randn(batch.output_shape(layout), generator=torch.Generator().manual_seed(1)).to(device)
    got = launch(*matrices_of(case.tables, layout), grad, batch)
    assert got.dtype == torch.float32
    wide = case.cast(torch.float64, "cpu")
    rest = (wide.indices, wide.offsets, wide.samples, *wide.lookup)
    want = sample_weight_gradients_reference(grad.cpu().double(), wide.tables, *rest)
    scale = sample_weight_gradients_reference(
        grad.cpu().double().abs(), [t.abs() for t in wide.tables], *rest
    )
    # A sum over at most 8 columns and 5 features.
    assert ((got.cpu().double() - want).abs() <= 50 * torch.finfo(torch.float32).eps * scale).all()
