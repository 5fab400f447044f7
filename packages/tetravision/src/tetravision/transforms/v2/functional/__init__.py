"""Transforms as functions: a functional for any type, and the kernels it chooses from, pure functions of plain tensors."""

from tetravision.transforms._interpolation import InterpolationMode
from tetravision.transforms.v2.functional._boxes import (
    clamp_bounding_boxes,
    convert_bounding_box_format,
    sanitize_bounding_boxes,
)
from tetravision.transforms.v2.functional._convert import pil_to_tensor, to_image
from tetravision.transforms.v2.functional._crop import (
    center_crop,
    center_crop_bounding_boxes,
    center_crop_image,
    center_crop_mask,
    crop,
    crop_bounding_boxes,
    crop_image,
    crop_mask,
    resized_crop,
    resized_crop_bounding_boxes,
    resized_crop_image,
    resized_crop_mask,
)
from tetravision.transforms.v2.functional._dtype import to_dtype, to_dtype_image
from tetravision.transforms.v2.functional._flip import (
    hflip,
    horizontal_flip,
    horizontal_flip_bounding_boxes,
    horizontal_flip_image,
    horizontal_flip_mask,
)
from tetravision.transforms.v2.functional._meta import (
    get_dimensions,
    get_dimensions_image,
    get_num_channels,
    get_num_channels_image,
    get_size,
    get_size_bounding_boxes,
    get_size_image,
    get_size_mask,
)
from tetravision.transforms.v2.functional._normalize import normalize, normalize_image
from tetravision.transforms.v2.functional._pad import pad, pad_bounding_boxes, pad_image, pad_mask
from tetravision.transforms.v2.functional._registry import is_pure_tensor, register_kernel
from tetravision.transforms.v2.functional._resize import (
    resize,
    resize_bounding_boxes,
    resize_image,
    resize_mask,
)

__all__ = [
    "InterpolationMode",
    "center_crop",
    "center_crop_bounding_boxes",
    "center_crop_image",
    "center_crop_mask",
    "clamp_bounding_boxes",
    "convert_bounding_box_format",
    "crop",
    "crop_bounding_boxes",
    "crop_image",
    "crop_mask",
    "get_dimensions",
    "get_dimensions_image",
    "get_num_channels",
    "get_num_channels_image",
    "get_size",
    "get_size_bounding_boxes",
    "get_size_image",
    "get_size_mask",
    "hflip",
    "horizontal_flip",
    "horizontal_flip_bounding_boxes",
    "horizontal_flip_image",
    "horizontal_flip_mask",
    "is_pure_tensor",
    "normalize",
    "normalize_image",
    "pad",
    "pad_bounding_boxes",
    "pad_image",
    "pad_mask",
    "pil_to_tensor",
    "register_kernel",
    "resize",
    "resize_bounding_boxes",
    "resize_image",
    "resize_mask",
    "resized_crop",
    "resized_crop_bounding_boxes",
    "resized_crop_image",
    "resized_crop_mask",
    "sanitize_bounding_boxes",
    "to_dtype",
    "to_dtype_image",
    "to_image",
]
