"""Transforms of whole samples: pictures, masks and boxes move together, whatever structure holds them."""

from tetravision.transforms._interpolation import InterpolationMode
from tetravision.transforms.v2 import functional
from tetravision.transforms.v2._compose import Compose
from tetravision.transforms.v2._geometry import CenterCrop, RandomHorizontalFlip, RandomResizedCrop, Resize
from tetravision.transforms.v2._sanitize import SanitizeBoundingBoxes
from tetravision.transforms.v2._transform import Transform
from tetravision.transforms.v2._values import Normalize, PILToTensor, ToDtype, ToImage

__all__ = [
    "CenterCrop",
    "Compose",
    "InterpolationMode",
    "Normalize",
    "PILToTensor",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "SanitizeBoundingBoxes",
    "ToDtype",
    "ToImage",
    "Transform",
    "functional",
]
