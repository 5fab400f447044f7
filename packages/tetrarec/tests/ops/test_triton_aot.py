"""Every kernel compiles ahead of time for the GPUs we support, without one, and the hot ones load 16 bytes at
a time."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="needs triton")

pytestmark = pytest.mark.kernel

CODE = """
import json
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from tetrarec.ops._embedding_bags_triton import embedding_bags_kernel
from tetrarec.ops._run_sums_triton import join_pieces_kernel, list_lookups_kernel, sum_runs_kernel
from tetrarec.ops._sample_weights_triton import sample_weights_kernel

TYPES = dict(
    matrix_ptr="*fp32", indices_ptr="*i64", offsets_ptr="*i64", samples_ptr="*fp32", features_ptr="*i64",
    out_ptr="*fp32", rows_ptr="*i32", grad_at_ptr="*i64", scale_ptr="*fp32", grad_ptr="*fp32", target_ptr="*fp32",
    state_ptr="*fp32", rate_ptr="*fp32", heads_ptr="*fp32", tails_ptr="*fp32", eps="fp32", M="i32", N="i32",
    low="i32", high="i32",
)
TARGETS = [GPUTarget("cuda", 80, 32), GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)]
POOL = dict(ALIGN=16, WEIGHTED=False, MEAN=False, ACC=tl.float32)
RUNS = dict(LENGTH=32, UPDATE=True)
JOBS = {
    **{f"pool {D}": (embedding_bags_kernel, D // 128 or 1, dict(D=D, BLOCK_D=D, BAGS=1, UNROLL=8, **POOL))
       for D in (64, 128, 256)},
    "pool short bags": (embedding_bags_kernel, 1, dict(D=128, BLOCK_D=128, BAGS=8, UNROLL=1, **POOL)),
    "pool odd": (embedding_bags_kernel, 1, dict(D=10, BLOCK_D=16, BAGS=2, UNROLL=4, **{**POOL, "ALIGN": 2})),
    "list": (list_lookups_kernel, 1, dict(BAGS=32, WEIGHTED=True, MEAN=True)),
    "runs 128": (sum_runs_kernel, 1, dict(D=128, BLOCK_D=128, ALIGN=16, SCALED=True, ACC=tl.float32, **RUNS)),
    "join 128": (join_pieces_kernel, 1, dict(D=128, BLOCK_D=128, PIECES=16, **RUNS)),
    "samples 128": (sample_weights_kernel, 1,
                    dict(D=128, BLOCK_D=128, BAGS=1, UNROLL=8, ALIGN=16, MEAN=True, ACC=tl.float32)),
}
wide = {}
for target in TARGETS:
    for job, (kernel, warps, constants) in JOBS.items():
        names = kernel.arg_names
        signature = {n: "constexpr" if n in constants else TYPES[n] for n in names}
        attrs = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if signature[n][0] == "*"}
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attrs)
        asm = triton.compile(source, target=target, options={"num_warps": warps}).asm
        text = asm.get("ptx") or asm["amdgcn"]
        wide[f"{job} on {target.arch}"] = sum(
            text.count(load) for load in ("ld.global.v4", "ld.global.v2.b64", "global_load_dwordx4", "buffer_load_dwordx4")
        )
print(json.dumps(wide))
"""


@pytest.fixture(scope="module")
def wide_loads(tmp_path_factory):
    """How many 16-byte loads each kernel has on each target; one process compiles them all."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


def test_every_kernel_compiles_for_every_target(wide_loads):
    assert len(wide_loads) == 9 * 3


@pytest.mark.parametrize(
    ("job", "nvidia", "amd"), [("pool 64", 4, 2), ("pool 128", 8, 4), ("pool 256", 8, 4)]
)
def test_the_lookup_loads_sixteen_bytes_at_a_time(wide_loads, job, nvidia, amd):
    # Eight rows of D floats over the lanes of a program: 8 x D x 4 bytes / lanes / 16.
    assert wide_loads[f"{job} on 80"] >= nvidia
    assert wide_loads[f"{job} on 90"] >= nvidia
    assert wide_loads[f"{job} on gfx942"] >= amd


def test_short_bags_and_the_update_load_wide_as_well(wide_loads):
    for arch in (80, 90):
        assert wide_loads[f"pool short bags on {arch}"] >= 8
        assert wide_loads[f"runs 128 on {arch}"] >= 2  # a gradient and a row of weights
        assert wide_loads[f"join 128 on {arch}"] >= 17
        assert wide_loads[f"samples 128 on {arch}"] >= 8
