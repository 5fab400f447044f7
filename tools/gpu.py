"""Kernel tests and benchmarks on a machine with a GPU, from the sources alone.

python3 tools/gpu.py OUT.json

Needs a CUDA torch >= 2.11, triton >= 3.6, numpy, pytest and hypothesis; no network, no .venv, nothing of ours installed.
Every kernel test runs natively against its float64 reference, then every packages/*/benchmarks/gpu_*.py, in five minutes
at most. A short table comes last. Without a GPU it says so and passes.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGET_S = 290
TESTS_S = 170  # the share of the tests; benchmarks take what is left


def copy_gb_per_s() -> float:
    """Measured device-to-device copy bandwidth, reads and writes counted."""
    import torch  # noqa: PLC0415  (torch: seconds to import, and the parent must say it in words when it is missing)

    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times = []
    for _ in range(20):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        target.copy_(source)
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return 2 * source.numel() / sorted(times)[len(times) // 2] / 1e6


def bench(script: Path, out: Path) -> None:
    """Run one benchmark file in this process and write its rows."""
    import torch  # noqa: PLC0415  (as above)

    sys.path.insert(0, str(script.parent))  # what the benchmarks of a member share
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out.write_text(json.dumps(module.run(torch.device("cuda"), copy_gb_per_s())))


def environment() -> dict[str, str]:
    """This environment with the sources on the path and the interpreter of Triton off."""
    env = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    env["PYTHONPATH"] = os.pathsep.join(str(path) for path in sorted(ROOT.glob("packages/*/src")))
    return env


def run(command: list[str], limit_s: float) -> str:
    """Run a step within its time; return what went wrong, or nothing."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), timeout=max(limit_s, 1), capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {limit_s:.0f} s"
    print(done.stdout, end="", flush=True)
    return (
        ""
        if done.returncode == 0
        else (done.stderr.strip() or done.stdout.strip() or f"exit {done.returncode}")[-2000:]
    )


def run_tests(member: Path, limit_s: float, scratch: Path) -> dict:
    """The kernel tests of one member, natively."""
    report = scratch / f"{member.name}.xml"
    files = sorted(map(str, member.glob("tests/**/test_*_triton.py")))
    options = [
        "-q",
        "-m",
        "kernel",
        "-o",
        "filterwarnings=",
        "-p",
        "no:cacheprovider",
        "--junitxml",
        str(report),
    ]
    problem = run(
        [sys.executable, "-m", "pytest", *options, "-c", str(member / "pyproject.toml"), *files], limit_s
    )
    found = ElementTree.parse(report).getroot().find("testsuite").attrib if report.exists() else {}
    counts = {key: int(found.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
    if not problem and counts["tests"] == counts["skipped"]:
        problem = "no kernel test ran"
    return {"problem": problem, **counts}


def table(result: dict) -> str:
    """What a person reads last."""
    lines = [
        f"{result['gpu']}, torch {result['torch']}, triton {result['triton']}, copy {result['copy_gb_per_s']:.0f} GB/s"
    ]
    for name, tests in result["tests"].items():
        passed = tests["tests"] - tests["failures"] - tests["errors"] - tests["skipped"]
        lines.append(
            f"  {name:12} kernel tests: {passed} passed, {tests['failures'] + tests['errors']} failed, {tests['skipped']} skipped"
        )
    for row in result["benchmarks"]:
        numbers = f"{row['ms']:9.3f} ms {row['gb_per_s']:8.0f} GB/s {100 * row['copy_share']:5.0f} % of copy"
        lines.append(f"  {row['kernel']:28} {row['size']!s:32} {row['dtype']:9} {numbers}")
    lines += [f"  {name}: {problem.splitlines()[-1]}" for name, problem in result["problems"].items()]
    return "\n".join(lines)


def main(out: Path) -> int:
    """Run everything, write the JSON, print the table; 1 when a test or benchmark failed."""
    try:
        import torch  # noqa: PLC0415  (as above)
    except ImportError:
        print("gpu: no torch in this Python; install a CUDA torch >= 2.11, or go on without a GPU")
        return 0
    out.parent.mkdir(parents=True, exist_ok=True)
    if not torch.cuda.is_available():
        print(f"gpu: no CUDA device here (torch {torch.__version__}); nothing was run")
        out.write_text(json.dumps({"gpu": None, "torch": torch.__version__}))
        return 0
    import triton  # noqa: PLC0415  (absent without a GPU)

    start, problems, rows, tests = time.monotonic(), {}, [], {}
    members = [m for m in sorted((ROOT / "packages").iterdir()) if any(m.glob("tests/**/test_*_triton.py"))]
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for member in members:
            tests[member.name] = run_tests(member, TESTS_S / len(members), scratch)
            if tests[member.name]["problem"]:
                problems[member.name] = tests[member.name]["problem"]
        scripts = sorted(ROOT.glob("packages/*/benchmarks/gpu_*.py"))
        for index, script in enumerate(scripts):
            part, left = scratch / f"{script.stem}.json", BUDGET_S - (time.monotonic() - start)
            problem = run(
                [sys.executable, __file__, "--bench", str(script), str(part)], left / (len(scripts) - index)
            )
            if problem:
                problems[script.stem] = problem
            else:
                rows += json.loads(part.read_text())
    result = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "copy_gb_per_s": copy_gb_per_s(),
        "seconds": round(time.monotonic() - start, 1),
        "tests": tests,
        "benchmarks": rows,
        "problems": problems,
    }
    out.write_text(json.dumps(result, indent=1))
    print(table(result))
    return 1 if problems else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bench"] and len(sys.argv) == 4:
        bench(Path(sys.argv[2]), Path(sys.argv[3]))
    elif len(sys.argv) == 2 and not sys.argv[1].startswith("-"):
        sys.exit(main(Path(sys.argv[1]).resolve()))
    else:
        sys.exit(f"usage: {Path(__file__).name} OUT.json")
