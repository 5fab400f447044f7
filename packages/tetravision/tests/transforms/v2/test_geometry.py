"""Resize, CenterCrop, RandomResizedCrop, RandomHorizontalFlip: and above all, that boxes and masks follow the picture."""

import math
import statistics

import PIL.Image
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tetravision.transforms import v2
from tetravision.tv_tensors import BoundingBoxes, Image, Mask

PIPELINES = {
    "flip": [v2.RandomHorizontalFlip(1.0)],
    "resize": [v2.Resize((47, 91))],
    "shorter side": [v2.Resize(40, max_size=70)],
    "middle": [v2.CenterCrop((50, 150))],
    "random crop": [v2.RandomResizedCrop((64, 48))],
    "all": [v2.RandomHorizontalFlip(), v2.RandomResizedCrop((80, 96)), v2.CenterCrop(72), v2.Resize(100)],
}


def painted(format, left, top, width, height):
    """A picture and a mask with one bright rectangle, and its box."""
    picture = torch.zeros(3, 90, 120, dtype=torch.uint8)
    picture[:, top : top + height, left : left + width] = 255
    boxes = BoundingBoxes(
        [[left, top, left + width, top + height]], format="XYXY", canvas_size=(90, 120), dtype=torch.float32
    )
    boxes = v2.functional.convert_bounding_box_format(boxes, new_format=format)
    return {"image": Image(picture), "mask": Mask(picture[:1] > 0), "boxes": boxes}


def extent(mask):
    """Left, top, right, bottom of the pixels that are set; None without any."""
    at = mask.nonzero()
    return None if not len(at) else [*at.amin(0).flip(0).tolist(), *(at.amax(0) + 1).flip(0).tolist()]


@pytest.mark.parametrize("name", list(PIPELINES))
@settings(max_examples=25)
@given(
    st.sampled_from(["XYXY", "XYWH", "CXCYWH"]),
    st.integers(0, 100),
    st.integers(0, 70),
    st.integers(8, 40),
    st.integers(8, 30),
    st.integers(0, 99),
)
def test_the_box_stays_around_what_was_painted(name, format, left, top, width, height, seed):
    torch.manual_seed(seed)
    sample = painted(format, left, top, min(width, 120 - left), min(height, 90 - top))
    out = v2.Compose(PIPELINES[name])(sample)
    assert out["boxes"].canvas_size == tuple(out["image"].shape[-2:]) == tuple(out["mask"].shape[-2:])
    box = v2.functional.convert_bounding_box_format(out["boxes"], new_format="XYXY")[0]
    side = out["image"].shape[-1] / 20 + 2  # a pixel of the source may become several
    for seen in (extent(out["image"][0] > 127), extent(out["mask"][0])):
        if seen is None:
            assert (box[2:] - box[:2]).min() <= side
        else:
            assert (box - torch.tensor(seen)).abs().max() <= side


@pytest.mark.smoke
def test_a_flip_is_exact():
    sample = painted("XYXY", 10, 20, 30, 40)
    out = v2.RandomHorizontalFlip(1.0)(sample)
    assert out["boxes"].tolist() == [[80, 20, 110, 60]]
    assert extent(out["mask"][0]) == [80, 20, 110, 60]


def test_p_is_how_often():
    torch.manual_seed(0)
    picture = torch.tensor([[0, 1]])
    for p in (0.0, 0.25, 1.0):
        turned = sum(v2.RandomHorizontalFlip(p)(picture)[0, 0].item() for _ in range(400))
        assert abs(turned - 400 * p) <= 5 * math.sqrt(400 * p * (1 - p))


def drawn(transform, height=60, width=80, times=400):
    picture = torch.zeros(1, height, width)
    return [transform.make_params([picture]) for _ in range(times)]


def test_crops_lie_inside_and_keep_to_scale_and_ratio():
    torch.manual_seed(0)
    for draw in drawn(v2.RandomResizedCrop(8, scale=(0.1, 0.6), ratio=(0.5, 2.0))):
        h, w = draw["height"], draw["width"]
        assert 0 <= draw["top"] <= 60 - h
        assert 0 <= draw["left"] <= 80 - w
        assert 0.1 * 4800 - (h + w) <= h * w <= 0.6 * 4800 + (h + w)  # sides are rounded
        assert 0.5 * (1 - 1.5 / h) <= w / h <= 2.0 * (1 + 1.5 / h)


