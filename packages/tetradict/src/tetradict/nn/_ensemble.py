"""Several modules of one structure at once."""

import torch
from torch import nn

from tetradict._base import TensorDictBase
from tetradict._params import TensorDictParams
from tetradict._stack import stack
from tetradict._td import TensorDict
from tetradict.nn._module import TensorDictModuleBase


class EnsembleModule(TensorDictModuleBase):
    """Copies of a module, each with parameters of its own, that run at once by ``torch.vmap``.

    Args:
        module: the module. It is left as it is; the copies are drawn anew by its ``reset_parameters`` methods.
        num_copies: how many there are.
        expand_input: give every copy the same input. If not, the input has a first dimension of the copies, as the
            result of another ensemble has.

    The result has the copies as its first batch dimension.

    Example:
        >>> net = TensorDictModule(torch.nn.Linear(4, 2), in_keys=["a"], out_keys=["b"])
        >>> EnsembleModule(net, num_copies=3)(TensorDict({"a": torch.zeros(10, 4)}, [10]))["b"].shape
        torch.Size([3, 10, 2])
    """

    def __init__(self, module: TensorDictModuleBase, num_copies: int, expand_input: bool = True) -> None:
        if num_copies < 1:
            raise ValueError(f"EnsembleModule: num_copies must be at least 1, got {num_copies}")
        super().__init__()
        self.in_keys, self.out_keys = module.in_keys, module.out_keys
        own = TensorDict.from_module(module)
        copies = []
        for _ in range(num_copies):
            parameters = own.clone().unlock_()
            if any(isinstance(leaf, nn.Parameter) for leaf in own._leaves()):
                module.reset_parameters_recursive(parameters.detach())
            copies.append(parameters.detach())
        kinds = [isinstance(leaf, nn.Parameter) for leaf in own._leaves()]
        leaves = zip(stack(copies)._leaves(), kinds, strict=True)
        drawn = iter([nn.Parameter(leaf) if learnt else nn.Buffer(leaf) for leaf, learnt in leaves])
        self.params_td = TensorDictParams(stack(copies)._rebuild(drawn), no_convert=True)
        self.module = [module]  # in a list: its own parameters take no part
        self.expand_input = expand_input
        self._run = torch.vmap(self._call, (None if expand_input else 0, 0), randomness="different")

    def _call(self, tensordict: TensorDictBase, parameters: TensorDictBase) -> TensorDictBase:
        (module,) = self.module
        with parameters.to_module(module):
            return module(tensordict.copy())

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Run every copy."""
        return self._run(tensordict, self.params_td)

    def reset_parameters_recursive(self, parameters: TensorDictBase | None = None) -> TensorDictBase:
        """Draw the parameters of every copy anew: its own, or in place those given, which are returned."""
        (module,) = self.module
        parameters = self.params_td if parameters is None else parameters
        for part in parameters.detach().unbind(0):
            module.reset_parameters_recursive(part)
        return parameters
