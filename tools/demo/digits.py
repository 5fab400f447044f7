"""Canvases composed of scikit-learn's handwritten digits, and a small two-stage detector for them."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from tetravision import ops, tv_tensors
from tetravision.transforms import v2
from torch import Tensor, nn
from torch.nn import functional as F

SIDE = 96  # pixels of a canvas
STRIDE = 4  # pixels a cell of the feature map
CLASSES = 10


class Canvases:
    """Makes canvases from one half of the digits, so that no handwriting of the test is seen in training."""

    def __init__(self, part: str, seed: int) -> None:
        digits = load_digits()
        half = np.arange(len(digits.target)) % 2 == (part == "train")
        self.pictures = (digits.images[half] * (255 / 16)).astype(np.uint8)
        self.labels = digits.target[half]
        self.random = np.random.default_rng(seed)

    def draw(self) -> tuple[tv_tensors.Image, tv_tensors.BoundingBoxes, Tensor]:
        """One canvas ``[1, SIDE, SIDE]`` uint8, its boxes ``[N, 4]`` in XYXY and labels ``[N]``."""
        random = self.random
        canvas = random.normal(24, 12, (SIDE, SIDE)).clip(0, 90)
        boxes, labels = [], []
        for _ in range(random.integers(3, 8)):
            which, side = random.integers(len(self.labels)), int(random.integers(16, 34))
            picture = torch.from_numpy(self.pictures[which])[None, None].float()
            picture = F.interpolate(picture, size=(side, side), mode="bilinear")[0, 0].numpy()
            x, y = random.integers(0, SIDE - side, 2)
            columns, rows = (np.flatnonzero((picture > 60).any(axis)) for axis in (0, 1))
            box = np.array(
                [x + columns[0], y + rows[0], x + columns[-1] + 1, y + rows[-1] + 1], dtype=np.float32
            )
            if any(overlap(box, other) > 0.1 for other in boxes):
                continue
            patch = canvas[y : y + side, x : x + side]
            np.maximum(patch, picture * random.uniform(0.6, 1.0), out=patch)
            boxes.append(box)
            labels.append(self.labels[which])
        image = tv_tensors.Image(torch.from_numpy(canvas.astype(np.uint8))[None])
        where = tv_tensors.BoundingBoxes(
            torch.from_numpy(np.stack(boxes)), format="XYXY", canvas_size=(SIDE, SIDE)
        )
        return image, where, torch.tensor(labels)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """The shared area as a part of the smaller box."""
    width, height = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    smaller = min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))
    return max(width, 0) * max(height, 0) / smaller


def training_transform() -> v2.Compose:
    """Crops and rescales picture and boxes together; boxes that fall out take their labels with them."""
    return v2.Compose([
        v2.RandomResizedCrop(SIDE, scale=(0.6, 1.0), ratio=(0.85, 1.18)),
        v2.SanitizeBoundingBoxes(min_size=6, labels_getter=lambda sample: sample[-1]),
        test_transform(),
    ])


def test_transform() -> v2.Compose:
    """To float and to zero mean."""
    return v2.Compose([
        v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
        v2.Normalize([0.2], [0.25]),
    ])


class Detector(nn.Module):
    """A dense head proposes boxes on a stride-4 map; roi_align cuts their features out for the classifier."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()

        def block(cin: int, cout: int, stride: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)
            )

        self.body = nn.Sequential(
            block(1, 16, 2), block(16, width, 2), block(width, width, 1), block(width, width, 1)
        )
        self.context = nn.Sequential(block(width, width, 1), block(width, width, 1))
        self.dense = nn.Conv2d(width, 5, 1)
        self.roi = ops.RoIAlign(7, spatial_scale=1 / STRIDE, sampling_ratio=2, aligned=True)
        self.classify = nn.Sequential(
            nn.Flatten(), nn.Linear(width * 49, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, CLASSES)
        )
        nn.init.constant_(self.dense.bias, 0.0)
        with torch.no_grad():
            self.dense.bias[0] = -3.0

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features ``[B, C, h, w]``, objectness ``[B, h*w]`` and boxes ``[B, h*w, 4]`` in pixels."""
        features = self.body(images)
        score, distance = self.dense(self.context(features)).flatten(2).split([1, 4], dim=1)
        reach = F.softplus(distance).mT * 12
        return (
            features,
            score.squeeze(1),
            torch.cat([cells() - reach[..., :2], cells() + reach[..., 2:]], dim=-1),
        )

    def losses(self, images: Tensor, boxes: list[Tensor], labels: list[Tensor]) -> Tensor:
        """Objectness, box and class losses of a batch."""
        features, score, found = self(images)
        wanted = [assign(b) for b in boxes]
        inside = torch.stack([w >= 0 for w in wanted])
        target = torch.cat([b[w[w >= 0]] for b, w in zip(boxes, wanted, strict=True)])
        objectness = F.binary_cross_entropy_with_logits(score, inside.float(), pos_weight=torch.tensor(2.0))
        near = F.smooth_l1_loss(found[inside], target, beta=1.0) / 4
        jitter = [b + torch.randn_like(b) * 1.0 for b in boxes]
        named = F.cross_entropy(self.classify(self.roi(features, jitter)), torch.cat(labels))
        return 3 * objectness + near + named

    @torch.no_grad()
    def detect(self, images: Tensor, most: int = 60) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Boxes ``[K, 4]``, scores ``[K]`` and labels ``[K]`` of each picture."""
        features, score, found = self(images)
        found = ops.clip_boxes_to_image(found, (SIDE, SIDE))
        results = []
        for index in range(len(images)):
            confidence, top = score[index].sigmoid().topk(most)
            boxes = found[index, top]
            keep = ops.nms(boxes, confidence, 0.5)
            boxes, confidence = boxes[keep], confidence[keep]
            chance, label = self.classify(self.roi(features[index : index + 1], [boxes])).softmax(-1).max(-1)
            confidence = confidence * chance
            keep = ops.batched_nms(boxes, confidence, torch.zeros_like(label), 0.4)
            results.append((boxes[keep], confidence[keep], label[keep]))
        return results


