"""torch.compile takes kernels, functionals and transforms whole, with one graph for all shapes, on every type."""

import pytest
import torch
from torch._dynamo.utils import counters
from torch.testing import assert_close

from tetravision.transforms import v2
from tetravision.transforms.v2 import functional as F
from tetravision.tv_tensors import BoundingBoxes, BoundingBoxFormat, Image, Mask

SIZES = [(37, 53), (64, 48), (91, 77)]  # landscape, portrait, landscape
COUNTS = [7, 9, 17]  # none is 3 or 4: equal sizes would share a symbol

GEOMETRY = {
    "resize": {"size": [24, 30]},
    "crop": {"top": 2, "left": 3, "height": 20, "width": 22},
    "center_crop": {"output_size": [20, 22]},
    "resized_crop": {"top": 2, "left": 3, "height": 20, "width": 22, "size": [16, 18]},
    "horizontal_flip": {},
    "pad": {"padding": [1, 2, 3, 4]},
}
VALUES = {
    "to_dtype": {"dtype": torch.float32, "scale": True},
    "normalize": {"mean": [0.5] * 3, "std": [0.2] * 3},
}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()


def picture(height, width):
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8)


def box(number, height, width):
    corner = torch.rand(number, 2) * torch.tensor([width / 2, height / 2])
    return torch.cat([corner, corner + 3 + torch.rand(number, 2) * 10], 1)


def check_one_graph(function, calls, backend="aot_eager"):
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=backend)
    for call in calls:
        got, want = compiled(*call), function(*call)
        assert type(got) is type(want)
        if isinstance(want, BoundingBoxes):
            assert (got.canvas_size, got.format) == (want.canvas_size, want.format)
        assert_close(torch.as_tensor(got) + 0, torch.as_tensor(want) + 0)
    assert counters["stats"]["unique_graphs"] == 1


def inputs(kind, name):
    plain = [picture(*size) for size in SIZES]
    if name == "normalize":
        plain = [each.float() for each in plain]
    if kind is Mask:
        return [(Mask(each[:1] > 99),) for each in plain]
    if kind is BoundingBoxes:
        return [
            (BoundingBoxes(box(number, *size), format="XYXY", canvas_size=size),)
            for number, size in zip(COUNTS, SIZES, strict=True)
        ]
    return [(each if kind is torch.Tensor else kind(each),) for each in plain]


@pytest.mark.parametrize("kind", [torch.Tensor, Image, Mask, BoundingBoxes])
@pytest.mark.parametrize("name", list(GEOMETRY))
def test_geometry_compiles_whole_on_every_type(name, kind):
    check_one_graph(lambda x: getattr(F, name)(x, **GEOMETRY[name]), inputs(kind, name))


@pytest.mark.parametrize("kind", [torch.Tensor, Image])
@pytest.mark.parametrize("name", list(VALUES))
def test_values_compile_whole(name, kind):
    check_one_graph(lambda x: getattr(F, name)(x, **VALUES[name]), inputs(kind, name))


@pytest.mark.parametrize("name", ["resized_crop", "center_crop"])
def test_kernels_of_boxes_compile_whole_with_a_canvas_that_varies(name):
    kernel = getattr(F, f"{name}_bounding_boxes")
    takes_canvas = name == "center_crop"

    def run(boxes, height, width):
        more = {"canvas_size": (height, width)} if takes_canvas else {}
        out = kernel(boxes, format=BoundingBoxFormat.CXCYWH, **more, **GEOMETRY[name])
        return out[0] if isinstance(out, tuple) else out

    check_one_graph(run, [(box(number, *size), *size) for number, size in zip(COUNTS, SIZES, strict=True)])


@pytest.mark.parametrize("mode", ["nearest-exact", "bicubic"])
def test_every_mode_of_resize_shares_one_graph_for_portrait_and_landscape(mode):
    check_one_graph(lambda x: F.resize_image(x, [24, 30], mode), inputs(torch.Tensor, "resize"))


def test_formats_and_clamping_compile_whole():
    calls = inputs(BoundingBoxes, "")
    check_one_graph(
        lambda x: F.clamp_bounding_boxes(F.convert_bounding_box_format(x, new_format="CXCYWH")), calls
    )


def test_sanitising_compiles_whole_though_the_answer_has_any_length():
    def run(boxes):
        return F.sanitize_bounding_boxes(boxes, format="XYXY", canvas_size=(40, 40))[0]

    check_one_graph(run, [(box(number, *size),) for number, size in zip(COUNTS, SIZES, strict=True)])


@pytest.mark.smoke
def test_flipping_boxes_compiles_whole():
    boxes = BoundingBoxes([[1.0, 2, 5, 6]], format="XYXY", canvas_size=(10, 20))
    compiled = torch.compile(lambda x: F.horizontal_flip(x), fullgraph=True, dynamic=True, backend="eager")
    assert compiled(boxes).tolist() == [[15, 2, 19, 6]]


def test_ordinary_operations_on_tv_tensors_compile_whole():
    def run(boxes):
        moved = boxes.clone()
        moved += boxes.canvas_size[1]
        return torch.cat([moved, boxes * 2])

    check_one_graph(run, inputs(BoundingBoxes, ""))


def test_making_an_image_inside_a_graph_is_fine():
    check_one_graph(lambda x: Image(x + 1), inputs(torch.Tensor, ""))


def test_a_pipeline_without_chance_compiles_whole_on_a_sample():
    pipeline = v2.Compose([
        v2.Resize((32, 40)),
        v2.CenterCrop(24),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.5] * 3, [0.2] * 3),
    ])
    calls = [
        (
            {
                "image": Image(picture(*size)),
                "boxes": BoundingBoxes(box(number, *size), format="XYXY", canvas_size=size),
            },
        )
        for number, size in zip(COUNTS, SIZES, strict=True)
    ]
    compiled = torch.compile(pipeline, fullgraph=True, dynamic=True, backend="eager")
    for (sample,) in calls:
        got, want = compiled(sample), pipeline(sample)
        assert type(got["image"]) is Image
        assert got["boxes"].canvas_size == (24, 24)
        assert_close(got["image"] + 0, want["image"] + 0, rtol=1e-5, atol=1e-5)
        assert_close(got["boxes"] + 0, want["boxes"] + 0)
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
)  # inductor's own
@pytest.mark.parametrize("kind", [torch.Tensor, Image, Mask, BoundingBoxes])
@pytest.mark.parametrize("name", list(GEOMETRY))
def test_inductor_takes_geometry_whole(name, kind):
    check_one_graph(lambda x: getattr(F, name)(x, **GEOMETRY[name]), inputs(kind, name), backend="inductor")
