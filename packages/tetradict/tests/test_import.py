import subprocess
import sys

CODE = "import sys, torch; before = set(sys.modules); import tetradict; print(*sorted(set(sys.modules) - before))"
HEAVY = {
    *(
        "h5py",
        "pandas",
        "pyarrow",
        "zarr",
        "gymnasium",
        "triton",
        "PIL",
        "matplotlib",
        "safetensors",
        "tqdm",
        "scipy",
    ),
    *("tetrarl", "tetrarec", "tetravision", "tensordict"),
}


def test_importing_loads_little_beside_torch():
    """Counted in modules, which no busy machine changes; benchmarks/bench_import.py gives the time."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert "tetradict" in loaded
    assert "tetradict.nn" not in loaded
    foreign = {name.partition(".")[0] for name in loaded} - {"tetradict"}
    assert not foreign & HEAVY
    assert len(foreign) <= 3, foreign
    assert len(loaded) <= 40, loaded
