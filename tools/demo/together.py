"""One sample through all four: pixels, transforms, a memory map, a replay buffer, and another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import page
import torch
from tetradict import TensorDict
from tetrarec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from tetrarl.data import LazyMemmapStorage, ReplayBuffer
from tetrarl.envs import GymEnv
from tetravision.transforms import v2
from tetravision.tv_tensors import Image
from tqdm import tqdm

SIDE, ROWS = 96, 128  # pixels of a kept frame, and frames kept
REOPEN = """
import json, sys
from tetradict import TensorDict
frames = TensorDict.load_memmap(sys.argv[1])
print(json.dumps({"shape": list(frames["pixels"].shape), "rows": len(frames), "sum": frames["pixels"].sum().item()}))
"""


def section() -> page.Section:
    """What the report says of it."""
    return page.Section(
        title="One sample through all four",
        library="tetrarl + tetravision + tetradict + tetrarec",
        what=(
            "Pixels of an environment are cropped and resized by transforms, kept in a memory map, drawn again as a replay "
            "batch whose past actions are looked up in an embedding table, and read by a second process that opens the "
            "same files."
        ),
        data="frames rendered by gymnasium's CartPole.",
        code=page.shown_code(sys.modules[__name__]),
    )


def record(buffer: ReplayBuffer) -> list[np.ndarray]:
    """Play a few episodes; extend the buffer with augmented pixels; return some frames as they were rendered."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures are wanted, no window
    env = GymEnv("CartPole-v1", from_pixels=True)
    env.set_seed(0)
    torch.manual_seed(0)
    rendered = []
    bar = tqdm(total=ROWS, desc="  CartPole with pixels", disable=None)
    # shown
    shrink = v2.Compose([
        v2.RandomResizedCrop(SIDE, scale=(0.6, 1.0), ratio=(1.0, 1.5)),
        v2.RandomHorizontalFlip(),
    ])
    while len(buffer) < ROWS:
        played = env.rollout(ROWS - len(buffer))
        pictures = shrink(Image(played["pixels"].movedim(-1, -3)))
        buffer.extend(TensorDict({"pixels": pictures, "action": played["action"]}, played.batch_size))
        # end
        rendered += [frame.numpy() for frame in played["pixels"][:2]]
        bar.update(len(played))
    bar.close()
    return rendered[:6]


def looked_up(batch: TensorDict) -> torch.Tensor:
    """An embedding of each row's action, ``[B, 4]``, from a jagged feature made of the batch."""
    action = batch["action"].long().argmax(-1)
    feature = KeyedJaggedTensor.from_lengths_sync(["action"], action, torch.ones_like(action))
    table = EmbeddingBagConfig(num_embeddings=2, embedding_dim=4, name="action", feature_names=["action"])
    return EmbeddingBagCollection([table])(feature)["action"]


def run(section: page.Section, scratch: Path) -> None:
    """Record, sample, look up, and reopen in another process."""
    folder = scratch / "frames"
    buffer = ReplayBuffer(storage=LazyMemmapStorage(ROWS, scratch_dir=folder), batch_size=32)
    rendered = record(buffer)
    batch = buffer.sample()
    vectors = looked_up(batch)
    other = subprocess.run(
        [sys.executable, "-c", REOPEN, str(folder)], capture_output=True, text=True, check=True
    )
    seen = json.loads(other.stdout)
    here = TensorDict.load_memmap(folder)["pixels"]
    same = seen["sum"] == here.sum().item()
    section.results += [
        (f"{len(buffer)}", f"frames kept as {SIDE} × {SIDE} pixels"),
        (f"{here.numel() / 1e6:.1f} MB", "in the memory map"),
        (
            f"{seen['rows']} rows",
            f"opened by another process, its pixels {'add up to the same' if same else 'DIFFER'}",
        ),
        (" × ".join(map(str, vectors.shape)), "embeddings looked up for a sampled batch"),
    ]
    pictures = [page.photo(frame, alt="rendered") for frame in rendered]
    pictures += [page.picture(row.movedim(0, -1).numpy(), alt="replayed") for row in batch["pixels"][:6]]
    section.figures.append((
        f'<div class="gallery">{"".join(pictures)}</div>',
        "Above: frames as rendered. Below: as sampled from the memory map.",
    ))
