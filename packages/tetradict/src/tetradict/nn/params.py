"""Parameters as a collection, by the path that users of other libraries know."""

from tetradict._params import TensorDictParams

__all__ = ["TensorDictParams"]
