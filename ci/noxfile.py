"""Every check of the workspace, as nox sessions. Run them through tools/ws.py."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import ws  # noqa: E402

SPEC = ws.load()
MEMBERS = list(SPEC["members"])
DIST = ROOT / "dist"
OUT = ROOT / "out"
TEST_ENV = SPEC["test"]["env"]
BENCH = ROOT / ".venv-bench"
nox.options.envdir = str(ROOT / ".nox")
nox.options.default_venv_backend = "venv"


def run(session: nox.Session, *command: str, env: dict[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Run one step; when it fails, say which command it was and how to run it alone."""
    session.chdir(cwd)
    try:
        session.run(*command, env=env, external=True)
    except CommandFailed:
        path = os.pathsep.join([*(session.bin_paths or []), os.environ["PATH"]])
        program = shutil.which(command[0], path=path) or command[0]
        words = [*(f"{k}={v}" for k, v in (env or {}).items()), program, *command[1:]]
        session.error(
            f"this step failed: {shlex.join(command)}\n  alone: (cd {shlex.quote(str(cwd))} && {shlex.join(words)})"
        )


def record(session: nox.Session, out: Path, *command: str) -> None:
    """Run a benchmark; show what it prints and keep it in a file."""
    session.log(f"{shlex.join(command)}  > {out.relative_to(ROOT)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with (
        out.open("w") as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process,
    ):
        for line in process.stdout or ():
            print(line, end="", flush=True)
            file.write(line)
            file.flush()  # a run that is stopped keeps what it had measured
    if process.returncode:
        session.error(f"this step failed: {shlex.join(command)}")


def pytest(
    session: nox.Session, *args: str, config: Path = ROOT / "ci" / "pytest.ini", cwd: Path = ROOT
) -> None:
    """Run pytest with the workspace's test settings."""
    run(
        session,
        "python",
        "-m",
        "pytest",
        "-q",
        "-c",
        str(config),
        "--rootdir",
        str(cwd),
        *args,
        env=TEST_ENV,
        cwd=cwd,
    )


def test_folders() -> list[str]:
    """The folders of all tests, members first."""
    return [*(f"packages/{name}/tests" for name in MEMBERS), "tests-integration"]


@nox.session(venv_backend="none")
def demo(session: nox.Session) -> None:
    """A journey through all four libraries on real data; writes out/report.html."""
    run(session, "python", "tools/demo/report.py", "--out", str(OUT / "report.html"), *session.posargs)


@nox.session(venv_backend="none")
def test(session: nox.Session) -> None:
    """Tests of every member, then of the four together (all but the slow ones)."""
    pytest(session, "-m", "not slow", "-n", "2", *(session.posargs or test_folders()))


@nox.session(venv_backend="none")
def slow(session: nox.Session) -> None:
    """The tests that take more than a few seconds each."""
    pytest(session, "-m", "slow", *(session.posargs or test_folders()))


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Ruff, and the import contracts between the libraries."""
    ours = ("--config", "ci/ruff.toml", "tools", "ci", "tests-integration")
    run(session, "ruff", "check", "packages")  # each member's pyproject extends the same rules
    run(session, "ruff", "check", "--extend-ignore", "T20", *ours)
    run(session, "ruff", "format", "--check", "packages")
    run(session, "ruff", "format", "--check", *ours)
    run(session, "lint-imports", "--no-logo", "ci/importlinter.toml")


@nox.session(venv_backend="none")
def wheels(session: nox.Session) -> None:
    """Build one wheel a member into dist/."""
    shutil.rmtree(DIST, ignore_errors=True)
    folders = [str(ROOT / "packages" / name) for name in MEMBERS]
    run(
        session,
        "python",
        "-m",
        "pip",
        "wheel",
        "-q",
        "--disable-pip-version-check",
        "--no-deps",
        "-w",
        str(DIST),
        *folders,
    )


def install_and_test(session: nox.Session, name: str, *pins: str) -> None:
    """Install a member's wheel with what it declares, import all of it, then pass its tests from an empty folder."""
    pip = ("python", "-m", "pip", "--disable-pip-version-check")
    install = (
        *pip,
        "install",
        "-q",
        "--no-compile",
        "--find-links",
        str(DIST),
        "-c",
        str(ws.constraints(*pins)),
    )
    empty = Path(session.create_tmp()).resolve()
    run(session, *install, name)
    run(session, *pip, "check")
    run(session, "python", "-W", "error", str(ROOT / "ci" / "import_all.py"), name, cwd=empty)
    run(session, *install, *ws.test_requirements(name))
    chosen = () if session.posargs == ["full"] else ("-m", "smoke")
    folder = ROOT / "packages" / name
    pytest(
        session,
        *chosen,
        "-p",
        "no:cacheprovider",
        str(folder / "tests"),
        config=folder / "pyproject.toml",
        cwd=empty,
    )


