"""How long importing takes beyond torch's own import, beside the peer; in new processes.

python packages/tetradict/benchmarks/bench_import.py [--rounds N]
"""

import subprocess
import sys
from statistics import median

from timing import facts, line, parser, peer

CODE = "import time, torch; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
WHOLE = "import time; start = time.perf_counter(); import torch; print(time.perf_counter() - start)"


def seconds(code: str) -> float:
    """What a new process prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    """Import in turn, round by round."""
    options = parser(__doc__, rounds=9).parse_args()
    other = peer("tensordict")
    print(line(case="facts", rounds=options.rounds, **facts(other)))
    codes = {"torch": WHOLE, "ours": CODE.format("import tetradict")}
    if other:
        codes["peer"] = CODE.format("import tensordict")
    times: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(options.rounds):
        for name, code in codes.items():
            times[name].append(seconds(code))
    got = {f"{name}_ms": round(median(took) * 1e3, 2) for name, took in times.items()}
    ratios = {
        f"ours/{name}": round(median(times["ours"]) / median(took), 4)
        for name, took in times.items()
        if name != "ours"
    }
    print(line(case="import beyond torch", **got, **ratios))


if __name__ == "__main__":
    main()
