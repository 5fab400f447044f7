"""GAE and the lambda-return on (64, 1000), and a step of ClipPPOLoss, against torchrl and against plain torch.

Plain torch is a loop over time for the estimators, and the same loss written by hand for PPO. Answers are compared
before anything is timed.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch
from common import arguments, compare, peer, row, wanted
from tetradict import TensorDict
from tetradict.nn import TensorDictModule
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss
from torch.testing import assert_close

from tetrarl import modules
from tetrarl.modules import NormalParamExtractor, TanhNormal
from tetrarl.objectives import ClipPPOLoss
from tetrarl.objectives.value import GAE, TDLambdaEstimator

N, T, OBS, ACT = 64, 1000, 17, 6
GAMMA, LMBDA = 0.99, 0.95


def rollout() -> dict[str, Tensor]:
    """Values, rewards and flags, [N, T, 1]."""
    torch.manual_seed(0)
    done = torch.rand(N, T, 1) < 0.01
    names = ("value", "next_value", "reward")
    return {name: torch.randn(N, T, 1) for name in names} | {
        "done": done,
        "terminated": done & (torch.rand(N, T, 1) < 0.5),
    }


def as_tensordict(data: dict[str, Tensor], cls: type) -> Any:
    """The same tensors as a rollout of ours or of the peer."""
    outcome = {key: data[key] for key in ("reward", "done", "terminated")} | {
        "state_value": data["next_value"]
    }
    return cls({"state_value": data["value"], "next": cls(outcome, [N, T])}, [N, T])


def loop_gae(value: Tensor, next_value: Tensor, reward: Tensor, done: Tensor, terminated: Tensor) -> Tensor:
    """The recursion as one writes it first."""
    advantage = torch.zeros_like(reward)
    residual = reward + GAMMA * next_value * (~terminated) - value
    going, carry = (~done).float(), torch.zeros(N, 1)
    for t in range(T - 1, -1, -1):
        carry = residual[:, t] + GAMMA * LMBDA * going[:, t] * carry
        advantage[:, t] = carry
    return advantage


def loop_return(
    value: Tensor, next_value: Tensor, reward: Tensor, done: Tensor, terminated: Tensor
) -> Tensor:
    """The lambda-return as one writes it first."""
    result = torch.empty_like(reward)
    alive, going, carry = (~terminated).float(), (~done).float(), next_value[:, -1]
    for t in range(T - 1, -1, -1):
        mixed = (1 - LMBDA) * next_value[:, t] + LMBDA * carry
        mixed = going[:, t] * mixed + (1 - going[:, t]) * next_value[:, t]
        carry = reward[:, t] + GAMMA * alive[:, t] * mixed
        result[:, t] = carry
    return result


def estimators(args: Namespace, torchrl: ModuleType | None) -> None:
    """Time each estimator module against the loop and the peer's module."""
    data = rollout()
    rows = as_tensordict(data, TensorDict)
    for cls, loop, key in ((GAE, loop_gae, "advantage"), (TDLambdaEstimator, loop_return, "value_target")):
        case = f"{cls.__name__}/{N}x{T}"
        if not wanted(args, case):
            continue
        ours = partial(cls(gamma=GAMMA, lmbda=LMBDA, value_network=None), rows)
        base = partial(loop, **data)
        assert_close(ours()[key], base(), rtol=1e-4, atol=1e-4)
        print(row("loss", case, "torch loop", args, compare(ours, base, args.rounds)))
        if torchrl is None:
            continue
        theirs = getattr(torchrl.objectives.value, cls.__name__)(gamma=GAMMA, lmbda=LMBDA, value_network=None)
        base = partial(theirs, as_tensordict(data, peer("tensordict").TensorDict))
        assert_close(ours()[key], base()[key], rtol=1e-4, atol=1e-4)
        print(row("loss", case, "torchrl", args, compare(ours, base, args.rounds), "torchrl", "tensordict"))


def mlp(out: int) -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(nn.Linear(OBS, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out))


def step(total: Callable[[], Tensor], parameters: list[nn.Parameter]) -> Tensor:
    """Forward, backward, and the gradients thrown away."""
    loss = total()
    loss.backward()
    for parameter in parameters:
        parameter.grad = None
    return loss


def module_loss(library: Any, wrap: type, loss_class: type, data: Any) -> Callable[[], Tensor]:
    """A step of ClipPPOLoss, ours or the peer's, on networks that are the same for all."""
    torch.manual_seed(1)
    net = nn.Sequential(mlp(2 * ACT), library.NormalParamExtractor())
    actor = library.ProbabilisticActor(
        wrap(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=library.TanhNormal,
        return_log_prob=True,
    )
    loss = loss_class(actor, library.ValueOperator(mlp(1), in_keys=["observation"]))

    def total() -> Tensor:
        terms = loss(data)
        return terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]

    return partial(step, total, list(loss.parameters()))


def hand_written(data: dict[str, Tensor]) -> Callable[[], Tensor]:
    """The same arithmetic on the networks alone."""
    torch.manual_seed(1)
    net, critic = nn.Sequential(mlp(2 * ACT), NormalParamExtractor()), mlp(1)

    def total() -> Tensor:
        dist = TanhNormal(*net(data["observation"]))
        ratio = (dist.log_prob(data["action"]) - data["action_log_prob"]).exp().unsqueeze(-1)
        gain = torch.min(ratio * data["advantage"], ratio.clamp(0.8, 1.2) * data["advantage"]).mean()
        entropy = -dist.log_prob(dist.rsample((1,))).mean()
        return -gain - 0.01 * entropy + smooth_l1_loss(critic(data["observation"]), data["value_target"])

    return partial(step, total, [*net.parameters(), *critic.parameters()])


def ppo(args: Namespace, torchrl: ModuleType | None, batch: int) -> None:
    """Time a step of PPO on a batch."""
    case = f"ClipPPOLoss/forward+backward/{batch}"
    if not wanted(args, case):
        return
    torch.manual_seed(0)
    data = {"observation": torch.randn(batch, OBS), "action": torch.rand(batch, ACT) - 0.5}
    data |= {"action_log_prob": torch.randn(batch), "advantage": torch.randn(batch, 1)}
    data["value_target"] = torch.randn(batch, 1)
    ours = module_loss(modules, TensorDictModule, ClipPPOLoss, TensorDict(data, [batch]))
    bases = {"torch by hand": hand_written(data)}
    if torchrl is not None:
        theirs = peer("tensordict").TensorDict(data, [batch])
        wrap = peer("tensordict.nn").TensorDictModule
        bases["torchrl"] = module_loss(torchrl.modules, wrap, torchrl.objectives.ClipPPOLoss, theirs)
    for name, base in bases.items():
        assert_close(seeded(ours), seeded(base), rtol=1e-3, atol=1e-4)
        print(row("loss", case, name, args, compare(ours, base, args.rounds), "torchrl", "tensordict"))


def seeded(call: Callable[[], Tensor]) -> Tensor:
    """The loss with the same draws for everyone."""
    torch.manual_seed(2)
    return call().detach()


def main() -> None:
    """Run what the command line asks for."""
    args = arguments(__doc__)
    torchrl = peer("torchrl")
    if torchrl is None:
        print("torchrl isn't installed: timed against plain torch alone")
    else:
        peer("torchrl.modules"), peer("torchrl.objectives.value")
    estimators(args, torchrl)
    for batch in (256, 1024, 4096):
        ppo(args, torchrl, batch)


if __name__ == "__main__":
    main()
