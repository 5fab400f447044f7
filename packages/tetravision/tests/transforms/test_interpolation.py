"""Names of interpolation modes."""

import PIL.Image
import pytest

from tetravision.transforms import InterpolationMode
from tetravision.transforms.v2 import Resize


@pytest.mark.parametrize("name", ["bicubic", "BICUBIC", PIL.Image.BICUBIC, 3, InterpolationMode.BICUBIC])
def test_a_mode_may_be_named_in_three_ways(name):
    assert Resize(3, interpolation=name).interpolation is InterpolationMode.BICUBIC


@pytest.mark.parametrize("mode", list(InterpolationMode))
def test_every_mode_is_found_by_its_value(mode):
    assert Resize(3, interpolation=mode.value).interpolation is mode


@pytest.mark.parametrize("name", ["cubic", 17, None])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match="one of nearest, nearest-exact, bilinear"):
        Resize(3, interpolation=name)
