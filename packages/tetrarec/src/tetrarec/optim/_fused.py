"""A handle on updates that run inside the backward pass."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from tetrarec.tbe import TableBatchedEmbeddingBags


class FusedOptimizer(Optimizer):
    """State and settings of updates that backward makes, seen as an optimizer.

    ``step`` has nothing left to do. A learning rate scheduler works as on any optimizer: ``param_groups``
    hold the very tensor that backward reads; a plain number put in its place is taken over by the next
    ``step`` or ``zero_grad``.

    Args:
        modules: for each fused module the names of its tables' weights, in order, and the module.
        weights: the tables' weights, for each module.
    """

    def __init__(
        self,
        modules: Sequence[tuple[Sequence[str], TableBatchedEmbeddingBags]],
        weights: Sequence[Sequence[Parameter]],
    ) -> None:
        self._names = [list(names) for names, _ in modules]
        self._modules = [module for _, module in modules]
        settings = zip(weights, self._modules, strict=True)
        super().__init__([{"params": list(w), "lr": m.learning_rate, "eps": m.eps} for w, m in settings], {})
        self.bind(weights)

    def bind(self, weights: Sequence[Sequence[Parameter]]) -> None:
        """Look at the modules' tensors anew, after they were moved or replaced."""
        self.state.clear()
        groups = zip(self.param_groups, weights, self._names, self._modules, strict=True)
        for group, parameters, names, module in groups:
            group["params"], group["lr"] = list(parameters), module.learning_rate
            for name, parameter, state in zip(
                names, parameters, module.split_optimizer_states(), strict=True
            ):
                self.state[parameter] = {f"{name}.momentum_1": state}

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Take learning rates over; the update itself was made by backward.

        Args:
            closure: computes the loss, and with its gradients the update.

        Returns:
            What ``closure`` gave.
        """
        self._take_learning_rates()
        return None if closure is None else closure()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Take learning rates over; there are no gradients to clear.

        Args:
            set_to_none: as in torch, and without effect where no gradient is kept.
        """
        self._take_learning_rates()

    def _take_learning_rates(self) -> None:
        for group, module in zip(self.param_groups, self._modules, strict=True):
            if group["lr"] is not module.learning_rate:
                module.set_learning_rate(group["lr"])
                group["lr"] = module.learning_rate

    def state_dict(self) -> dict[str, Any]:
        """The settings, and the accumulators as ``<table>.weight`` to ``<table>.weight.momentum_1``."""
        self._take_learning_rates()
        state = {}
        for group, names in zip(self.param_groups, self._names, strict=True):
            state.update({
                name: dict(self.state[weight]) for name, weight in zip(names, group["params"], strict=True)
            })
        settings = [
            {"params": list(names), "lr": module.get_learning_rate(), "eps": module.eps}
            for names, module in zip(self._names, self._modules, strict=True)
        ]
        return {"state": state, "param_groups": settings}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copy accumulators and learning rates in.

        Args:
            state_dict: what :meth:`state_dict` gave; ``param_groups`` may be missing.

        Raises:
            KeyError: a table without accumulators.
            ValueError: accumulators of another shape.
        """
        given = state_dict["state"]
        for group, names in zip(self.param_groups, self._names, strict=True):
            for name, weight in zip(names, group["params"], strict=True):
                if name not in given:
                    raise KeyError(
                        f"FusedOptimizer.load_state_dict: no state for {name!r}, only for {list(given)}"
                    )
                for entry, state in self.state[weight].items():
                    if given[name][entry].shape != state.shape:
                        raise ValueError(
                            f"FusedOptimizer.load_state_dict: {entry} must be {tuple(state.shape)}, "
                            f"got {tuple(given[name][entry].shape)}"
                        )
                    state.copy_(given[name][entry])
        settings = state_dict.get("param_groups", [])
        for module, setting in zip(self._modules, settings, strict=False):
            module.set_learning_rate(setting["lr"])
