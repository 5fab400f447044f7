"""Networks, by the path that users of other libraries know."""

from tetrarl.modules._mlp import MLP

__all__ = ["MLP"]
