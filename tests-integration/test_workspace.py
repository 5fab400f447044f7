"""The workspace's own promises: one list of members, versions that agree, contracts that bite, errors with a mend."""

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

MEMBERS = ("tetradict", "tetrarec", "tetravision", "tetrarl")


@pytest.fixture(scope="module")
def spec(root):
    return tomllib.loads((root / "workspace.toml").read_text())


@pytest.fixture(scope="module")
def projects(root, spec):
    return {
        name: tomllib.loads((root / "packages" / name / "pyproject.toml").read_text())
        for name in spec["members"]
    }


def requirements(project, *, extras=True):
    found = list(project["project"]["dependencies"])
    if extras:
        found += [r for group in project["project"].get("optional-dependencies", {}).values() for r in group]
    return [Requirement(r) for r in found]


def ws(root, *args, python=sys.executable, env=None):
    command = [python, str(root / "tools" / "ws.py"), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)


def copy_workspace(root, target):
    """The files that set-up reads, in a folder of their own."""
    for path in (
        "tools/ws.py",
        "ci/noxfile.py",
        "workspace.toml",
        *(f"packages/{m}/pyproject.toml" for m in MEMBERS),
    ):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, target / path)
    return target


def test_each_folder_under_packages_is_a_member(root, spec):
    assert sorted(spec["members"]) == sorted(p.name for p in (root / "packages").iterdir() if p.is_dir())


def test_the_top_level_is_the_fixed_one(root):
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split()
    top = {path.partition("/")[0] for path in tracked}
    wanted = {"packages", "tools", "ci", "tests-integration", "README.md", "workspace.toml"}
    assert {name for name in top if not name.startswith(".")} == wanted


def test_members_stand_in_the_order_of_their_dependencies(spec, projects):
    order = list(spec["members"])
    for name, project in projects.items():
        siblings = [r.name for r in requirements(project) if r.name in projects]
        assert all(order.index(sibling) < order.index(name) for sibling in siblings), name


def test_each_minimum_pin_is_a_lower_bound_that_a_pyproject_declares(spec, projects):
    for name, pin in spec["minimum"].items():
        bounds = {
            str(s) for p in projects.values() for r in requirements(p) if r.name == name for s in r.specifier
        }
        version = pin.removeprefix("==")
        assert {b.removeprefix(">=") for b in bounds if b.startswith(">=")} & {
            version,
            version.removesuffix(".0"),
        }, name


def test_siblings_are_bounded_on_both_sides(projects):
    for name, project in projects.items():
        for requirement in requirements(project):
            if requirement.name in projects:
                assert {s.operator for s in requirement.specifier} == {">=", "<"}, name


def test_the_workspaces_pytest_options_are_each_members(root, projects):
    ini = configparser.ConfigParser()
    ini.read(root / "ci" / "pytest.ini")
    ours = ini["pytest"]
    for project in projects.values():
        theirs = project["tool"]["pytest"]["ini_options"]
        assert ours["addopts"] == theirs["addopts"]
        assert ours["filterwarnings"].split("\n")[1:] == theirs["filterwarnings"]
        assert ours["markers"].split("\n")[1:] == theirs["markers"]


