"""Episodes from simulators, through a file of another library and the hub, back as a checked replay buffer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import minari
import numpy as np
import page
from tetrarl.data.datasets import MinariExperienceReplay
from tetrarl.envs import GymEnv
from tqdm import tqdm

EPISODES = {"CartPole-v1": 60, "HalfCheetah-v5": 6}


def section() -> page.Section:
    """What the report says of it."""
    return page.Section(
        title="Episodes in, episodes out, no wrong row",
        library="tetrarl",
        what=(
            "Random policies play two simulators. The cheetah's episodes are recorded by minari's own writer, read into the "
            "hub as one memory-mapped set, and every row of it is compared with the file it came from."
        ),
        data="fresh episodes of gymnasium's CartPole and MuJoCo's HalfCheetah.",
        code=page.shown_code(sys.modules[__name__]),
    )


def collect(scratch: Path) -> np.ndarray:
    """Roll CartPole out with tetrarl; returns the episodes' lengths, which are also their returns."""
    env = GymEnv("CartPole-v1")
    env.set_seed(0)
    bar = tqdm(range(EPISODES["CartPole-v1"]), desc="  CartPole", disable=None)
    return np.array([env.rollout(500)["next", "reward"].sum().item() for _ in bar])


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the simulator from printing remarks on the model file that gymnasium ships; errors still come as exceptions."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def record(scratch: Path) -> None:
    """Play HalfCheetah under minari's recorder, which writes the set to its own folder and format."""
    os.environ["MINARI_DATASETS_PATH"] = str(scratch / "minari")
    with quiet():
        env = gymnasium.make("HalfCheetah-v5")
    recorder = minari.DataCollector(env, record_infos=False)
    for episode in tqdm(range(EPISODES["HalfCheetah-v5"]), desc="  HalfCheetah", disable=None):
        recorder.reset(seed=episode)
        recorder.action_space.seed(episode)
        over = False
        while not over:
            *_, terminated, truncated, _ = recorder.step(recorder.action_space.sample())
            over = terminated or truncated
    recorder.create_dataset("demo/cheetah-v0", algorithm_name="random", author="demo", author_email="demo@example.org",
                            code_permalink="https://example.org", description="Random play.",
                            eval_env="HalfCheetah-v5")  # fmt: skip
    recorder.close()


def returns(dataset: MinariExperienceReplay) -> list[np.ndarray]:
    """The return so far at each step of each stored episode."""
    return [episode["next", "reward"].squeeze(-1).cumsum(0).numpy() for episode in dataset.episodes()]


def run(section: page.Section, scratch: Path) -> None:
    """Collect, record, load, check and draw."""
    lengths = collect(scratch)
    record(scratch)
    # shown
    dataset = MinariExperienceReplay("demo/cheetah-v0", batch_size=256, root=scratch / "hub")
    batch = dataset.sample()
    dataset.verify(batch)  # each row against the HDF5 file it came from
    whole = dataset.verify()  # checksums, episode rules, and every row
    # end
    size = sum(path.stat().st_size for path in dataset.data_path.rglob("*.memmap"))
    section.results += [
        (f"{len(lengths)}", f"CartPole episodes played, {lengths.mean():.0f} steps long on average"),
        (f"{dataset.num_episodes}", "HalfCheetah episodes stored"),
        (f"{whole.rows:,}", "rows compared with the file, none different"),
        (f"{size / 1e6:.1f} MB", "memory-mapped, shared by every process that opens it"),
    ]
    stored, left = plt.subplots(figsize=(5.4, 3.2))
    for curve in returns(dataset):
        left.plot(curve)
    left.set(xlabel="step", ylabel="return so far", title="HalfCheetah, as stored")
    played, right = plt.subplots(figsize=(5.4, 3.2))
    right.hist(lengths, bins=20)
    right.set(xlabel="steps", ylabel="episodes", title="CartPole, as played")
    pair = f'<div class="pair">{page.svg(stored)}{page.svg(played)}</div>'
    section.figures.append((
        pair,
        "The stored episodes, read back; and how long a random policy balances the pole.",
    ))
    figure, axis = plt.subplots(figsize=(10, 2.6))
    image = axis.imshow(
        dataset.episode(0)["observation"][:300, :8].T, aspect="auto", cmap="RdBu", vmin=-2, vmax=2
    )
    axis.set(xlabel="step of the first stored episode", ylabel="joint", yticks=range(8))
    axis.grid(visible=False)
    figure.colorbar(image, label="position")
    section.figures.append((
        page.svg(figure),
        "Eight positions of the cheetah's body over the first 300 steps.",
    ))
