"""Tensors that know what they are: images, masks, and boxes with their format and canvas."""

from tetravision.tv_tensors._bounding_boxes import BoundingBoxes, BoundingBoxFormat
from tetravision.tv_tensors._image import Image
from tetravision.tv_tensors._mask import Mask
from tetravision.tv_tensors._return_type import set_return_type
from tetravision.tv_tensors._tv_tensor import TVTensor, wrap

__all__ = ["BoundingBoxFormat", "BoundingBoxes", "Image", "Mask", "TVTensor", "set_return_type", "wrap"]
