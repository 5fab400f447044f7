import doctest
import importlib
import pkgutil

import pytest
import torch

import tetrarec
from tetrarec import modules, ops, optim, sparse, tbe

NAMES = [
    name
    for _, name, _ in pkgutil.walk_packages(tetrarec.__path__, "tetrarec.")
    if not name.endswith("_triton")
]


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_module_give_what_they_show(name):
    module = importlib.import_module(name)
    world = {"torch": torch}
    for door in (sparse, ops, tbe, modules, optim):
        world.update({public: getattr(door, public) for public in door.__all__})
    torch.manual_seed(0)
    result = doctest.testmod(module, extraglobs=world, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.failed == 0