@nox.session(requires=["wheels"])
@nox.parametrize("name", MEMBERS, ids=MEMBERS)
def alone(session: nox.Session, name: str) -> None:
    """The wheel of one member, with what it declares and nothing else, passes its smoke tests (-- full: all)."""
    install_and_test(session, name, "pins")


@nox.session(requires=["wheels"])
@nox.parametrize("name", MEMBERS, ids=MEMBERS)
def minimum(session: nox.Session, name: str) -> None:
    """The same with the oldest versions that the pyprojects promise."""
    install_and_test(session, name, "pins", "minimum")


@nox.session(venv_backend="none")
@nox.parametrize("name", MEMBERS, ids=MEMBERS)
def api(session: nox.Session, name: str) -> None:
    """Public names that changed since a member's last tag and are not listed as breaking in its changelog."""
    run(session, "python", str(ROOT / "ci" / "api.py"), name)


@nox.session(venv_backend="none")
def docs(session: nox.Session) -> None:
    """Sphinx with warnings as errors, doctests of the docstrings, and the examples of every README (-- tetradict: one's)."""
    chosen = session.posargs or MEMBERS
    for name in chosen:
        source, built = ROOT / "packages" / name / "docs", OUT / "docs" / name
        common = (
            "-W",
            "--keep-going",
            "-q",
            "-c",
            str(ROOT / "ci"),
            "-d",
            str(OUT / "docs" / ".trees" / name),
        )
        env = {**TEST_ENV, "TETRA_MEMBER": name}
        run(session, "python", "-m", "sphinx", "-b", "html", *common, str(source), str(built), env=env)
        run(
            session,
            "python",
            "-m",
            "sphinx",
            "-b",
            "doctest",
            *common,
            str(source),
            str(built / ".doctest"),
            env=env,
        )
    pages = [ROOT / "README.md", *(ROOT / "packages" / name / "README.md" for name in chosen)]
    run(session, "python", str(ROOT / "ci" / "examples.py"), *map(str, pages), env=TEST_ENV)


@nox.session(name="bench-env", venv_backend="none")
def bench_env(session: nox.Session) -> None:
    """Make .venv-bench: the established libraries beside ours, for benchmarks (about 9 GB)."""
    wanted = ws.place() + "\n" + repr(SPEC["bench"]["install"])
    mark = BENCH / "stamp"
    if mark.exists() and mark.read_text() == wanted:
        session.log(".venv-bench is ready")
        return
    python = ws.make_venv(BENCH)
    mark.unlink(missing_ok=True)
    for line in SPEC["bench"]["install"]:
        ws.pip_install(python, f"setting .venv-bench up: {' '.join(line)[:90]}", *line)
    editable = [word for name in MEMBERS for word in ("-e", f"packages/{name}")]
    ws.pip_install(python, "setting .venv-bench up: the members", "--no-deps", *editable)
    mark.write_text(wanted)


@nox.session(venv_backend="none", requires=["bench-env"])
def bench(session: nox.Session) -> None:
    """Ours against the established libraries, as ratios, into out/bench (-- tetradict: one member's)."""
    python = str(BENCH / ws.BIN / "python")
    wanted = session.posargs or [*MEMBERS, "tests-integration"]
    folders = [ROOT / "packages" / name / "benchmarks" if name in MEMBERS else ROOT / name for name in wanted]
    for script in sorted(path for folder in folders for path in folder.glob("bench_*.py")):
        record(
            session, OUT / "bench" / f"{script.parent.parent.name}-{script.stem}.jsonl", python, str(script)
        )


@nox.session(venv_backend="none")
def gpu(session: nox.Session) -> None:
    """Kernel tests and benchmarks on this machine's GPU; says so and passes when there is none."""
    run(session, "python", "tools/gpu.py", *(session.posargs or [str(OUT / "gpu.json")]))
