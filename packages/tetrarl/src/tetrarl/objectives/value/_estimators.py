"""Value estimators as modules: they read a rollout and write advantages and value targets."""

from collections.abc import Callable
from typing import Unpack

from tetradict import NestedKey
from tetradict.nn import ProbabilisticTensorDictSequential, TensorDictModuleBase
from torch import Tensor

from tetrarl.objectives.value._advantages import gae, vtrace_advantage_estimate
from tetrarl.objectives.value._base import (
    Coefficient,
    EstimatorOptions,
    TimedEstimator,
    Transitions,
    ValueEstimatorBase,
)
from tetrarl.objectives.value._returns import td0_return_estimate, td_lambda
from tetrarl.objectives.value._scan import reverse_scan, reverse_scan_reference


class GAE(TimedEstimator):
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

    def _estimate(self, step: Transitions, time_dim: int) -> tuple[Tensor, Tensor]:
        values, ends, scan = (
            (step.value, step.next_value),
            (step.done, step.terminated),
            _scan(self.vectorized),
        )
        advantage, target = gae(self.gamma, self.lmbda, values, step.reward, ends, time_dim, scan)
        return (standardize(advantage, 1e-4) if self.average_gae else advantage), target


class TDLambdaEstimator(TimedEstimator):
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

    def _estimate(self, step: Transitions, time_dim: int) -> tuple[Tensor, Tensor]:
        ends, scan = (step.done, step.terminated), _scan(self.vectorized)
        target = td_lambda(self.gamma, self.lmbda, step.next_value, step.reward, ends, time_dim, scan)
        return target - step.value, target


class TD1Estimator(TimedEstimator):
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

    def _estimate(self, step: Transitions, time_dim: int) -> tuple[Tensor, Tensor]:
        target = td_lambda(
            self.gamma, 1.0, step.next_value, step.reward, (step.done, step.terminated), time_dim
        )
        return target - step.value, target


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

    def _estimate(self, step: Transitions, time_dim: int) -> tuple[Tensor, Tensor]:
        target = td0_return_estimate(
            self.gamma, step.next_value, step.reward, step.terminated, done=step.done
        )
        return target - step.value, target


class VTrace(TimedEstimator):
    """Advantages of a policy from data of an older one, see vtrace_advantage_estimate.

    Reads the action and its log-probability from when it was taken, and asks the policy for that of now.

    Args:
        gamma: discount; a number, or a tensor that expands to the rewards.
        actor_network: the policy, such as a ProbabilisticActor.
        value_network: a module that writes a value for each state; ``None`` to read values that are there.
        rho_thresh: upper bound of the weights on the residuals.
        c_thresh: upper bound of the weights on later corrections.
        average_adv: shift and scale the advantages of a call to mean 0 and standard deviation 1.
        time_dim: the dimension of time in the batch; the one named ``time``, or the last, when left out.
        options: see ValueEstimatorBase.

    Raises:
        KeyError: an entry is missing; the message says which, and what there is.
    """

    networks = ("value_network", "actor_network")

    def __init__(
        self,
        *,
        gamma: Coefficient,
        actor_network: ProbabilisticTensorDictSequential,
        value_network: TensorDictModuleBase | None,
        rho_thresh: Coefficient = 1.0,
        c_thresh: Coefficient = 1.0,
        average_adv: bool = False,
        time_dim: int | None = None,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        coefficients = {"gamma": gamma, "rho_thresh": rho_thresh, "c_thresh": c_thresh}
        super().__init__(coefficients, value_network=value_network, **options)
        self.actor_network = actor_network
        self.average_adv = average_adv
        self.time_dim = time_dim

    @property
    def in_keys(self) -> list[NestedKey]:
        """The entries that are read."""
        actor = self.actor_network
        acted = [*actor.in_keys, *actor.dist_sample_keys, self._keys.sample_log_prob]
        return list(dict.fromkeys([*super().in_keys, *acted]))

    def _estimate(self, step: Transitions, time_dim: int) -> tuple[Tensor, Tensor]:
        log_mu = self._entry(step.tensordict, self._keys.sample_log_prob)
        log_pi = self.actor_network.log_prob(step.tensordict)
        advantage, target = vtrace_advantage_estimate(
            self.gamma,
            *(each.unsqueeze(-1) for each in (log_pi, log_mu)),
            step.value,
            step.next_value,
            step.reward,
            step.done,
            step.terminated,
            self.rho_thresh,
            self.c_thresh,
            time_dim,
        )
        return (standardize(advantage, 1e-4) if self.average_adv else advantage), target


def standardize(values: Tensor, smallest: float) -> Tensor:
    """Mean 0 and standard deviation 1 over all ``values``; the deviation counts as ``smallest`` at least."""
    if values.numel() < 2:
        return values - values.mean()
    return (values - values.mean()) / values.std().clamp(min=smallest)


def _scan(vectorized: bool) -> Callable[[Tensor, Tensor], Tensor]:
    return reverse_scan if vectorized else reverse_scan_reference
