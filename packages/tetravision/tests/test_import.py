"""What importing the library costs, counted in modules, which no busy machine can change."""

import subprocess
import sys

import pytest

HEAVY = (
    "triton",
    "numba",
    "matplotlib",
    "tetradict",
    "tetrarl",
    "tetrarec",
    "torchvision",
    "torch._dynamo",
    "torch._inductor",
)

CODE = """
import sys
import torch, numpy, PIL.Image
before = set(sys.modules)
import tetravision
print("\\n".join(sorted(set(sys.modules) - before)))
"""


def added_modules():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.smoke
def test_import_loads_little_beyond_torch_and_pillow():
    others = [name for name in added_modules() if not name.startswith("tetravision")]
    assert not [name for name in others if name.split(".")[0] in HEAVY or name in HEAVY]
    assert len(others) <= 3, others


def test_import_makes_the_doors_reachable():
    code = "import tetravision as t; t.ops.nms; t.tv_tensors.Image; t.transforms.v2.functional.resize; t.transforms.InterpolationMode"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)
