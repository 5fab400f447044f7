"""Names that torch keeps private, in one place.

Checked on torch 2.13.0 and 2.14.1.
"""

from torch._C import _AutoDispatchBelowAutograd as below_autograd
from torch.utils._pytree import GetAttrKey, register_pytree_node

__all__ = ["GetAttrKey", "below_autograd", "register_pytree_node"]
