"""Minari's datasets, under the path that users know."""

from tetrarl.data.datasets._minari import MinariExperienceReplay

__all__ = ["MinariExperienceReplay"]
