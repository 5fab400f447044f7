"""Checks that read values, under the path that users know."""

from tetrarec.sparse._validate import validate_keyed_jagged_tensor

__all__ = ["validate_keyed_jagged_tensor"]
