"""Set the workspace up on a machine that has only Python and pip, then run sessions of ci/noxfile.py in it.

python3 tools/ws.py                 list the sessions
python3 tools/ws.py demo            run the four libraries together and write out/report.html
python3 tools/ws.py test            pass every test
python3 tools/ws.py NAME... [-- ARGS]

What it makes lies in .venv and .cache beside this folder; deleting them loses nothing.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  (said before any newer syntax or module is met)
    found = ".".join(map(str, sys.version_info[:2]))
    sys.exit(f"ws: Python 3.11 or newer is needed, this is {found}; run it as python3.11 tools/ws.py")

import ast
import difflib
import hashlib
import importlib.util
import os
import re
import subprocess
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CACHE = ROOT / ".cache"
NOXFILE = ROOT / "ci" / "noxfile.py"
BIN = "Scripts" if os.name == "nt" else "bin"
NO_NETWORK = re.compile(
    "NewConnectionError|NameResolutionError|Temporary failure in name resolution|Connection refused|ConnectTimeout"
    "|Max retries exceeded|Network is unreachable|ProxyError|ReadTimeoutError"
)


def load() -> dict:
    """Read workspace.toml."""
    return tomllib.loads((ROOT / "workspace.toml").read_text())


def project(name: str) -> dict:
    """Read one member's pyproject.toml."""
    return tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())


def constraints(*sections: str) -> Path:
    """Write sections of workspace.toml as one pip constraints file and return its path."""
    spec = load()
    out = CACHE / f"{'-'.join(sections)}.txt"
    out.parent.mkdir(exist_ok=True)
    out.write_text("".join(f"{name}{pin}\n" for section in sections for name, pin in spec[section].items()))
    return out


def test_requirements(*names: str) -> list[str]:
    """What the tests of these members need, from their dependency groups."""
    groups = load()["test"]["groups"]
    return sorted({
        req for name in names for group in groups for req in project(name)["dependency-groups"][group]
    })


def sessions() -> dict[str, str]:
    """Name and first docstring line of each session, read from the noxfile without running it."""
    found = {}
    for node in ast.parse(NOXFILE.read_text()).body:
        if isinstance(node, ast.FunctionDef) and any(
            "session" in ast.unparse(d) for d in node.decorator_list
        ):
            name = next(
                (
                    kw.value.value
                    for d in node.decorator_list
                    if isinstance(d, ast.Call)
                    for kw in d.keywords
                    if kw.arg == "name"
                ),
                node.name,
            )
            found[name] = (ast.get_docstring(node) or "").partition("\n")[0]
    return found


def listing() -> str:
    """The page that a bare call shows."""
    rows = [f"  {name:10} {line}" for name, line in sessions().items()]
    return "\n".join([
        "python3 tools/ws.py NAME... [-- ARGS]",
        "",
        *rows,
        "",
        'One member of a matrix: "alone(tetradict)".',
    ])


def check_names(names: list[str]) -> None:
    """Leave with one line when a session is not there."""
    known = sessions()
    for name in names:
        base, _, member = name.partition("(")
        if base not in known or (member and member.rstrip(")") not in load()["members"]):
            pool = [*known, *(f"{base}({m})" for m in load()["members"])] if base in known else list(known)
            near = difflib.get_close_matches(name, pool, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}? " if near else ""
            sys.exit(f"ws: no session is called {name!r}; {hint}`python3 tools/ws.py` lists them")


def place() -> str:
    """What an environment is bound to: its interpreter and the folder it stands in."""
    return f"{sys.version} {ROOT}".replace("\n", " ")


def stamp() -> str:
    """What an environment is made from; a half-made one has no stamp."""
    files = [ROOT / "workspace.toml", *sorted(ROOT.glob("packages/*/pyproject.toml"))]
    return f"{place()}\n{hashlib.sha256(b''.join(f.read_bytes() for f in files)).hexdigest()}"


def make_venv(folder: Path) -> Path:
    """Make the folder a virtual environment unless it is one of this interpreter already; return its Python."""
    python, mark = folder / BIN / "python", folder / "stamp"
    if mark.exists() and os.access(python, os.X_OK) and mark.read_text().partition("\n")[0] == place():
        return python
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            f"ws: this Python has no {missing[0]} (no pip); install it (Debian, Ubuntu: apt install python3-venv) and run this again"
        )
    if folder.exists():
        print(f"ws: {folder.name} is half-made or of another place: making it anew", flush=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(folder)], capture_output=True, text=True
    )
    if made.returncode:
        last = (made.stdout + made.stderr).strip().splitlines()[-1:]
        sys.exit(
            f"ws: could not make {folder}: {' '.join(last)}; free the disk or mend this Python's venv module, then run this again"
        )
    return python


def pip_install(python: Path, title: str, *args: str) -> None:
    """One pip call, its output in a log; leave with the cause and the mend when it fails."""
    CACHE.mkdir(exist_ok=True)
    log = CACHE / "setup.log"
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *args]
    start, shown = time.monotonic(), sys.stderr.isatty()
    print(f"ws: {title}", flush=True)
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
        while process.poll() is None:
            time.sleep(0.2)
            if shown:
                print(f"\r    {time.monotonic() - start:4.0f} s", end="", file=sys.stderr, flush=True)
    print("\r" if shown else "", end="", file=sys.stderr, flush=True)
    if process.returncode == 0:
        return
    text = log.read_text(errors="replace")
    errors = [line for line in text.splitlines() if line.startswith("ERROR")] or text.splitlines()[-1:]
    cause = (
        "no package index could be reached (no network?)"
        if NO_NETWORK.search(text)
        else " ".join(errors)[:400]
    )
    sys.exit(
        f"ws: pip failed: {cause}; mend that and run the same command again (whole log: {log.relative_to(ROOT)})"
    )


def prepare() -> Path:
    """Make or refresh .venv; return its Python. Does nothing when the stamp says that all is as it should be."""
    mark = VENV / "stamp"
    python = VENV / BIN / "python"
    if mark.exists() and mark.read_text() == stamp() and os.access(python, os.X_OK):
        return python
    spec = load()
    python = make_venv(VENV)
    mark.unlink(missing_ok=True)
    editable = [
        word
        for name, extras in spec["members"].items()
        for word in ("-e", f"packages/{name}" + (f"[{','.join(extras)}]" if extras else ""))
    ]
    tools = [requirement for group in spec["tools"].values() for requirement in group]
    pip_install(
        python,
        "setting .venv up: about 3 GB on disk, a minute or two",
        "-c",
        str(constraints("pins")),
        *editable,
        *test_requirements(*spec["members"]),
        *tools,
    )
    mark.write_text(stamp())
    return python


def main() -> None:
    """Run the sessions named on the command line."""
    words, args = sys.argv[1:], []
    if "--" in words:
        words, args = words[: words.index("--")], words[words.index("--") :]
    if not words or words[0] in ("-h", "--help"):
        print(listing())
        return
    check_names(words)
    python = prepare()
    os.environ["PATH"] = f"{VENV / BIN}{os.pathsep}{os.environ['PATH']}"
    os.execv(python, [str(python), "-m", "nox", "-f", str(NOXFILE), "-s", *words, *args])


if __name__ == "__main__":
    main()
