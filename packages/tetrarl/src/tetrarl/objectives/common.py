"""The base of all losses, by the path that users of other libraries know."""

from tetrarl.objectives._loss_module import LossModule

__all__ = ["LossModule"]
