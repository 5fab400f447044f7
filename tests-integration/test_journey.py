"""Two libraries and more in one program, through their public names alone."""

import json
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from tetradict import TensorDict
from tetradict.nn import TensorDictModule
from tetrarec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from tetrarl.data import LazyMemmapStorage, LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
from tetrarl.envs import GymWrapper
from tetravision.transforms import v2
from tetravision.tv_tensors import BoundingBoxes, Image, Mask
from torch.testing import assert_close

REOPEN = """
import json, sys
from tetradict import TensorDict
rows = TensorDict.load_memmap(sys.argv[1])
print(json.dumps({"keys": sorted(rows.keys()), "rows": len(rows), "action": rows["action"].tolist()}))
"""


class Frames(gymnasium.Env):
    """Paints the step number into a corner of a 32 × 48 picture, so that a frame tells which it is."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  (gymnasium's own convention)
    observation_space = gymnasium.spaces.Box(0, 255, (32, 48, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_count = 0
        return self._frame(), {}

    def step(self, action):
        self.step_count += 1
        return self._frame(), float(action), self.step_count == 9, False, {}

    def _frame(self):
        picture = np.zeros((32, 48, 3), np.uint8)
        picture[:16, :16] = 10 * self.step_count
        return picture


@pytest.fixture
def played():
    env = GymWrapper(Frames(), categorical_action_encoding=True)
    env.set_seed(0)
    return env.rollout(100)


def test_pixels_go_through_transforms_into_a_memory_map_that_another_process_reads(played, tmp_path):
    shrink = v2.Compose([v2.Resize((16, 24)), v2.ToDtype(torch.float32, scale=True)])
    pictures = shrink(Image(played["observation"].movedim(-1, -3)))
    buffer = ReplayBuffer(storage=LazyMemmapStorage(9, scratch_dir=tmp_path / "map"), batch_size=32)
    buffer.extend(TensorDict({"pixels": pictures, "action": played["action"]}, played.batch_size))
    assert len(buffer) == 9
    mapped = TensorDict.load_memmap(tmp_path / "map")
    corner = mapped["pixels"][:, 0, 2, 2] * 255
    assert_close(corner, 10.0 * torch.arange(9))  # every frame is the one of its step
    shown = subprocess.run(
        [sys.executable, "-c", REOPEN, str(tmp_path / "map")], capture_output=True, text=True, check=True
    )
    assert json.loads(shown.stdout) == {
        "keys": ["action", "pixels"],
        "rows": 9,
        "action": played["action"].tolist(),
    }
    batch = buffer.sample()
    assert set((batch["pixels"][:, 0, 2, 2] * 255).round().int().tolist()) <= set(range(0, 90, 10))


def test_a_detection_sample_is_kept_in_a_collection_and_comes_back_whole(tmp_path):
    image = Image(torch.arange(3 * 8 * 10, dtype=torch.uint8).reshape(3, 8, 10))
    boxes = BoundingBoxes([[1, 2, 5, 6], [0, 0, 3, 3]], format="XYXY", canvas_size=(8, 10))
    masks = Mask(torch.zeros(2, 8, 10, dtype=torch.bool))
    flipped = v2.RandomHorizontalFlip(p=1.0)({"image": image, "boxes": boxes, "masks": masks})
    sample = TensorDict({**flipped, "labels": torch.tensor([3, 7]), "name": "a/b.png"}, [])
    assert isinstance(sample["image"], Image) and isinstance(sample["boxes"], BoundingBoxes)
    sample.memmap(tmp_path / "sample")
    back = TensorDict.load_memmap(tmp_path / "sample")
    assert back["name"] == "a/b.png"
    for key in ("image", "boxes", "masks", "labels"):
        assert_close(torch.Tensor(back[key].clone()), torch.Tensor(sample[key]), rtol=0, atol=0)
    assert back["boxes"].tolist() == [[5, 2, 9, 6], [7, 0, 10, 3]]


def test_sparse_features_kept_in_a_collection_feed_embedding_tables():
    rows = TensorDict({"film": torch.tensor([4, 0, 2]), "seen": torch.tensor([[1, 2], [3, 3], [0, 1]])}, [3])
    tables = [
        EmbeddingBagConfig(num_embeddings=5, embedding_dim=4, name=name, feature_names=[name])
        for name in rows.keys()
    ]
    collection = EmbeddingBagCollection(tables)

    def features(td):
        lengths = torch.cat([torch.full((len(td),), value[0].numel()) for value in td.values()])
        return KeyedJaggedTensor.from_lengths_sync(
            list(td.keys()), torch.cat([v.flatten() for v in td.values()]), lengths
        )

    whole = collection(features(rows))
    for name, table in collection.embedding_bags.items():
        want = torch.nn.functional.embedding_bag(rows[name].reshape(3, -1), table.weight, mode="sum")
        assert_close(whole[name], want)
    permuted = collection(features(rows[torch.tensor([2, 0, 1])]))
    assert_close(permuted.values(), whole.values()[[2, 0, 1]])


def test_a_module_over_collections_trains_from_replayed_rows(played):
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(9), batch_size=9)
    buffer.extend(played)
    module = TensorDictModule(torch.nn.Linear(1, 1, dtype=torch.float64), ["step"], ["guess"])
    optimizer = torch.optim.LBFGS(module.parameters(), line_search_fn="strong_wolfe", max_iter=50)
    batch = buffer[:]
    batch["step"] = batch["observation"][:, :1, 0, 0].double() / 10

    def loss():
        optimizer.zero_grad()
        value = (module(batch)["guess"] - 2 * batch["step"] - 1).square().mean()
        value.backward()
        return value

    optimizer.step(loss)
    assert_close(module.module.weight.item(), 2.0, rtol=1e-4, atol=1e-4)
    assert_close(module.module.bias.item(), 1.0, rtol=1e-4, atol=1e-4)


def test_the_report_is_asked_for_by_name(root):
    shown = subprocess.run(
        [sys.executable, str(root / "tools" / "demo" / "report.py"), "--out", "x.html", "--only", "nonsense"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert shown.returncode == 2 and "invalid choice: 'nonsense'" in shown.stderr


@pytest.mark.slow
def test_one_sample_passes_through_all_four_in_the_demo(root, tmp_path):
    out = tmp_path / "report.html"
    command = [
        sys.executable,
        str(root / "tools" / "demo" / "report.py"),
        "--out",
        str(out),
        "--only",
        "together",
    ]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "add up to the same" in shown.stdout
    assert "env.rollout(ROWS" in out.read_text()
