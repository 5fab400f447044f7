"""The kernels of RoIAlign compile for three GPUs without one, and read 16 bytes at a time."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="needs triton")

CODE = r"""
import re
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from tetravision.ops._roi_align_triton import roi_align_kernel, sum_rows_kernel

POOL = {"map_ptr": "*fp32", "rois_ptr": "*fp32", "out_ptr": "*fp32", "B": "i32", "C": "i32", "H": "i32", "W": "i32", "scale": "fp32", "offset": "fp32"}
SUM = {"rows_ptr": "*fp32", "sources_ptr": "*i64", "weights_ptr": "*fp32", "ends_ptr": "*i64", "out_ptr": "*fp32", "C": "i32"}
SHAPE = {"PH": 7, "PW": 7, "ACC": tl.float32, "BLOCK_C": 256}
CASES = [  # kernel, signature, constants, wide loads in it
    (roi_align_kernel, POOL, {**SHAPE, "SAMPLES": 2, "ALIGNED": True}, 4),
    (roi_align_kernel, POOL | {"map_ptr": "*fp16", "out_ptr": "*fp16"}, {**SHAPE, "SAMPLES": 0, "ALIGNED": False}, 4),
    (sum_rows_kernel, SUM, {"ACC": tl.float32, "BLOCK_C": 256}, 1),
]
for kernel, signature, constants, loads in CASES:
    wide = [(kernel.arg_names.index(name),) for name in signature if name.endswith("_ptr") or name == "C"]
    source = ASTSource(
        fn=kernel,
        signature={**signature, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={place: [["tt.divisibility", 16]] for place in wide},
    )
    size = 2 if "*fp16" in signature.values() else 4
    for target in (GPUTarget("cuda", 80, 32), GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)):
        if size == 2 and target.arch != 90:
            continue
        warps = max(1, 256 * size // (16 * target.warp_size))
        compiled = triton.compile(source, target=target, options={"num_warps": warps})
        code, pattern = (compiled.asm["ptx"], r"ld\.global\S*\.v4") if target.backend == "cuda" else (compiled.asm["amdgcn"], "global_load_dwordx4")
        found = len(re.findall(pattern, code))
        assert found >= loads, (kernel.__name__, target, found)
        print(kernel.__name__, target.arch)
"""


def test_kernels_compile_for_every_target_with_wide_loads(tmp_path):
    env = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    env |= {"TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.split()) == 2 * 7