@pytest.mark.parametrize("name", MEMBERS)
def test_version_changelog_and_tag_agree(root, projects, name):
    package = root / "packages" / name
    version = projects[name]["project"]["version"]
    heads = [h for h in re.findall(r"^## (\S+)", (package / "CHANGELOG.md").read_text(), re.MULTILINE)]
    assert next(h for h in heads if h != "Unreleased") == version
    assert f'"{version}+source"' in (package / "src" / name / "_version.py").read_text()
    tags = subprocess.run(
        ["git", "tag", "--list", f"{name}-v*", "--points-at", "HEAD"],
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert tags.stdout.split() in ([], [f"{name}-v{version}"])


@pytest.mark.parametrize("name", MEMBERS)
def test_sources_alone_on_the_path_have_a_version(root, projects, name, tmp_path):
    shutil.copytree(root / "packages" / name / "src" / name, tmp_path / name)
    code = (
        "import importlib.metadata as m, sys\n"
        "def absent(name): raise m.PackageNotFoundError(name)\n"
        "m.version = absent\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        f"import {name}; print({name}.__version__, {name}.__file__)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split()[0] == projects[name]["project"]["version"] + "+source"
    assert str(tmp_path) in shown


def test_a_bare_call_lists_every_session_with_a_line(root):
    shown = ws(root)
    tree = ast.parse((root / "ci" / "noxfile.py").read_text())
    count = sum(
        isinstance(n, ast.FunctionDef) and any("nox.session" in ast.unparse(d) for d in n.decorator_list)
        for n in tree.body
    )
    rows = [line for line in shown.stdout.splitlines() if line.startswith("  ")]
    assert shown.returncode == 0
    assert len(rows) == count >= 12
    assert all(len(row.split(None, 1)) == 2 for row in rows)


def test_each_of_several_sessions_runs(root, tmp_path):
    copy = copy_workspace(root, tmp_path)
    (copy / ".venv" / "bin").mkdir(parents=True)
    recorder = copy / ".venv" / "bin" / "python"
    recorder.write_text('#!/bin/sh\necho "$@"\n')
    recorder.chmod(0o755)
    code = f"import sys; sys.path.insert(0, {str(copy / 'tools')!r}); import ws; (ws.VENV / 'stamp').write_text(ws.stamp())"
    subprocess.run([sys.executable, "-c", code], check=True)
    shown = ws(copy, "lint", "alone(tetradict)", "wheels", "--", "full").stdout.split()
    assert shown[shown.index("-s") :] == ["-s", "lint", "alone(tetradict)", "wheels", "--", "full"]


@pytest.mark.parametrize(("word", "hint"), [("tset", "'test'"), ("alone(tetradct)", "'alone(tetradict)'")])
def test_an_unknown_session_is_one_line_with_the_nearest_name(root, word, hint):
    shown = ws(root, word)
    assert shown.returncode == 1
    assert shown.stderr.count("\n") == 1
    assert f"did you mean {hint}?" in shown.stderr


def test_an_old_python_is_told_what_is_needed(root):
    code = (
        "import sys, runpy\n"
        "sys.version_info = (3, 9, 1, 'final', 0)\n"
        f"runpy.run_path({str(root / 'tools' / 'ws.py')!r}, run_name='__main__')"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.returncode == 1
    assert shown.stderr.strip() == (
        "ws: Python 3.11 or newer is needed, this is 3.9; run it as python3.11 tools/ws.py"
    )


def test_the_part_before_the_version_check_is_plain_enough_for_python_3_6(root):
    text = (root / "tools" / "ws.py").read_text()
    ast.parse(text, feature_version=(3, 6))


def test_a_python_without_pip_is_told_what_to_install(root, tmp_path):
    copy = copy_workspace(root, tmp_path)
    code = (
        "import sys, runpy\n"
        "class NoPip:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'ensurepip': raise ModuleNotFoundError(name)\n"
        "import importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'ensurepip' else real(name, *a)\n"
        "sys.argv = ['ws.py', 'lint']\n"
        f"runpy.run_path({str(copy / 'tools' / 'ws.py')!r}, run_name='__main__')"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.returncode == 1
    assert "apt install python3-venv" in shown.stderr
    assert not (copy / ".venv").exists()


def test_without_a_network_setup_says_so_and_running_it_again_starts_over(root, tmp_path):
    copy = copy_workspace(root, tmp_path)
    (copy / ".venv" / "bin").mkdir(parents=True)  # what a killed set-up leaves
    offline = {
        **os.environ,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "1",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_FIND_LINKS": "",
        "PIP_EXTRA_INDEX_URL": "",
    }
    shown = ws(copy, "lint", env=offline)
    assert shown.returncode == 1
    assert "half-made" in shown.stdout
    assert "no package index could be reached (no network?)" in shown.stderr
    assert shown.stderr.strip().count("\n") == 0
    assert not (copy / ".venv" / "stamp").exists()
    again = ws(copy, "lint", env=offline)
    assert "half-made" in again.stdout and again.returncode == 1


def lint_imports(root, sources):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(sources / m) for m in MEMBERS)}
    command = [
        str(Path(sys.executable).with_name("lint-imports")),
        "--no-cache",
        "--config",
        str(root / "ci" / "importlinter.toml"),
    ]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=sources)


@pytest.fixture(scope="module")
def sources(root, tmp_path_factory):
    target = tmp_path_factory.mktemp("sources")
    for name in MEMBERS:
        shutil.copytree(
            root / "packages" / name / "src", target / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    return target


@pytest.mark.parametrize(
    ("member", "line", "contract"),
    [
        ("tetrarl", "from tetradict._version import __version__", "public doors only"),
        ("tetrarec", "import tetravision", "layers"),
        ("tetradict", "import tetrarl", "layers"),
    ],
)
def test_a_planted_import_across_libraries_breaks_the_contracts(root, sources, member, line, contract):
    assert lint_imports(root, sources).returncode == 0
    planted = sources / member / member / "_planted.py"
    planted.write_text(f'"""Planted."""\n\n{line}\n')
    try:
        shown = lint_imports(root, sources)
    finally:
        planted.unlink()
    assert shown.returncode == 1
    assert f"{contract} BROKEN" in shown.stdout


def test_a_public_sub_door_may_be_imported(root, sources):
    planted = sources / "tetrarl" / "tetrarl" / "_planted.py"
    planted.write_text('"""Planted."""\n\nfrom tetradict.nn import TensorDictModule\n')
    try:
        assert lint_imports(root, sources).returncode == 0
    finally:
        planted.unlink()


@pytest.mark.parametrize(
    ("line", "rule"),
    [("from tetradict import _td", "PLC2701"), ("import tetradict\ntetradict._td", "SLF001")],
)
def test_a_private_name_of_a_sibling_breaks_lint(root, tmp_path, line, rule):
    planted = tmp_path / "planted.py"
    planted.write_text(f'"""Planted."""\n\n{line}\n')
    command = [
        str(Path(sys.executable).with_name("ruff")),
        "check",
        "--no-cache",
        "--config",
        str(root / "ci" / "ruff.toml"),
    ]
    shown = subprocess.run(
        [*command, "--output-format", "concise", str(planted)], capture_output=True, text=True
    )
    assert shown.returncode == 1
    assert "planted.py" in shown.stdout


def test_the_gpu_script_stands_alone_and_passes_without_a_gpu(root, tmp_path):
    out = tmp_path / "gpu.json"
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    shown = subprocess.run(
        [sys.executable, str(root / "tools" / "gpu.py"), str(out)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=env,
    )
    assert shown.returncode == 0, shown.stderr
    assert "no CUDA device here" in shown.stdout
    assert out.exists()


@pytest.fixture
def gpu(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    import gpu

    return gpu


@pytest.mark.parametrize("name", ["tetrarec", "tetravision"])
def test_the_gpu_script_finds_every_kernel_test_and_takes_no_skip_for_a_pass(root, gpu, tmp_path, name):
    result = gpu.run_tests(root / "packages" / name, 120, tmp_path)  # native, and there is no GPU here
    assert result["tests"] == result["skipped"] > 30
    assert result["problem"] == "no kernel test ran"


def test_the_gpu_table_is_short_and_names_what_failed(gpu):
    tests = {"tetrarec": {"tests": 9, "failures": 1, "errors": 0, "skipped": 2, "problem": "x"}}
    row = {
        "kernel": "tbe",
        "size": "26 x 64",
        "dtype": "float32",
        "ms": 1.5,
        "gb_per_s": 2000.0,
        "copy_share": 0.5,
    }
    result = {
        "gpu": "G",
        "torch": "2.13",
        "triton": "3.8",
        "copy_gb_per_s": 4000.0,
        "tests": tests,
        "benchmarks": [row],
    }
    lines = gpu.table({**result, "problems": {"gpu_ops": "Traceback\nstopped after 9 s"}}).splitlines()
    assert lines[0] == "G, torch 2.13, triton 3.8, copy 4000 GB/s"
    assert "6 passed, 1 failed, 2 skipped" in lines[1]
    assert "50 % of copy" in lines[2]
    assert lines[3].strip() == "gpu_ops: stopped after 9 s"


def test_a_step_that_hangs_is_stopped(gpu):
    assert gpu.run([sys.executable, "-c", "import time; time.sleep(60)"], 1) == "stopped after 1 s"
    assert gpu.run([sys.executable, "-c", "raise SystemExit('broken')"], 30) == "broken"
