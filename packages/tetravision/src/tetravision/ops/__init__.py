"""Operators of detection: boxes, non-maximum suppression, and regions of interest."""

from tetravision.ops._boxes import box_area, box_convert, box_iou, clip_boxes_to_image, remove_small_boxes
from tetravision.ops._nms import batched_nms, nms
from tetravision.ops._roi_align import RoIAlign, roi_align

__all__ = [
    "RoIAlign",
    "batched_nms",
    "box_area",
    "box_convert",
    "box_iou",
    "clip_boxes_to_image",
    "nms",
    "remove_small_boxes",
    "roi_align",
]
