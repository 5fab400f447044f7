"""Value estimators as modules: they read a rollout and write advantages and value targets."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict, Unpack

import torch
from tetradict import NestedKey, TensorDictBase
from tetradict.nn import TensorDictModuleBase, dispatch
from torch import Tensor

from tetrarl.objectives.value._advantages import gae
from tetrarl.objectives.value._returns import td0_return_estimate, td_lambda
from tetrarl.objectives.value._scan import reverse_scan, reverse_scan_reference

Coefficient = float | Tensor


class EstimatorOptions(TypedDict, total=False):
    """Keywords that every estimator takes; ValueEstimatorBase says what they mean."""

    differentiable: bool
    skip_existing: bool | None
    advantage_key: NestedKey | None
    value_target_key: NestedKey | None
    value_key: NestedKey | None
    device: torch.device | str | int | None


class ValueEstimatorBase(TensorDictModuleBase):
    """What all value estimators share: keys, coefficients, and the values of states and of next states.

    An estimator reads ``("next", "reward")``, ``("next", "done")`` and ``("next", "terminated")``, asks its value
    network for the values of the root and of ``"next"`` (or reads them, where there is no network), and writes
    ``"advantage"`` and ``"value_target"`` beside them. A subclass says how in ``_estimate``.

    Args:
        coefficients: numbers or tensors that the estimator keeps, by name.
        value_network: a module that writes a value for each state; ``None`` to read values that are there.
        differentiable: keep the graph, so that the results carry gradients to the network.
        skip_existing: don't call the network where its value is there already.
        advantage_key: where the advantage goes, if not ``"advantage"``.
        value_target_key: where the value target goes, if not ``"value_target"``.
        value_key: where the value lies, if not at the network's one output or ``"state_value"``.
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

    default_keys = _AcceptedKeys

    def __init__(
        self,
        coefficients: Mapping[str, Coefficient],
        *,
        value_network: TensorDictModuleBase | None,
        differentiable: bool = False,
        skip_existing: bool | None = None,
        advantage_key: NestedKey | None = None,
        value_target_key: NestedKey | None = None,
        value_key: NestedKey | None = None,
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
        if value_key is None and value_network is not None and len(value_network.out_keys) == 1:
            (value_key,) = value_network.out_keys
        chosen = {"advantage": advantage_key, "value_target": value_target_key, "value": value_key}
        self.set_keys(**{name: key for name, key in chosen.items() if key is not None})

    @property
    def tensor_keys(self) -> Any:
        """The entries now in use, by the names that set_keys takes."""
        return self._keys

    def set_keys(self, **keys: NestedKey) -> None:
        """Read or write other entries than the default ones.

        Args:
            keys: new entries by name: ``advantage``, ``value_target``, ``value``, ``reward``, ``done``,
                ``terminated``. Reward and flags are looked up in ``"next"``.

        Raises:
            ValueError: there is no such name.
        """
        self._keys = changed_keys(type(self).__name__, self._keys, keys)

    def borrow(self, value_network: TensorDictModuleBase) -> "ValueEstimatorBase":
        """Use a network that belongs to another module, without listing its parameters a second time."""
        self._modules.pop("value_network", None)
        self.__dict__["value_network"] = value_network
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
        return self._estimate(value, next_value, reward, done, terminated, self._time(tensordict, time_dim))

    def _estimate(
        self,
        value: Tensor,
        next_value: Tensor,
        reward: Tensor,
        done: Tensor,
        terminated: Tensor | None,
        time_dim: int,
    ) -> tuple[Tensor, Tensor]:
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


class _TimedEstimator(ValueEstimatorBase):
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


class GAE(_TimedEstimator):
    """Generalized advantage estimation, see generalized_advantage_estimate.

    Args:
        gamma: discount; a number, or a tensor that expands to the rewards.
        lmbda: weight of later residuals; as ``gamma``.
        value_network: a module that writes a value for each state; ``None`` to read values that are there.
        average_gae: shift and scale the advantages of a call to mean 0 and standard deviation 1.
        vectorized: ``False`` computes one step after the other in plain torch operations, many times slower.
        time_dim: the dimension of time in the batch; the one named ``time``, or the last, when left out.
        options: see ValueEstimatorBase.

    Raises:
        KeyError: an entry is missing; the message says which, and what there is.

    Example:
        >>> flag = torch.tensor([[False], [True]])
        >>> outcome = {"state_value": torch.zeros(2, 1), "reward": torch.ones(2, 1), "done": flag, "terminated": flag}
        >>> rollout = TensorDict({"state_value": torch.zeros(2, 1), "next": outcome}, [2])
        >>> GAE(gamma=0.5, lmbda=1.0, value_network=None)(rollout)["advantage"].flatten()
        tensor([1.5000, 1.0000])
    """

    def __init__(
        self,
        *,
        gamma: Coefficient,
        lmbda: Coefficient,
        value_network: TensorDictModuleBase | None,
        average_gae: bool = False,
        vectorized: bool | None = None,
        time_dim: int | None = None,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        super().__init__({"gamma": gamma, "lmbda": lmbda}, value_network=value_network, **options)
        self.average_gae = average_gae
        self.vectorized = vectorized is None or vectorized
        self.time_dim = time_dim

    def _estimate(
        self,
        value: Tensor,
        next_value: Tensor,
        reward: Tensor,
        done: Tensor,
        terminated: Tensor | None,
        time_dim: int,
    ) -> tuple[Tensor, Tensor]:
        values, ends = (value, next_value), (done, terminated)
        advantage, target = gae(
            self.gamma, self.lmbda, values, reward, ends, time_dim, _scan(self.vectorized)
        )
        return (standardize(advantage, 1e-4) if self.average_gae else advantage), target


class TDLambdaEstimator(_TimedEstimator):
    """The lambda-return and what it exceeds the value by, see td_lambda_return_estimate.

    Args:
        gamma: discount; a number, or a tensor that expands to the rewards.
        lmbda: 0 for the one-step return, 1 for that of the whole trajectory; as ``gamma``.
        value_network: a module that writes a value for each state; ``None`` to read values that are there.
        vectorized: ``False`` computes one step after the other in plain torch operations, many times slower.
        time_dim: the dimension of time in the batch; the one named ``time``, or the last, when left out.
        options: see ValueEstimatorBase.
    """

    def __init__(
        self,
        *,
        gamma: Coefficient,
        lmbda: Coefficient,
        value_network: TensorDictModuleBase | None,
        vectorized: bool = True,
        time_dim: int | None = None,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        super().__init__({"gamma": gamma, "lmbda": lmbda}, value_network=value_network, **options)
        self.vectorized = vectorized
        self.time_dim = time_dim

    def _estimate(
        self,
        value: Tensor,
        next_value: Tensor,
        reward: Tensor,
        done: Tensor,
        terminated: Tensor | None,
        time_dim: int,
    ) -> tuple[Tensor, Tensor]:
        scan = _scan(self.vectorized)
        target = td_lambda(self.gamma, self.lmbda, next_value, reward, (done, terminated), time_dim, scan)
        return target - value, target


class TD1Estimator(_TimedEstimator):
    """The return up to the end of the trajectory and what it exceeds the value by, see td1_return_estimate.

    Args:
        gamma: discount; a number, or a tensor that expands to the rewards.
        value_network: a module that writes a value for each state; ``None`` to read values that are there.
        time_dim: the dimension of time in the batch; the one named ``time``, or the last, when left out.
        options: see ValueEstimatorBase.
    """

    def __init__(
        self,
        *,
        gamma: Coefficient,
        value_network: TensorDictModuleBase | None,
        time_dim: int | None = None,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        super().__init__({"gamma": gamma}, value_network=value_network, **options)
        self.time_dim = time_dim

    def _estimate(
        self,
        value: Tensor,
        next_value: Tensor,
        reward: Tensor,
        done: Tensor,
        terminated: Tensor | None,
        time_dim: int,
    ) -> tuple[Tensor, Tensor]:
        target = td_lambda(self.gamma, 1.0, next_value, reward, (done, terminated), time_dim)
        return target - value, target


class TD0Estimator(ValueEstimatorBase):
    """The one-step return and what it exceeds the value by, see td0_return_estimate.

    Args:
        gamma: discount; a number, or a tensor that expands to the rewards.
        value_network: a module that writes a value for each state; ``None`` to read values that are there.
        options: see ValueEstimatorBase.
    """

    def __init__(
        self,
        *,
        gamma: Coefficient,
        value_network: TensorDictModuleBase | None,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        super().__init__({"gamma": gamma}, value_network=value_network, **options)

    def _estimate(
        self,
        value: Tensor,
        next_value: Tensor,
        reward: Tensor,
        done: Tensor,
        terminated: Tensor | None,
        time_dim: int,
    ) -> tuple[Tensor, Tensor]:
        target = td0_return_estimate(self.gamma, next_value, reward, terminated, done=done)
        return target - value, target


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


def standardize(values: Tensor, smallest: float) -> Tensor:
    """Mean 0 and standard deviation 1 over all ``values``; the deviation counts as ``smallest`` at least."""
    if values.numel() < 2:
        return values - values.mean()
    return (values - values.mean()) / values.std().clamp(min=smallest)


def _scan(vectorized: bool) -> Callable[[Tensor, Tensor], Tensor]:
    return reverse_scan if vectorized else reverse_scan_reference
