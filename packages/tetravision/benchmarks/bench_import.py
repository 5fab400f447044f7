"""How long importing takes beyond torch's own import, beside torchvision; in new processes.

python packages/tetravision/benchmarks/bench_import.py [--rounds N]
"""

import json
import subprocess
import sys
from statistics import median

from timing import facts, parser, peer

CODE = "import time, torch; start = time.process_time(); {}; print(time.process_time() - start)"
WHOLE = "import time; start = time.process_time(); import torch; print(time.process_time() - start)"
OURS = "import tetravision as t; t.ops; t.transforms; t.tv_tensors"
PEER = "import torchvision, torchvision.transforms.v2, torchvision.tv_tensors"


def seconds(code: str) -> float:
    """What a new process prints."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Import in turn, round by round."""
    options = parser(__doc__, rounds=9).parse_args()
    found = peer("torchvision")
    print(facts(found, options.rounds))
    codes = {"torch": WHOLE, "ours": CODE.format(OURS)} | ({"peer": CODE.format(PEER)} if found else {})
    times: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(options.rounds):
        for name, code in codes.items():
            times[name].append(seconds(code))
    middle = {name: median(taken) for name, taken in times.items()}
    row = {"case": "import beyond torch"} | {
        f"{name}_ms": round(taken * 1e3, 1) for name, taken in middle.items()
    }
    row |= {
        f"ours/{name}": round(middle["ours"] / taken, 3) for name, taken in middle.items() if name != "ours"
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
