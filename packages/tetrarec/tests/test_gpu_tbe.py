import importlib.util
import os
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "gpu_tbe.py"

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not SCRIPT.exists(), reason="needs the benchmarks beside the tests"),
    pytest.mark.skipif(
        not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1",
        reason="needs a GPU, or TRITON_INTERPRET=1",
    ),
]


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("gpu_tbe", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_benchmark_times_what_the_kernels_take(bench, device):
    case = bench.Case(2, 4, 3, 2, 5, weighted=True)
    data = bench.build(case, device)
    for turn in range(bench.ROTATION):
        batch = data.batches[turn]
        ids = batch.indices + torch.arange(2, device=device).repeat_interleave(batch.offsets[::3].diff()) * 5
        matrix = data.layout.groups[0].matrix(data.weights).clone()
        want = torch.nn.functional.embedding_bag(
            ids,
            matrix,
            batch.offsets,
            mode="sum",
            per_sample_weights=batch.per_sample_weights,
            include_last_offset=True,
        )
        got = bench.forward(data, turn)
        torch.testing.assert_close(got, want.view(2, 3, 4).transpose(0, 1).reshape(3, 8))
        bench.update(data, turn)
        moved = (data.layout.groups[0].matrix(data.weights) != matrix).any(1).nonzero().squeeze(1)
        assert moved.equal(ids.unique())
    lookup, step = bench.moved_bytes(case, data)
    assert step > lookup > 0
    assert {"dtype", "rows", "dim"} <= set(bench.CASES[0]._fields)


def test_without_a_gpu_nothing_is_timed(bench, capsys):
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    bench.main()
    assert "nothing timed" in capsys.readouterr().out
