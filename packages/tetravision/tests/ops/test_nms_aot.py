"""The kernels of non-maximum suppression compile for three GPUs without one."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="needs triton")

CODE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from tetravision.ops._nms_triton import nms_hits_kernel, nms_scan_kernel

CASES = [
    (nms_hits_kernel, {"boxes_ptr": "*fp32", "ends_ptr": "*i64", "hits_ptr": "*i32", "threshold_ptr": "*fp32", "N": "i32", "WORDS": "i32"}, {"ROWS": 64}),
    (nms_scan_kernel, {"hits_ptr": "*i32", "alive_ptr": "*i8", "N": "i32", "WORDS": "i32"}, {"BLOCK": 32}),
]
for kernel, signature, constants in CASES:
    wide = [(kernel.arg_names.index(name),) for name in signature if name.endswith("_ptr") or name in ("N", "WORDS")]
    source = ASTSource(
        fn=kernel,
        signature={**signature, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={place: [["tt.divisibility", 16]] for place in wide},
    )
    for target in (GPUTarget("cuda", 80, 32), GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)):
        compiled = triton.compile(source, target=target)
        assert compiled.asm.get("cubin") or compiled.asm.get("hsaco"), (kernel, target)
        print(kernel.__name__, target.arch)
"""


def test_kernels_compile_for_every_target(tmp_path):
    env = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    env |= {"TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.split()) == 2 * 6
