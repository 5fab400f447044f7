"""Every example in the docstring of a public name runs and gives what it says."""

import doctest
import inspect

import numpy as np
import PIL.Image
import pytest
import torch

from tetravision import ops, transforms, tv_tensors
from tetravision.transforms import v2
from tetravision.transforms.v2 import functional

DOORS = [tv_tensors, functional, v2, transforms, ops]
KERNELS = ("_image", "_mask", "_bounding_boxes")


def public():
    return {
        name: getattr(door, name)
        for door in DOORS
        for name in door.__all__
        if not inspect.ismodule(getattr(door, name))
    }


@pytest.mark.parametrize("name", list(public()))
def test_the_example_runs(name):
    value = public()[name]
    assert value.__doc__, f"{name} has no docstring"
    tests = doctest.DocTestFinder(recurse=False).find(value, name)
    examples = sum(len(test.examples) for test in tests)
    assert examples or name.endswith(KERNELS) or name in ("InterpolationMode", "BoundingBoxFormat"), (
        f"{name} has no example"
    )
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in tests:
        test.globs = {"torch": torch, "np": np, "PIL": PIL, "F": functional} | public()
        assert runner.run(test).failed == 0
