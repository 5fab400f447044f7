"""A small detector learns to find and read handwritten digits."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import page
import torch
from digits import SIDE, Canvases, Detector, average_precision, test_transform, training_transform
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle
from tqdm import tqdm

STEPS, BATCH, TESTS = 320, 16, 200


def section() -> page.Section:
    """What the report says of it."""
    return page.Section(
        title="Finding and reading handwritten digits",
        library="tetravision",
        what=(
            "A two-stage detector is trained from nothing: a dense head proposes boxes, nms thins them out, roi_align cuts "
            "each one's features out of the map, and a classifier reads the digit."
        ),
        data=(
            "canvases composed of scikit-learn's 1,797 real handwritten digits; the test canvases use handwriting "
            "that training never saw."
        ),
        code=page.shown_code(sys.modules[__name__]),
    )


def test_set() -> tuple[torch.Tensor, list, list]:
    """Fixed test canvases as a batch, their truths, and the plain pictures."""
    source, ready = Canvases("test", seed=1), test_transform()
    drawn = [source.draw() for _ in range(TESTS)]
    images = torch.stack([torch.Tensor(ready(image)) for image, _, _ in drawn])
    return (
        images,
        [(torch.Tensor(boxes), labels) for _, boxes, labels in drawn],
        [image for image, _, _ in drawn],
    )


def train(model: Detector, curve: list[float]) -> None:
    """Train on fresh canvases; append each step's loss."""
    source, augment = Canvases("train", seed=0), training_transform()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=STEPS)
    for _ in tqdm(range(STEPS), desc="  training", disable=None):
        # shown
        images, boxes, labels = zip(*(augment(*source.draw()) for _ in range(BATCH)), strict=True)
        loss = model.losses(torch.stack(images), boxes, labels)
        # end
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        curve.append(loss.item())


def show(pictures: list, found: list, truth: list, count: int = 8) -> str:
    """Detections drawn on the first test canvases."""
    drawn = []
    for picture, (boxes, scores, labels), (_, true) in zip(pictures, found, truth, strict=True):
        figure, axis = plt.subplots(figsize=(2.6, 2.6))
        axis.imshow(np.asarray(picture[0]), cmap="gray", vmin=0, vmax=255, extent=(0, SIDE, SIDE, 0))
        axis.set_axis_off()
        for (x1, y1, x2, y2), score, label in zip(
            boxes.tolist(), scores.tolist(), labels.tolist(), strict=True
        ):
            if score < 0.35:
                continue
            axis.add_patch(
                Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor="#ffb454", linewidth=1.6)
            )
            axis.text(x1, max(y1 - 1.5, 7), label, color="#ffb454", fontsize=10, weight="bold")
        axis.set_title("wrote " + " ".join(map(str, sorted(true.tolist()))), fontsize=9, color="#5b6472")
        drawn.append(page.svg(figure))
        if len(drawn) == count:
            break
    return f'<div class="gallery four">{"".join(drawn)}</div>'


def run(section: page.Section, scratch: Path) -> None:
    """Train, measure before and after, draw."""
    torch.manual_seed(0)
    model, curve = Detector(), []
    images, truth, pictures = test_set()
    model.eval()
    before = average_precision(model.detect(images), truth)
    train(model.train(), curve)
    model.eval()
    found = model.detect(images)
    after = average_precision(found, truth)
    boxes = sum(len(b) for b, _ in truth)
    section.results += [
        (f"{before:.2f}", "average precision before training"),
        (f"{after:.2f}", f"average precision after {STEPS} steps, overlap 0.5, ten classes"),
        (f"{boxes}", f"digits to find on {TESTS} unseen canvases"),
    ]
    figure, axis = plt.subplots(figsize=(8, 2.4))
    axis.plot(np.convolve(curve, np.ones(9) / 9, "valid"))
    axis.set(xlabel="step", ylabel="loss", yscale="log")
    section.figures += [
        (
            show(pictures, found, truth),
            "Test canvases with the boxes and digits found; above each, what was written on it.",
        ),
        (page.svg(figure), "Training loss, averaged over nine steps."),
    ]
