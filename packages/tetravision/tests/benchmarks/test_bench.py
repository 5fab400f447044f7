"""The CPU benchmarks run, with a round of one case each."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="needs the benchmarks, which no wheel holds")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("bench_pipelines.py", ["--only", "detection, boxes"]),
        ("bench_ops.py", ["--only", "box_convert"]),
        ("bench_import.py", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_benchmark_prints_lines_of_json(script, options):
    command = [sys.executable, str(FOLDER / script), "--rounds", "1", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0]["case"] == "facts"
    assert all(
        row["ours_us" if "us" in script or "import" not in script else "ours_ms"] > 0 for row in rows[1:]
    )
