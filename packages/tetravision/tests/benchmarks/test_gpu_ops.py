"""The GPU benchmark imports, and its inputs are such as the kernels take."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_ops.py"
pytestmark = [
    pytest.mark.skipif(not SCRIPT.exists(), reason="needs the benchmarks, which no wheel holds"),
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="needs TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings(
        "ignore:.*encountered in:RuntimeWarning"
    ),  # the interpreter is numpy, and NaN is meant
]


def test_every_case_runs_on_tiny_sizes():
    spec = importlib.util.spec_from_file_location("gpu_ops", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    device = torch.device("cpu")
    inputs = module.roi_inputs(device, torch.float32, regions=2, channels=3, height=5, width=6)
    grid = module.Grid(1.0, 1, 2, 2, True)
    for call, size_bytes in (
        module.roi_case(inputs, grid),
        module.backward_case(inputs, grid),
        module.nms_case(module.nms_inputs(device, 40)),
    ):
        assert torch.as_tensor(call()).numel()
        assert size_bytes > 0
