"""What value estimators share: which entries they read, whom they ask for values, what they write."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict

import torch
from tetradict import NestedKey, TensorDictBase
from tetradict.nn import TensorDictModuleBase, dispatch
from torch import Tensor

Coefficient = float | Tensor


class EstimatorOptions(TypedDict, total=False):
    """Keywords that every estimator takes; ValueEstimatorBase says what they mean."""

    differentiable: bool
    skip_existing: bool | None
    device: torch.device | str | int | None


@dataclass(frozen=True, slots=True)
class Transitions:
    """A rollout, and what every estimator takes out of it."""

    tensordict: TensorDictBase
    value: Tensor
    next_value: Tensor
    reward: Tensor
    done: Tensor
    terminated: Tensor | None


class ValueEstimatorBase(TensorDictModuleBase):
    """What all value estimators share: keys, coefficients, and the values of states and of next states.

    An estimator reads ``("next", "reward")``, ``("next", "done")`` and ``("next", "terminated")``, asks its value
    network for the values of the root and of ``"next"`` (or reads them, where there is no network), and writes
    ``"advantage"`` and ``"value_target"`` beside them; set_keys names other entries. The value lies where the
    network writes it, if that is its one output, else at ``"state_value"``. A subclass says how in ``_estimate``.

    Args:
        coefficients: numbers or tensors that the estimator keeps, by name.
        value_network: a module that writes a value for each state; ``None`` to read values that are there.
        differentiable: keep the graph, so that the results carry gradients to the network.
        skip_existing: don't call the network where its value is there already.
        device: where tensors among the coefficients are moved.
    """

    @dataclass
    class _AcceptedKeys:
        """The entries an estimator reads and writes; see set_keys."""

        advantage: NestedKey = "advantage"
        value_target: NestedKey = "value_target"
        value: NestedKey = "state_value"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"
        sample_log_prob: NestedKey = "action_log_prob"

    default_keys = _AcceptedKeys
    networks: tuple[str, ...] = ("value_network",)

    def __init__(
        self,
        coefficients: Mapping[str, Coefficient],
        *,
        value_network: TensorDictModuleBase | None,
        differentiable: bool = False,
        skip_existing: bool | None = None,
        device: torch.device | str | int | None = None,
    ) -> None:
        super().__init__()
        self.value_network = value_network
        self.differentiable = differentiable
        self.skip_existing = skip_existing
        for name, value in coefficients.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value.to(device), persistent=False)
            else:
                setattr(self, name, value)
        self._keys = self._AcceptedKeys()
        if value_network is not None and len(value_network.out_keys) == 1:
            self.set_keys(value=value_network.out_keys[0])

    @property
    def tensor_keys(self) -> Any:
        """The entries now in use, by the names that set_keys takes."""
        return self._keys

    def set_keys(self, **keys: NestedKey) -> None:
        """Read or write other entries than the default ones.

        Args:
            keys: new entries by name: ``advantage``, ``value_target``, ``value``, ``reward``, ``done``,
                ``terminated``, ``sample_log_prob``. Reward and flags are looked up in ``"next"``.

        Raises:
            ValueError: there is no such name.
        """
        self._keys = changed_keys(type(self).__name__, self._keys, keys)

    def borrow(self, **networks: TensorDictModuleBase) -> "ValueEstimatorBase":
        """Use networks (by attribute) that belong to another module, without listing their parameters once more."""
        for name, network in networks.items():
            self._modules.pop(name, None)
            self.__dict__[name] = network
        return self

    @property
    def in_keys(self) -> list[NestedKey]:
        """The entries that are read."""
        keys = self._keys
        states = [keys.value] if self.value_network is None else list(self.value_network.in_keys)
        outcome = [in_next(key) for key in (keys.reward, keys.done, keys.terminated)]
        return [*states, *outcome, *(in_next(key) for key in states)]

    @property
    def out_keys(self) -> list[NestedKey]:
        """The entries that are written, beside the values."""
        return [self._keys.advantage, self._keys.value_target]

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the advantage and the value target into ``tensordict``, ``[*B, T]``, and return it."""
        return self._write(tensordict, None)

    def value_estimate(self, tensordict: TensorDictBase) -> Tensor:
        """The value target; ``tensordict`` is left alone."""
        with self._graph():
            return self._run(tensordict.copy(), None)[1]

    def _write(self, tensordict: TensorDictBase, time_dim: int | None) -> TensorDictBase:
        with self._graph():
            advantage, target = self._run(tensordict, time_dim)
        tensordict.set(self._keys.advantage, advantage)
        return tensordict.set(self._keys.value_target, target)

    def _graph(self) -> Any:
        return nullcontext() if self.differentiable else torch.no_grad()

    def _run(self, tensordict: TensorDictBase, time_dim: int | None) -> tuple[Tensor, Tensor]:
        following = self._entry(tensordict, "next")
        value, next_value = self._value(tensordict), self._value(following)
        reward, done = (self._entry(following, key) for key in (self._keys.reward, self._keys.done))
        terminated = following.get(self._keys.terminated, None)
        step = Transitions(tensordict, value, next_value, reward, done, terminated)
        return self._estimate(step, self._time(tensordict, time_dim))

    def _estimate(self, step: Transitions, time_dim: int) -> tuple[Tensor, Tensor]:
        """The advantage and the value target."""
        raise TypeError(f"{type(self).__name__} is no complete estimator: it lacks _estimate")

    def _value(self, node: TensorDictBase) -> Tensor:
        """The value of the states in ``node``, computed and written unless it is to be found there."""
        key = self._keys.value
        there = node.get(key, None)
        if self.value_network is None or (self.skip_existing and there is not None):
            return self._entry(node, key)
        out = self.value_network(node.select(*self.value_network.in_keys))
        value = self._entry(out, key)
        node.set(key, value)
        return value

    def _entry(self, node: TensorDictBase, key: NestedKey) -> Any:
        entry = node.get(key, None)
        if entry is None:
            raise KeyError(
                f"{type(self).__name__}: expected the entry {key!r}, got {list(node.keys(True))}; "
                "set it, or name another with set_keys"
            )
        return entry

    def _time(self, tensordict: TensorDictBase, time_dim: int | None) -> int:
        """The dimension of time, for those who need one."""
        return 0


