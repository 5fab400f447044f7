"""Batches of tv_tensors: torch's default collate gives the type it was given."""

from typing import Any

import torch

from tetravision._torch_compat import collate_tensor_fn, default_collate_fn_map


def register_collate(cls: type[torch.Tensor]) -> None:
    """Let ``torch.utils.data.default_collate`` stack objects of ``cls`` to one of ``cls``."""
    default_collate_fn_map[cls] = collate_tv_tensors


def collate_tv_tensors(batch: list[Any], *, collate_fn_map: dict[Any, Any] | None = None) -> torch.Tensor:
    """Stack tv_tensors of one type along a new first dimension.

    The batch has the type and metadata of its members when all agree in the latter; boxes of differing canvases or formats
    give a plain tensor, as no single value would be true of them.
    """
    first = batch[0]
    stacked = collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
    metadata = [tuple(getattr(item, name) for name in first.metadata_names) for item in batch]
    if all(entry == metadata[0] for entry in metadata):
        return type(first).wrap(stacked, like=first)
    return stacked
