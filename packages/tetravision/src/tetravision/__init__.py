"""Image transforms that keep boxes and masks in step, and detection operators that compile."""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from tetravision._version import __version__

if TYPE_CHECKING:
    from tetravision import ops, transforms, tv_tensors

__all__ = ["__version__", "ops", "transforms", "tv_tensors"]


def __getattr__(name: str) -> ModuleType:
    """Open a door when it is first used: the operators are whole without Pillow, which the other two need."""
    if name in ("ops", "transforms", "tv_tensors"):
        return importlib.import_module(f"tetravision.{name}")
    raise AttributeError(f"module 'tetravision' has no attribute {name!r}")
