"""The data hub: importing a Minari file against copying it, and reading batches and verifying them.

The file is written as Minari lays it out: episodes of HalfCheetah's sizes. An import reads it, writes the transitions
(which hold each observation twice) and their checksums; the copy is ``shutil.copyfile`` of the same file.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import common
import h5py
import numpy as np

from tetrarl.data.datasets import MinariExperienceReplay

SIZES = {"short": (1000, 50), "long": (100, 1000)}  # episodes, moves of each


def write(path: Path, episodes: int, moves: int) -> None:
    """A Minari file of random rows."""
    random = np.random.default_rng(0)
    with h5py.File(path, "w", track_order=True) as file:
        for number in range(episodes):
            group = file.create_group(f"episode_{number}")
            columns = {
                "observations": random.normal(size=(moves + 1, 17)),
                "actions": random.normal(size=(moves, 6)).astype(np.float32),
                "rewards": random.normal(size=moves),
                "terminations": np.zeros(moves, bool),
                "truncations": np.arange(moves) == moves - 1,
            }
            for name, column in columns.items():
                group.create_dataset(name, data=column, chunks=True, maxshape=(None, *column.shape[1:]))


def main() -> None:
    """Print one line a size and operation."""
    args = common.arguments(__doc__, rounds=5)
    for label, (episodes, moves) in SIZES.items():
        if not common.wanted(args, label):
            continue
        with tempfile.TemporaryDirectory() as folder:
            file, root = Path(folder, "main_data.hdf5"), Path(folder, "root")
            write(file, episodes, moves)

            def convert(file: Path = file, root: Path = root) -> MinariExperienceReplay:
                shutil.rmtree(root, ignore_errors=True)
                return MinariExperienceReplay.from_files(file, 256, root=root)

            def copy(file: Path = file) -> None:
                shutil.copyfile(file, file.with_name("copy"))

            dataset = convert()
            assert dataset.verify().rows == episodes * moves
            facts = {"file_mb": round(file.stat().st_size / 1e6, 1), "episodes": episodes, "moves": moves}
            result = {**facts, **common.compare(convert, copy, args.rounds)}
            print(common.row("hub", f"{label}/import", "copyfile", args, result, "h5py"), flush=True)
            batch = dataset.sample()
            result = {
                **facts,
                **common.compare(lambda b=batch, d=dataset: d.verify(b), dataset.sample, args.rounds),
            }
            print(common.row("hub", f"{label}/verify a batch", "sample", args, result, "h5py"), flush=True)


if __name__ == "__main__":
    main()
