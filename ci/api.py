"""Check one library's public names against its last tag.

python ci/api.py NAME

A break that is meant stands in the changelog under `### Breaking` of `## Unreleased`, by the exact line that this
command prints for it.
"""

import re
import subprocess
import sys
from pathlib import Path

PLACE = re.compile(r"^\S+\.py:\d+: ")  # moves with every edit, so it is no part of an announcement
ROOT = Path(__file__).resolve().parent.parent


def breaking(changelog: str) -> str:
    """The part of a changelog that lists unreleased breaks."""
    unreleased = changelog.partition("## Unreleased")[2].partition("\n## ")[0]
    return unreleased.partition("### Breaking")[2].partition("\n### ")[0]


def last_tag(name: str) -> str:
    """The library's newest tag by version, or nothing."""
    command = ["git", "tag", "--list", f"{name}-v*", "--sort=-version:refname"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.partition(
        "\n"
    )[0]


def main(name: str) -> None:
    """Compare, and leave with an error that lists what nobody announced."""
    tag = last_tag(name)
    if not tag:
        print(f"{name} has no tag yet: nothing to compare with")
        return
    command = [
        sys.executable,
        "-m",
        "griffe",
        "check",
        name,
        "-s",
        f"packages/{name}/src",
        "--against",
        tag,
        "--format",
        "oneline",
    ]
    found = subprocess.run([*command, "--no-color"], cwd=ROOT, capture_output=True, text=True)
    printed = [line.strip() for line in (found.stdout + found.stderr).splitlines() if line.strip()]
    lines = sorted({PLACE.sub("", line) for line in printed})
    if found.returncode not in (0, 1):
        sys.exit("\n".join(printed))
    allowed = breaking((ROOT / "packages" / name / "CHANGELOG.md").read_text())
    unannounced = [line for line in lines if line not in allowed] if found.returncode else []
    if unannounced:
        sys.exit(
            "\n".join([
                f"{name} breaks what {tag} promised; list under '### Breaking' or mend:",
                *unannounced,
            ])
        )
    print(
        f"{name} keeps what {tag} promised"
        + (f", but for {len(lines)} announced breaks" if found.returncode else "")
    )


if __name__ == "__main__":
    main(sys.argv[1])