def cells() -> Tensor:
    """Centres of the cells in pixels, ``[h*w, 2]`` as x, y."""
    line = (torch.arange(SIDE // STRIDE) + 0.5) * STRIDE
    return torch.cartesian_prod(line, line).flip(-1)


def assign(boxes: Tensor) -> Tensor:
    """For each cell the box whose middle part holds its centre, or -1: ``[h*w]``."""
    at = cells()
    if not len(boxes):  # a crop may leave a picture without digits
        return torch.full((len(at),), -1)
    centre, half = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 2
    inside = ((at[:, None] - centre).abs() <= (half * 0.6).clamp_min(STRIDE * 0.75)).all(-1)
    distance = torch.cdist(at, centre).masked_fill(~inside, torch.inf)
    nearest, which = distance.min(1)
    return torch.where(nearest.isinf(), -1, which)


def average_precision(found: list, truth: list[tuple[Tensor, Tensor]], threshold: float = 0.5) -> float:
    """Mean over the ten classes of the area under precision against recall, boxes matched at this overlap."""
    areas = []
    for digit in range(CLASSES):
        hits, scores, total = [], [], 0
        for (boxes, score, label), (true_boxes, true_label) in zip(found, truth, strict=True):
            true = true_boxes[true_label == digit]
            total += len(true)
            taken = torch.zeros(len(true), dtype=torch.bool)
            mine = label == digit
            overlaps = ops.box_iou(boxes[mine], true) if len(true) else torch.zeros(int(mine.sum()), 1)
            for row, one in zip(overlaps, score[mine], strict=True):
                best, at = row.max(0)
                hit = bool(len(true)) and bool(best >= threshold) and not taken[at]
                if hit:
                    taken[at] = True
                hits.append(hit)
                scores.append(float(one))
        order = np.argsort(-np.array(scores), kind="stable")
        true_positive = np.cumsum(np.array(hits, dtype=float)[order])
        precision = true_positive / np.arange(1, len(order) + 1)
        best_after = np.maximum.accumulate(precision[::-1])[::-1]
        areas.append(float((best_after * np.diff(true_positive, prepend=0.0)).sum() / max(total, 1)))
    return float(np.mean(areas))
