"""Networks that act and networks that judge."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tetradict import NestedKey, TensorDictBase
from tetradict.nn import (
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
)
from torch import nn
from torch.distributions import Distribution

from tetrarl.data import Composite, TensorSpec

Keys = NestedKey | Iterable[NestedKey]


def _action_spec(name: str, spec: TensorSpec | None, key: NestedKey, safe: bool) -> TensorSpec | None:
    """The spec of the one action, also from the spec of everything that is written."""
    if safe and spec is None:
        raise ValueError(f"{name}: safe=True projects actions onto their spec, so spec must be given")
    return spec[key] if isinstance(spec, Composite) else spec


class Actor(TensorDictModule):
    """A network from observations to actions, with no chance in it.

    Args:
        module: a module on tensors.
        in_keys: what it reads; ``["observation"]`` when left out.
        out_keys: what it writes, the action first; ``["action"]`` when left out.
        spec: the spec of the action, or a Composite that holds it.
        safe: replace actions by the nearest ones that ``spec`` allows.

    Raises:
        ValueError: ``safe`` without a ``spec``.

    Example:
        >>> actor = Actor(torch.nn.Linear(3, 2))
        >>> actor(TensorDict({"observation": torch.zeros(5, 3)}, [5]))["action"].shape
        torch.Size([5, 2])
    """

    def __init__(
        self,
        module: nn.Module,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        *,
        spec: TensorSpec | None = None,
        safe: bool = False,
    ) -> None:
        super().__init__(
            module,
            ["observation"] if in_keys is None else in_keys,
            ["action"] if out_keys is None else out_keys,
        )
        self.spec = _action_spec("Actor", spec, self.out_keys[0], safe)
        self.safe = safe

    def forward(self, tensordict: TensorDictBase | None = None, *args: Any, **kwargs: Any) -> Any:
        """Read, act, write."""
        out = super().forward(tensordict, *args, **kwargs)
        if self.safe and isinstance(tensordict, TensorDictBase):
            key = self.out_keys[0]
            out.set(key, self.spec.project(out[key]))
        return out


class ProbabilisticActor(ProbabilisticTensorDictSequential):
    """A network that computes the parameters of a distribution over actions, and that distribution.

    Args:
        module: computes the parameters; a TensorDictModule or a sequence of them.
        in_keys: the entries that hold the parameters, each named (in its last level) like the keyword of the
            distribution that it goes to; a dict from keywords to entries says it otherwise.
        out_keys: the entry for the action; ``["action"]`` when left out.
        spec: the spec of the action, or a Composite that holds it.
        safe: replace actions by the nearest ones that ``spec`` allows. Log-probabilities stay those of the draws.
        distribution_class: called with the parameters.
        distribution_kwargs: further keywords for it.
        return_log_prob: also write the log-probability of the action.
        log_prob_key: where to; the action's key with ``_log_prob`` behind it when left out.
        default_interaction_type: what to take from the distribution while set_interaction_type (here also called
            set_exploration_type) says nothing.
        n_empirical_estimate: number of draws that stand for a mean without a formula.

    Raises:
        TypeError: ``module`` has no keys.
        ValueError: ``safe`` without a ``spec``.

    Example:
        >>> net = TensorDictModule(torch.nn.Linear(3, 4), in_keys=["observation"], out_keys=["logits"])
        >>> actor = ProbabilisticActor(net, in_keys=["logits"], distribution_class=OneHotCategorical)
        >>> actor(TensorDict({"observation": torch.zeros(5, 3)}, [5]))["action"].shape
        torch.Size([5, 4])
    """

    def __init__(
        self,
        module: TensorDictModuleBase,
        in_keys: Keys | Mapping[str, NestedKey],
        out_keys: Keys | None = None,
        *,
        spec: TensorSpec | None = None,
        safe: bool = False,
        distribution_class: Callable[..., Distribution],
        distribution_kwargs: Mapping[str, Any] | None = None,
        return_log_prob: bool = False,
        log_prob_key: NestedKey | None = None,
        default_interaction_type: InteractionType | str = InteractionType.DETERMINISTIC,
        n_empirical_estimate: int = 1000,
    ) -> None:
        draw = ProbabilisticTensorDictModule(
            in_keys,
            ["action"] if out_keys is None else out_keys,
            default_interaction_type=default_interaction_type,
            distribution_class=distribution_class,
            distribution_kwargs=distribution_kwargs,
            return_log_prob=return_log_prob,
            log_prob_key=log_prob_key,
            n_empirical_estimate=n_empirical_estimate,
        )
        super().__init__(module, draw)
        (key,) = draw.dist_sample_keys
        self.spec = _action_spec("ProbabilisticActor", spec, key, safe)
        self.safe = safe

    def forward(self, tensordict: TensorDictBase | None = None, *args: Any, **kwargs: Any) -> Any:
        """Compute the parameters, take an action, write both."""
        out = super().forward(tensordict, *args, **kwargs)
        if self.safe and isinstance(tensordict, TensorDictBase):
            (key,) = self.dist_sample_keys
            out.set(key, self.spec.project(out[key]))
        return out


class ValueOperator(TensorDictModule):
    """A network that judges states, or states and actions.

    Args:
        module: a module on tensors; with several ``in_keys`` it takes as many.
        in_keys: what it reads; ``["observation"]`` when left out.
        out_keys: what it writes; when left out ``["state_action_value"]`` if it reads an action, else
            ``["state_value"]``.

    Example:
        >>> value = ValueOperator(torch.nn.Linear(3, 1))
        >>> value(TensorDict({"observation": torch.zeros(5, 3)}, [5]))["state_value"].shape
        torch.Size([5, 1])
    """

    def __init__(self, module: nn.Module, in_keys: Keys | None = None, out_keys: Keys | None = None) -> None:
        in_keys = ["observation"] if in_keys is None else in_keys
        if out_keys is None:
            out_keys = ["state_action_value" if "action" in in_keys else "state_value"]
        super().__init__(module, in_keys, out_keys)
