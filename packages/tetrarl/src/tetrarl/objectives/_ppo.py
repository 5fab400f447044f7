"""Proximal policy optimisation."""

from dataclasses import dataclass

import torch
from tetradict import NestedKey, TensorDict, TensorDictBase
from tetradict.nn import ProbabilisticTensorDictSequential, TensorDictModuleBase, dispatch
from torch import Tensor
from torch.distributions import Distribution

from tetrarl.objectives._distance import DISTANCES, distance_loss
from tetrarl.objectives._loss_module import LossModule, check_reduction, reduced
from tetrarl.objectives._value_estimators import ValueEstimators
from tetrarl.objectives.value._base import in_next
from tetrarl.objectives.value._estimators import standardize


class PPOLoss(LossModule):
    """The policy-gradient loss with importance weights, an entropy bonus and the value loss.

    It reads an action, its log-probability when it was taken, an advantage and a value target; where the latter two
    are missing they are estimated from ``next``. It returns a collection without batch:

    - ``loss_objective``, ``loss_entropy``, ``loss_critic``: add them up and differentiate;
    - ``entropy``, ``kl_approx`` (mean log-ratio of old to new policy), ``ESS`` (effective sample size of the weights,
      as a share of the batch), ``max_ratio``, ``mean_ratio``, ``explained_variance`` of the value targets, and
      ``value_clip_fraction`` with ``clip_value``: to be watched, without gradient.

    Args:
        actor_network: the policy, such as a ProbabilisticActor.
        critic_network: the value network, such as a ValueOperator; without one there is no value loss.
        entropy_bonus: whether to add the entropy of the policy.
        samples_mc_entropy: number of draws that stand for an entropy without a formula.
        entropy_coeff: weight of the entropy, 0.01 when left out.
        log_explained_variance: whether to compute ``explained_variance``.
        critic_coeff: weight of the value loss, 1 when left out.
        loss_critic_type: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        normalize_advantage: shift and scale the advantages of a batch to mean 0 and standard deviation 1.
        reduction: ``"mean"`` (when left out), ``"sum"`` or ``"none"``.
        clip_value: bound how far the value may move from that in the data before its loss stops falling; the data
            then hold the old value.

    Weights are buffers: ``loss.entropy_coeff.copy_(...)`` changes one.

    Raises:
        ValueError: a shape, a distance or a reduction doesn't fit, or a log-probability in the data carries a graph.
        KeyError: an entry is missing.

    Source: Schulman et al. 2017, equations 6 and 9 (arXiv:1707.06347).
    """

    @dataclass
    class _AcceptedKeys:
        """The entries the loss reads."""

        advantage: NestedKey = "advantage"
        value_target: NestedKey = "value_target"
        value: NestedKey = "state_value"
        sample_log_prob: NestedKey = "action_log_prob"
        action: NestedKey = "action"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"

    default_keys = _AcceptedKeys
    default_value_estimator = ValueEstimators.GAE

    def __init__(
        self,
        actor_network: ProbabilisticTensorDictSequential,
        critic_network: TensorDictModuleBase | None = None,
        *,
        entropy_bonus: bool = True,
        samples_mc_entropy: int = 1,
        entropy_coeff: float | None = None,
        log_explained_variance: bool = True,
        critic_coeff: float | None = None,
        loss_critic_type: str = "smooth_l1",
        normalize_advantage: bool = False,
        reduction: str | None = None,
        clip_value: float | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if not hasattr(actor_network, "get_dist"):
            raise TypeError(
                f"{name}: actor_network must give a distribution (get_dist), got a {type(actor_network).__name__}; "
                "make it a ProbabilisticActor"
            )
        if loss_critic_type not in DISTANCES:
            raise ValueError(f"{name}: loss_critic_type must be one of {DISTANCES}, got {loss_critic_type!r}")
        self.actor_network = actor_network
        self.critic_network = critic_network
        self.entropy_bonus = entropy_bonus
        self.samples_mc_entropy = samples_mc_entropy
        self.log_explained_variance = log_explained_variance
        self.loss_critic_type = loss_critic_type
        self.normalize_advantage = normalize_advantage
        self.reduction = check_reduction(name, reduction)
        self._coefficient("entropy_coeff", 0.01 if entropy_coeff is None else entropy_coeff)
        self._coefficient("critic_coeff", 1.0 if critic_coeff is None else critic_coeff)
        self.clip_value = clip_value is not None
        if clip_value is not None:
            self._coefficient("clip_value_epsilon", clip_value)
        defaults = {
            "action": getattr(actor_network, "dist_sample_keys", ["action"])[0],
            "sample_log_prob": getattr(actor_network, "log_prob_key", "action_log_prob"),
        }
        if critic_network is not None and len(critic_network.out_keys) == 1:
            defaults["value"] = critic_network.out_keys[0]
        self.set_keys(**defaults)

    @property
    def in_keys(self) -> list[NestedKey]:
        """The entries that may be read: those of the networks, the action, and what an estimator needs."""
        keys, critic = self._keys, self.critic_network
        states = list(
            dict.fromkeys([*self.actor_network.in_keys, *(critic.in_keys if critic is not None else [])])
        )
        outcome = [in_next(key) for key in (keys.reward, keys.done, keys.terminated)]
        return [*states, keys.action, keys.sample_log_prob, *outcome, *(in_next(key) for key in states)]

    @property
    def out_keys(self) -> list[NestedKey]:
        """The entries of the result."""
        return [
            "loss_objective",
            *(["entropy", "loss_entropy"] if self.entropy_bonus else []),
            *(["loss_critic"] if self.critic_network is not None else []),
            "kl_approx",
            "ESS",
            "max_ratio",
            "mean_ratio",
        ]

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The terms of the loss for a batch of data, ``[*B]``, which is left alone."""
        data, advantage = self._advantage(tensordict)
        dist, log_weight = self._log_weight(data, advantage)
        ratio = log_weight.exp()
        gain, out = self._gain(ratio, advantage)
        out |= self._watched(log_weight.detach(), ratio.detach())
        out["loss_objective"] = -reduced(gain, self.reduction)
        if self.entropy_bonus:
            entropy = self._entropy(dist)
            total = reduced(entropy, self.reduction)
            out["entropy"] = total.detach() if self.reduction == "mean" else entropy.detach().mean()
            out["loss_entropy"] = -self.entropy_coeff * total
        if self.critic_network is not None:
            out |= self._critic_terms(data)
        return TensorDict.trusted(out, torch.Size())

    def loss_critic(self, tensordict: TensorDictBase) -> Tensor:
        """The value loss for a batch of data, weighted and reduced."""
        return self._critic_terms(tensordict)["loss_critic"]

    def _estimator_networks(self) -> dict[str, TensorDictModuleBase | None]:
        return {"value_network": self.critic_network, "actor_network": self.actor_network}

    def _advantage(self, data: TensorDictBase) -> tuple[TensorDictBase, Tensor]:
        """The data and their advantage; where they have none, a copy with an estimate of it and a value target."""
        advantage = data.get(self._keys.advantage, None)
        if advantage is None:
            data = self.value_estimator(data.copy())
            advantage = data[self._keys.advantage]
        return data, standardize(advantage, 1e-6) if self.normalize_advantage else advantage

    def _log_weight(self, data: TensorDictBase, advantage: Tensor) -> tuple[Distribution, Tensor]:
        """The policy's distribution now, and the log-ratio of its probability of each action to the old one."""
        action, old = (
            _present(self, data, self._keys.action),
            _present(self, data, self._keys.sample_log_prob),
        )
        for key, entry in ((self._keys.action, action), (self._keys.sample_log_prob, old)):
            if entry.requires_grad:
                raise ValueError(
                    f"{type(self).__name__}: {key!r} in the data carries a graph, which would cancel the gradient; "
                    "collect data under torch.no_grad(), or detach it"
                )
        dist = self.actor_network.get_dist(data)
        new = dist.log_prob(action)
        if new.shape != old.shape:
            raise ValueError(
                f"{type(self).__name__}: the log-probability of the data has shape {tuple(old.shape)}, that of the "
                f"policy {tuple(new.shape)}; both must come from the same distribution"
            )
        log_weight = (new - old).unsqueeze(-1)
        if log_weight.shape != advantage.shape:
            raise ValueError(
                f"{type(self).__name__}: the advantage must have shape {tuple(log_weight.shape)}, "
                f"got {tuple(advantage.shape)}; every sample has one log-probability and one advantage"
            )
        return dist, log_weight

    def _gain(self, ratio: Tensor, advantage: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """What the policy is to increase, and what is watched of it."""
        return ratio * advantage, {}

    def _entropy(self, dist: Distribution) -> Tensor:
        """The entropy of the policy in each state, ``[*B, 1]``."""
        try:
            return dist.entropy().unsqueeze(-1)
        except NotImplementedError:
            return -_log_prob_of_draws(dist, self.samples_mc_entropy).mean(0).unsqueeze(-1)

    def _critic_terms(self, data: TensorDictBase) -> dict[str, Tensor]:
        """The value loss and what is watched of it."""
        target = _present(self, data, self._keys.value_target)
        old = _present(self, data, self._keys.value) if self.clip_value else None
        states = data.select(*self.critic_network.in_keys)  # the critic writes into these, not into the data
        value = _present(self, self.critic_network(states), self._keys.value)
        out = {}
        loss = distance_loss(target, value, self.loss_critic_type)
        if old is not None:
            bound = self.clip_value_epsilon
            clipped = old + (value - old).clamp(-bound, bound)
            out["value_clip_fraction"] = (clipped != value).to(value.dtype).mean()
            loss = torch.maximum(loss, distance_loss(target, clipped, self.loss_critic_type))
        out["loss_critic"] = self.critic_coeff * reduced(loss, self.reduction)
        if self.log_explained_variance:
            with torch.no_grad():
                spread = target.var(correction=0)
                out["explained_variance"] = 1 - (target - value).var(correction=0) / spread.clamp(min=1e-8)
        return out

    def _watched(self, log_weight: Tensor, ratio: Tensor) -> dict[str, Tensor]:
        """Figures on how far the policy has moved."""
        mean = ratio.mean()
        return {
            "kl_approx": -log_weight.mean(),
            "ESS": ratio.numel() * (mean / torch.linalg.vector_norm(ratio)).square(),
            "max_ratio": ratio.max(),
            "mean_ratio": mean,
        }


class ClipPPOLoss(PPOLoss):
    """The clipped loss of PPO: no gain from moving an action's probability further than a bound.

    Args and results are those of PPOLoss, and:

    Args:
        actor_network: the policy, such as a ProbabilisticActor.
        critic_network: the value network, such as a ValueOperator; without one there is no value loss.
        clip_epsilon: bound of the probability ratio, ``[1 - eps, 1 + eps]``; a pair for one below and one above. A
            buffer, as the weights.
        entropy_bonus: whether to add the entropy of the policy.
        samples_mc_entropy: number of draws that stand for an entropy without a formula.
        entropy_coeff: weight of the entropy, 0.01 when left out.
        critic_coeff: weight of the value loss, 1 when left out.
        loss_critic_type: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        normalize_advantage: shift and scale the advantages of a batch to mean 0 and standard deviation 1.
        reduction: ``"mean"`` (when left out), ``"sum"`` or ``"none"``.
        clip_value: bound how far the value may move, see PPOLoss; ``True`` for ``clip_epsilon``.
        log_explained_variance: whether to compute ``explained_variance``.

    The result also holds ``clip_fraction``, the share of ratios beyond the bound.

    Example:
        >>> net = TensorDictModule(torch.nn.Linear(3, 4), in_keys=["observation"], out_keys=["logits"])
        >>> actor = ProbabilisticActor(
        ...     net, in_keys=["logits"], distribution_class=torch.distributions.Categorical, return_log_prob=True
        ... )
        >>> critic = ValueOperator(torch.nn.Linear(3, 1))
        >>> loss = ClipPPOLoss(actor, critic)
        >>> data = TensorDict({"observation": torch.randn(5, 3)}, [5])
        >>> with torch.no_grad():
        ...     data = actor(data)
        >>> data["advantage"], data["value_target"] = torch.randn(5, 1), torch.randn(5, 1)
        >>> terms = loss(data)
        >>> (terms["loss_objective"] + terms["loss_entropy"] + terms["loss_critic"]).backward()

    Source: Schulman et al. 2017, equation 7 (arXiv:1707.06347).
    """

    def __init__(
        self,
        actor_network: ProbabilisticTensorDictSequential,
        critic_network: TensorDictModuleBase | None = None,
        *,
        clip_epsilon: float | tuple[float, float] = 0.2,
        entropy_bonus: bool = True,
        samples_mc_entropy: int = 1,
        entropy_coeff: float | None = None,
        critic_coeff: float | None = None,
        loss_critic_type: str = "smooth_l1",
        normalize_advantage: bool = False,
        reduction: str | None = None,
        clip_value: bool | float | None = None,
        log_explained_variance: bool = True,
    ) -> None:
        low, high = clip_epsilon if isinstance(clip_epsilon, tuple) else (clip_epsilon, clip_epsilon)
        if not (0 <= low < 1 and high >= 0):
            raise ValueError(f"{type(self).__name__}: clip_epsilon must lie in [0, 1), got {clip_epsilon}")
        if isinstance(clip_value, bool):
            clip_value = high if clip_value else None
        super().__init__(
            actor_network,
            critic_network,
            entropy_bonus=entropy_bonus,
            samples_mc_entropy=samples_mc_entropy,
            entropy_coeff=entropy_coeff,
            log_explained_variance=log_explained_variance,
            critic_coeff=critic_coeff,
            loss_critic_type=loss_critic_type,
            normalize_advantage=normalize_advantage,
            reduction=reduction,
            clip_value=clip_value,
        )
        self._coefficient("clip_epsilon", high)
        self._two_sided = isinstance(clip_epsilon, tuple)
        if self._two_sided:
            self._coefficient("clip_epsilon_low", low)

    @property
    def out_keys(self) -> list[NestedKey]:
        """The entries of the result."""
        return [*super().out_keys, "clip_fraction"]

    def _gain(self, ratio: Tensor, advantage: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        low = self.clip_epsilon_low if self._two_sided else self.clip_epsilon
        clipped = ratio.clamp(1 - low, 1 + self.clip_epsilon)
        beyond = clipped.detach() != ratio.detach()
        gain = torch.minimum(ratio * advantage, clipped * advantage)
        return gain, {"clip_fraction": beyond.to(ratio.dtype).mean()}


def _log_prob_of_draws(dist: Distribution, count: int) -> Tensor:
    """Log-probabilities of draws, ``[count, *B]``."""
    shape = torch.Size([count])
    if hasattr(dist, "rsample_and_log_prob"):
        return dist.rsample_and_log_prob(shape)[1]
    return dist.log_prob(dist.rsample(shape) if dist.has_rsample else dist.sample(shape))


def _present(loss: LossModule, data: TensorDictBase, key: NestedKey) -> Tensor:
    entry = data.get(key, None)
    if entry is None:
        raise KeyError(
            f"{type(loss).__name__}: expected the entry {key!r} in the data, got {list(data.keys(True))}; "
            "set it, or name another with set_keys"
        )
    return entry
