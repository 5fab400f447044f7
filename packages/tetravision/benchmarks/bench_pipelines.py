"""Augmentation pipelines on one 500x375 picture, ours and torchvision's in one process.

python packages/tetravision/benchmarks/bench_pipelines.py [--rounds N] [--only TEXT] [--threads N]

Both draw from the same seed at the start of each timed run, so that neither gets the larger crops.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import PIL.Image
import torch
from timing import compare, facts, parser, peer

import tetravision.transforms.v2
import tetravision.tv_tensors

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def classification(v2: ModuleType, *first: Any) -> Callable[..., Any]:
    """What image classifiers are trained with."""
    return v2.Compose([
        v2.RandomResizedCrop(224, antialias=True),
        v2.RandomHorizontalFlip(),
        *first,
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, STD),
    ])


def evaluation(v2: ModuleType) -> Callable[..., Any]:
    """What they are tested with."""
    parts = [v2.Resize(256, antialias=True), v2.CenterCrop(224), v2.ToDtype(torch.float32, scale=True)]
    return v2.Compose([*parts, v2.Normalize(MEAN, STD)])


def detection(v2: ModuleType, tv_tensors: ModuleType) -> Callable[..., Any]:
    """Flip, crop, drop what is lost."""
    return v2.Compose([
        v2.RandomHorizontalFlip(),
        v2.RandomResizedCrop((320, 320), antialias=True),
        v2.SanitizeBoundingBoxes(),
        v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
        v2.Normalize(MEAN, STD),
    ])


def sample(tv_tensors: ModuleType, picture: torch.Tensor, masks: bool) -> dict[str, Any]:
    """A picture with twelve boxes, with their masks or without."""
    generator = torch.Generator().manual_seed(0)
    corner = torch.rand(12, 2, generator=generator) * torch.tensor([300.0, 200.0])
    size = 40 + torch.rand(12, 2, generator=generator) * 120
    boxes = torch.cat([corner, corner + size], 1)
    out = {
        "image": tv_tensors.Image(picture),
        "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(375, 500)),
        "labels": torch.arange(12),
    }
    if masks:
        out["masks"] = tv_tensors.Mask(torch.rand(12, 375, 500, generator=generator) > 0.5)
    return out


def seeded(pipeline: Callable[..., Any], given: Any) -> Callable[[], Any]:
    """Eight runs from one seed, as one call."""

    def run() -> None:
        torch.manual_seed(0)
        for _ in range(8):
            pipeline(given)

    return run


def cases(v2: ModuleType, tv_tensors: ModuleType) -> dict[str, Callable[[], Any]]:
    """The rows of one library."""
    noise = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    pillow = PIL.Image.fromarray(noise).resize(
        (500, 375), PIL.Image.Resampling.BICUBIC
    )  # smooth, as a photograph is
    first = torch.from_numpy(np.array(pillow)).permute(2, 0, 1).contiguous()
    last = first.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    train = classification(v2)
    return {
        "classification, tensor": seeded(train, first),
        "classification, tensor, channels last": seeded(train, last),
        "classification, Image": seeded(train, tv_tensors.Image(first)),
        "classification, Pillow": seeded(classification(v2, v2.PILToTensor()), pillow),
        "classification, batch of 8": seeded(train, first.expand(8, -1, -1, -1).contiguous()),
        "evaluation, tensor": seeded(evaluation(v2), first),
        "detection, boxes": seeded(detection(v2, tv_tensors), sample(tv_tensors, first, False)),
        "detection, boxes and 12 masks": seeded(detection(v2, tv_tensors), sample(tv_tensors, first, True)),
    }


def main() -> None:
    """Print a line for each row."""
    options = parser(__doc__, rounds=15).parse_args()
    torch.set_num_threads(options.threads)
    found = peer("torchvision", "torchvision.transforms.v2", "torchvision.tv_tensors")
    print(facts(found, options.rounds), flush=True)
    ours = cases(tetravision.transforms.v2, tetravision.tv_tensors)
    theirs = cases(*found[1:]) if found else {}
    for name, call in ours.items():
        if options.only in name:
            calls = {"ours": call} | ({"peer": theirs[name]} if found else {})
            print(compare(name, calls, options.rounds), flush=True)


if __name__ == "__main__":
    main()
