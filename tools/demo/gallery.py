"""Real photographs through transforms, with boxes and masks that follow the picture."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import page
import torch
from matplotlib.cbook import get_sample_data
from PIL import Image, ImageDraw
from sklearn.datasets import load_sample_image
from tetravision import tv_tensors
from tetravision.transforms import v2

PAGODA = [(205, 32), (222, 62), (320, 122), (314, 160), (330, 182), (324, 238), (352, 256), (342, 308), (372, 338), (316, 392),
          (206, 386), (72, 340), (64, 262), (96, 232), (84, 182), (118, 160), (96, 112), (190, 62)]  # fmt: skip
COLOURS = ((70, 190, 255), (255, 95, 130), (150, 235, 110))


def section() -> page.Section:
    """What the report says of it."""
    return page.Section(
        title="Boxes and masks that follow the picture",
        library="tetravision",
        what=(
            "One pipeline crops, resizes and mirrors three photographs; their boxes and masks move along, and a box that "
            "leaves the picture takes its label and mask with it."
        ),
        data="photographs that ship with scikit-learn and matplotlib, outlined by hand.",
        code=page.shown_code(sys.modules[__name__]),
    )


def outline(size: tuple[int, int], shape: str, points: list) -> np.ndarray:
    """A bool mask ``[H, W]`` of a polygon or ellipse."""
    mask = Image.new("1", size)
    getattr(ImageDraw.Draw(mask), shape)(points, fill=1)
    return np.array(mask)


def photographs() -> list[dict]:
    """Samples with ``image``, ``boxes``, ``masks`` and ``labels``."""
    china, flower = (Image.fromarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg"))
    with get_sample_data("grace_hopper.jpg") as file:
        hopper = Image.open(file).convert("RGB")
    petals = np.asarray(flower).astype(int)
    orange = (petals[..., 0] - petals[..., 2] > 25) & (petals[..., 0] > 110)
    marked = [
        (china, {"pagoda": outline(china.size, "polygon", PAGODA)}),
        (flower, {
            "dahlia": orange & outline(flower.size, "ellipse", [(164, 80), (450, 362)]),
            "bud": orange & outline(flower.size, "rectangle", [(284, 364), (472, 427)]),
        }),
        (hopper, {
            "face": outline(hopper.size, "ellipse", [(153, 110), (377, 335)]),
            "hat": outline(hopper.size, "polygon", [(146, 90), (176, 66), (200, 30), (262, 22), (336, 36), (354, 80),
                                                    (372, 100), (368, 178), (340, 150), (250, 128), (160, 162)]),
            "ribbons": outline(hopper.size, "rectangle", [(323, 487), (453, 527)]),
        }),
    ]  # fmt: skip
    return [sample(picture, masks) for picture, masks in marked]


def sample(picture: Image.Image, masks: dict[str, np.ndarray]) -> dict:
    """One picture with its masks, and the boxes around them."""
    found = [np.nonzero(mask) for mask in masks.values()]
    boxes = [[x.min(), y.min(), x.max() + 1, y.max() + 1] for y, x in found]
    size = (picture.height, picture.width)
    return {
        "image": tv_tensors.Image(picture),
        "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size, dtype=torch.float32),
        "masks": tv_tensors.Mask(torch.from_numpy(np.stack(list(masks.values())))),
        "labels": torch.arange(len(masks)),
    }


def draw(sample: dict) -> np.ndarray:
    """The picture with its masks tinted and its boxes outlined: ``[H, W, 3]`` uint8."""
    picture = np.asarray(sample["image"]).transpose(1, 2, 0).astype(float)
    for mask, label in zip(np.asarray(sample["masks"]), sample["labels"].tolist(), strict=True):
        picture[mask] = 0.75 * picture[mask] + 0.25 * np.array(COLOURS[label])
    image = Image.fromarray(picture.astype(np.uint8))
    for box, label in zip(sample["boxes"].tolist(), sample["labels"].tolist(), strict=True):
        x1, y1, x2, y2 = box
        ImageDraw.Draw(image).rectangle([x1, y1, x2 - 1, y2 - 1], outline=COLOURS[label], width=3)
    return np.array(image)


def gap(sample: dict) -> float:
    """Largest distance in pixels between a box and its mask's extent, of the boxes that lie whole in the picture."""
    worst, (height, width) = 0.0, sample["masks"].shape[-2:]
    for mask, box in zip(np.asarray(sample["masks"]), sample["boxes"].tolist(), strict=True):
        if min(box) <= 0 or box[2] >= width or box[3] >= height:
            continue  # cut by the crop: a cut outline is narrower than the cut box around it
        y, x = np.nonzero(mask)
        worst = max(worst, *np.abs(np.array(box) - (x.min(), y.min(), x.max() + 1, y.max() + 1)))
    return float(worst)


def run(section: page.Section, scratch: Path) -> None:
    """Augment each photograph five times and show all."""
    torch.manual_seed(3)
    pictures, worst, kept, lost = [], 0.0, 0, 0
    # shown
    augment = v2.Compose([
        v2.RandomResizedCrop(320, scale=(0.3, 1.0)),
        v2.RandomHorizontalFlip(),
        v2.SanitizeBoundingBoxes(min_size=8),
    ])
    # end
    for original in photographs():
        pictures.append(
            page.photo(draw(v2.Compose([v2.Resize(320), v2.CenterCrop(320)])(original)), alt="original")
        )
        for _ in range(5):
            result = augment(original)
            worst = max(worst, gap(result))
            kept, lost = kept + len(result["boxes"]), lost + len(original["boxes"]) - len(result["boxes"])
            pictures.append(page.photo(draw(result), alt="augmented"))
    section.results += [
        (f"{kept}", "boxes with masks followed their picture"),
        (f"{lost}", "left it, and took label and mask along"),
        (f"{worst:.1f} px", "largest gap between a box and the mask in it: each moves by its own kernel"),
    ]
    section.figures.append((
        f'<div class="gallery">{"".join(pictures)}</div>',
        "Each row starts with the whole picture.",
    ))