def test_area_is_even_and_aspect_is_even_on_a_logarithmic_scale():
    torch.manual_seed(0)
    draws = drawn(v2.RandomResizedCrop(8, scale=(0.05, 0.25), ratio=(0.5, 2.0)), 600, 600, times=2000)
    area = [draw["height"] * draw["width"] / 360000 for draw in draws]
    aspect = [math.log2(draw["width"] / draw["height"]) for draw in draws]
    for values, low, high in ((area, 0.05, 0.25), (aspect, -1.0, 1.0)):
        spread = (high - low) / math.sqrt(12)  # of an even distribution
        assert abs(statistics.mean(values) - (low + high) / 2) <= 5 * spread / math.sqrt(2000)
        assert abs(statistics.pstdev(values) - spread) <= 0.05 * spread
    tops = [draw["top"] / (600 - draw["height"]) for draw in draws]
    assert abs(statistics.mean(tops) - 0.5) <= 5 / math.sqrt(12 * 2000)
    assert {
        draw["top"] for draw in drawn(v2.RandomResizedCrop(2, scale=(0.5, 0.5), ratio=(1, 1)), 4, 4, 200)
    } == {0, 1}


def test_a_shape_that_never_fits_gives_the_middle():
    for height, width in ((10, 100), (100, 10)):
        draw = drawn(v2.RandomResizedCrop(8, scale=(1.0, 1.0), ratio=(0.5, 2.0)), height, width, 1)[0]
        assert sorted([draw["height"], draw["width"]]) == [10, 20]
        assert draw["top"] == (height - draw["height"]) // 2
        assert draw["left"] == (width - draw["width"]) // 2


@pytest.mark.parametrize(
    "make", [lambda g: v2.RandomResizedCrop(5, generator=g), lambda g: v2.RandomHorizontalFlip(generator=g)]
)
def test_a_generator_decides_and_leaves_the_global_state_alone(make):
    picture = torch.rand(3, 20, 30)
    before = torch.get_rng_state()
    runs = [make(torch.Generator().manual_seed(5))(picture) for _ in range(2)]
    assert torch.equal(*runs)
    assert torch.equal(torch.get_rng_state(), before)


def test_torch_manual_seed_reproduces_a_run():
    pipeline, picture, runs = v2.Compose(PIPELINES["all"]), torch.rand(3, 20, 30), []
    for _ in range(2):
        torch.manual_seed(3)
        runs.append(torch.stack([pipeline(picture) for _ in range(3)]))
    assert torch.equal(*runs)


@pytest.mark.parametrize("name", list(PIPELINES))
def test_pillow_pictures_and_plain_tensors_go_through(name):
    values = torch.randint(0, 255, (3, 90, 120), dtype=torch.uint8)
    picture = PIL.Image.fromarray(values.permute(1, 2, 0).numpy())
    sizes = set()
    for each in (values, picture, Image(values)):
        torch.manual_seed(1)
        out = v2.Compose(PIPELINES[name])(each)
        assert type(out) is (PIL.Image.Image if each is picture else type(each))
        sizes.add(tuple(v2.functional.get_size(out)))
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: v2.RandomHorizontalFlip(1.5), "p must be from 0 to 1, got 1.5"),
        (lambda: v2.RandomResizedCrop(3, scale=(0.5, 0.1)), r"scale must be \(least, greatest\)"),
        (lambda: v2.RandomResizedCrop(3, ratio=(0.0, 1.0)), "ratio must be"),
        (lambda: v2.RandomResizedCrop(3, scale=(0.0, 0.0)), "scale must be"),
        (lambda: v2.RandomResizedCrop((1, 2, 3)), "size must be one number or"),
        (lambda: v2.CenterCrop(()), "CenterCrop: size must be"),
        (lambda: v2.Resize(None), "max_size must be given"),
        (lambda: v2.Resize((3, 4), max_size=5), "one number below max_size"),
    ],
)
def test_what_makes_no_transform_is_refused_when_it_is_made(make, says):
    with pytest.raises(ValueError, match=says):
        make()
