"""What all losses share."""

from dataclasses import dataclass
from typing import Any

import torch
from tetradict import NestedKey
from tetradict.nn import TensorDictModuleBase
from torch import Tensor

from tetrarl.objectives._value_estimators import ValueEstimators, default_value_kwargs, estimator_class
from tetrarl.objectives.value import ValueEstimatorBase
from tetrarl.objectives.value._base import changed_keys


class LossModule(TensorDictModuleBase):
    """A module from a batch of data to the terms of a loss.

    A subclass keeps its networks as plain submodules (so that DistributedDataParallel, ``fully_shard`` and optimizers
    find their parameters as in any module), names the entries it reads in ``_AcceptedKeys``, and returns a collection
    without batch whose entries that begin with ``loss_`` are to be added up and differentiated.
    """

    @dataclass
    class _AcceptedKeys:
        """The entries a loss reads; see set_keys."""

    default_keys = _AcceptedKeys
    default_value_estimator: ValueEstimators | None = None

    def __init__(self) -> None:
        super().__init__()
        self._keys = self._AcceptedKeys()
        self._estimator: list[
            ValueEstimatorBase
        ] = []  # a list hides it from nn.Module: it owns no parameters

    @property
    def tensor_keys(self) -> Any:
        """The entries now in use, by the names that set_keys takes."""
        return self._keys

    def set_keys(self, **keys: NestedKey) -> None:
        """Read other entries than the default ones.

        Args:
            keys: new entries by name; ``tensor_keys`` shows the names.

        Raises:
            ValueError: there is no such name.
        """
        self._keys = changed_keys(type(self).__name__, self._keys, keys)
        for estimator in self._estimator:
            self._forward_keys(estimator)

    @property
    def value_estimator(self) -> ValueEstimatorBase:
        """What computes advantages and value targets; the default one unless make_value_estimator was called."""
        if not self._estimator:
            self.make_value_estimator()
        return self._estimator[0]

    def make_value_estimator(
        self, value_type: ValueEstimators | type[ValueEstimatorBase] | None = None, **hyperparams: Any
    ) -> "LossModule":
        """Choose what computes advantages and value targets where the data lack them.

        Args:
            value_type: one of ValueEstimators, or a class; that of the loss when left out.
            hyperparams: keywords of that class, such as ``gamma`` and ``lmbda``; defaults as default_value_kwargs
                gives them.

        Raises:
            ValueError: the loss has no value network or no such estimator.
        """
        value_type = self.default_value_estimator if value_type is None else value_type
        networks = self._estimator_networks()
        if value_type is None or networks.get("value_network") is None:
            raise ValueError(f"{type(self).__name__}: has no value network to make a value estimator of")
        cls = estimator_class(value_type)
        defaults = default_value_kwargs(value_type) if isinstance(value_type, ValueEstimators) else {}
        nothing = dict.fromkeys(cls.networks)
        estimator = cls(**nothing, **{**defaults, **hyperparams})
        estimator.borrow(**{name: networks[name] for name in nothing})
        self._forward_keys(estimator)
        self._estimator = [estimator]
        return self

    def _estimator_networks(self) -> dict[str, TensorDictModuleBase | None]:
        """The networks that a value estimator may work with, by the keyword it knows them by."""
        return {}

    def _forward_keys(self, estimator: ValueEstimatorBase) -> None:
        """Make the estimator read and write the entries of this loss."""
        mine = vars(self._keys)
        estimator.set_keys(**{name: mine[name] for name in vars(estimator.tensor_keys) if name in mine})

    def _apply(self, fn: Any, recurse: bool = True) -> "LossModule":
        """Take the estimator's coefficients along when the loss is moved."""
        for estimator in self._estimator:
            for name, buffer in estimator.named_buffers(recurse=False):
                setattr(estimator, name, fn(buffer))
        return super()._apply(fn, recurse)

    def _coefficient(self, name: str, value: float) -> None:
        """Keep a number as a buffer beside the parameters, so that it can be changed in place and is saved."""
        place = next((p.device for p in self.parameters()), None)
        self.register_buffer(name, torch.tensor(float(value), device=place))


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of a loss, or the loss of each item, without its trailing dimension of 1."""
    if reduction == "none":
        return loss.squeeze(-1)
    return loss.mean() if reduction == "mean" else loss.sum()


def check_reduction(where: str, reduction: str | None) -> str:
    """The reduction, ``mean`` when it was left out."""
    reduction = "mean" if reduction is None else reduction
    if reduction not in {"mean", "sum", "none"}:
        raise ValueError(f"{where}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return reduction
