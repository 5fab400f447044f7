"""What an import loads: nothing that the user didn't ask for."""

import subprocess
import sys
from importlib import import_module

import pytest

HEAVY = {
    "mujoco",
    "pygame",
    "dm_control",
    "h5py",
    "minari",
    "triton",
    "pandas",
    "matplotlib",
    "pyarrow",
    "imageio",
}


def loaded_by(line: str) -> set[str]:
    """The modules that ``line`` loads in a fresh interpreter, beyond torch's own."""
    program = f"import sys, torch; before = set(sys.modules); {line}; print(*(set(sys.modules) - before))"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def roots(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.smoke
def test_the_library_alone_is_light():
    extra = loaded_by("import tetrarl")
    assert roots(extra) <= {"tetrarl"}
    assert len(extra) <= 2


@pytest.mark.smoke
def test_the_parts_load_no_simulator_and_no_file_format():
    parts = "import tetrarl.envs, tetrarl.envs.libs.gym, tetrarl.data, tetrarl.modules, tetrarl.objectives"
    assert not roots(loaded_by(parts)) & HEAVY


@pytest.mark.parametrize(
    ("path", "home", "name"),
    [
        ("tetrarl.envs.libs.gym", "tetrarl.envs", "GymEnv"),
        ("tetrarl.envs.libs", "tetrarl.envs", "GymWrapper"),
        ("tetrarl.envs.common", "tetrarl.envs", "EnvBase"),
        ("tetrarl.envs.utils", "tetrarl.envs", "step_mdp"),
        ("tetrarl.data.tensor_specs", "tetrarl.data", "Composite"),
    ],
)
def test_the_paths_that_users_know_show_the_same_objects(path, home, name):
    assert getattr(import_module(path), name) is getattr(import_module(home), name)