class TimedEstimator(ValueEstimatorBase):
    """An estimator that runs along time, whose call can name the dimension."""

    time_dim: int | None = None

    @dispatch
    def forward(self, tensordict: TensorDictBase, *, time_dim: int | None = None) -> TensorDictBase:
        """Write the advantage and the value target into ``tensordict`` and return it.

        Args:
            tensordict: a rollout, ``[*B, T]``.
            time_dim: the dimension of time in the batch; when left out that of the estimator, or the one named
                ``time``, or the last.
        """
        return self._write(tensordict, time_dim)

    def _time(self, tensordict: TensorDictBase, time_dim: int | None) -> int:
        """The dimension of time: as asked for, or the one named ``time``, or the last of the batch."""
        ndim = tensordict.ndim
        if ndim == 0:
            raise ValueError(
                f"{type(self).__name__}: expected a batch with a dimension of time, got batch size []; "
                "set tensordict.batch_size"
            )
        time_dim = self.time_dim if time_dim is None else time_dim
        if time_dim is None:
            names = tensordict.names
            return names.index("time") if "time" in names else ndim - 1
        if not -ndim <= time_dim < ndim:
            raise ValueError(
                f"{type(self).__name__}: time_dim must lie in the batch of shape {tuple(tensordict.shape)}, "
                f"got {time_dim}"
            )
        return time_dim % ndim


def changed_keys(where: str, keys: Any, changes: dict[str, NestedKey]) -> Any:
    """``keys``, a dataclass, with some fields changed.

    Raises:
        ValueError: there is no field of that name.
    """
    known = [field.name for field in fields(keys)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise ValueError(f"{where}: set_keys takes {known}, got {unknown}")
    return replace(keys, **changes)


def in_next(key: NestedKey) -> NestedKey:
    """The key of the same entry one step later."""
    return ("next", key) if isinstance(key, str) else ("next", *key)
