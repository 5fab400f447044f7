"""Batches made by torch's own collate."""

import pytest
import torch
from torch.utils.data import DataLoader, default_collate

from tetravision.tv_tensors import BoundingBoxes, Image, Mask


@pytest.mark.smoke
@pytest.mark.parametrize("kind", [Image, Mask])
def test_a_batch_of_one_type_has_that_type(kind):
    batch = default_collate([kind(torch.full((3, 4, 5), float(number))) for number in range(2)])
    assert type(batch) is kind
    assert batch.shape == (2, 3, 4, 5)
    assert (batch[1] == 1).all()


def test_boxes_of_one_canvas_stay_boxes_and_of_two_become_a_tensor():
    def boxes(height):
        return BoundingBoxes([[1, 2, 3, 4]], format="XYXY", canvas_size=(height, 9))

    same = default_collate([{"boxes": boxes(5)}, {"boxes": boxes(5)}])["boxes"]
    assert type(same) is BoundingBoxes
    assert same.canvas_size == (5, 9)
    assert type(default_collate([boxes(5), boxes(6)])) is torch.Tensor


def test_a_users_own_subclass_is_collated_to_itself():
    class Thermal(Image):
        pass

    assert type(default_collate([Thermal(torch.zeros(1, 2, 2))] * 2)) is Thermal


def test_the_type_survives_a_worker_process():
    samples = [Image(torch.full((1, 2, 2), float(number))) for number in range(4)]
    loader = DataLoader(samples, batch_size=2, num_workers=1, multiprocessing_context="spawn")
    batches = list(loader)
    assert [type(batch) for batch in batches] == [Image, Image]
    assert batches[1].sum() == 4 * (2 + 3)
