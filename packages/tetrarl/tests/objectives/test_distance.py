import pytest
import torch
from torch.testing import assert_close

from tetrarl.objectives import distance_loss


@pytest.mark.parametrize(
    ("name", "want"), [("l1", [0.5, 3.0]), ("l2", [0.25, 9.0]), ("smooth_l1", [0.125, 2.5])]
)
def test_each_distance_is_its_formula(name, want):
    got = distance_loss(torch.tensor([0.0, 3.0]), torch.tensor([0.5, 0.0]), name)
    assert_close(got, torch.tensor(want))


def test_an_unknown_distance_and_differing_shapes_are_refused():
    with pytest.raises(ValueError, match=r"must be one of.*'smooth_l1'.*got 'huber'"):
        distance_loss(torch.zeros(2), torch.zeros(2), "huber")
    with pytest.raises(ValueError, match=r"of one shape, got \(2,\) and \(2, 1\)"):
        distance_loss(torch.zeros(2), torch.zeros(2, 1), "l2")
