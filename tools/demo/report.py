"""A journey through all four libraries on real data, told as one HTML page.

python tools/demo/report.py --out out/report.html [--only NAME ...]
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import tempfile
import time
import traceback
from pathlib import Path

JOURNEY = ("episodes", "control", "clicks", "gallery", "detector", "together")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=JOURNEY, default=JOURNEY)
    return parser.parse_args()


def run_section(name: str, scratch: Path) -> tuple[object, bool]:
    """Run one section; return it and whether it went well. Missing data leaves it empty, with the reason."""
    from data import MissingDataError  # noqa: PLC0415  (after the first line is on the screen: imports take seconds)

    module = importlib.import_module(name)
    section, start, well = module.section(), time.monotonic(), True
    print(f"\n{section.title}  ({section.library})", flush=True)
    try:
        module.run(section, scratch)
    except MissingDataError as error:
        section.missing = str(error)
        print(f"  left empty: {error}", flush=True)
    except Exception:  # one broken section must not hide the others; the command still fails at the end
        traceback.print_exc()
        section.missing, well = "This section failed; the terminal has its traceback.", False
    section.seconds = time.monotonic() - start
    for value, label in section.results:
        print(f"  {value:>10}  {label}", flush=True)
    return section, well


def about(seconds: float) -> dict[str, str]:
    """Where and with what the page was made."""
    from importlib.metadata import version  # noqa: PLC0415  (used once, here)

    names = ("tetradict", "tetrarl", "tetrarec", "tetravision", "torch")
    return {
        "seconds": f"{seconds:.0f} s",
        "machine": f"{os.cpu_count()} cores ({platform.system()} {platform.machine()}, Python {platform.python_version()})",
        "versions": ", ".join(f"{name} {version(name)}" for name in names),
    }


def main() -> int:
    """Run the sections and write the page; 1 when one of them failed."""
    args, start = arguments(), time.monotonic()
    print("tetra demo: four libraries on real data; the report comes last", flush=True)
    import page  # noqa: PLC0415  (matplotlib takes a second; the line above comes first)
    import torch  # noqa: PLC0415  (as above)

    torch.set_num_threads(os.cpu_count() or 1)
    args.out = args.out.resolve()
    with tempfile.TemporaryDirectory(prefix="tetra-demo-") as folder:
        os.chdir(folder)  # simulators leave logs where they run
        done = [run_section(name, Path(folder)) for name in args.only]
        os.chdir(args.out.anchor)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(
        page.render([section for section, _ in done], about(time.monotonic() - start)), encoding="utf-8"
    )
    print(f"\nwrote {args.out} ({args.out.stat().st_size / 1e6:.1f} MB, {time.monotonic() - start:.0f} s)")
    return 0 if all(well for _, well in done) else 1


if __name__ == "__main__":
    raise SystemExit(main())
