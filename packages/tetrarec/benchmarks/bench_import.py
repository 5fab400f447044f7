"""How long importing takes beyond torch's own import, beside torchrec; in new processes.

python packages/tetrarec/benchmarks/bench_import.py [--rounds N]
"""

import subprocess
import sys
from statistics import median

from timing import facts, line, parser, peer

CODE = "import time, torch; start = time.process_time(); {}; print(time.process_time() - start)"
WHOLE = "import time; start = time.process_time(); import torch; print(time.process_time() - start)"


def seconds(code: str) -> float:
    """What a new process prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Import in turn, round by round."""
    options = parser(__doc__, rounds=9).parse_args()
    codes = {"torch": WHOLE, "ours": CODE.format("import tetrarec")}
    if peer("torchrec"):
        codes["torchrec"] = CODE.format("import torchrec")
    state = "installed" if "torchrec" in codes else "not installed: left out"
    print(line(row="facts", rounds=options.rounds, **facts(torchrec=state)))
    times: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(options.rounds):
        for name, code in codes.items():
            times[name].append(seconds(code))
    ratios = {
        f"ours / {name}": round(median(times["ours"]) / median(took), 4)
        for name, took in times.items()
        if name != "ours"
    }
    print(
        line(row="import", ms={name: round(median(took) * 1e3, 1) for name, took in times.items()}, **ratios)
    )


if __name__ == "__main__":
    main()
