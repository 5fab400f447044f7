"""One rank of test_sharding.py: the gradient of a loss on this rank's half of the batch, saved by rank 0.

Usage: sharded_loss.py RANK KIND FOLDER
"""

import sys
from datetime import timedelta
from pathlib import Path

import torch
from tetradict import TensorDict
from tetradict.nn import NormalParamExtractor, TensorDictModule
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from tetrarl.modules import IndependentNormal, ProbabilisticActor, ValueOperator
from tetrarl.objectives import ClipPPOLoss

RANKS, B = 2, 8


def make_loss() -> ClipPPOLoss:
    """The same loss in every process."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4), NormalParamExtractor())
    net = TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"])
    actor = ProbabilisticActor(net, in_keys=["loc", "scale"], distribution_class=IndependentNormal)
    return ClipPPOLoss(actor, ValueOperator(nn.Linear(3, 1)), log_explained_variance=False)


def make_data() -> TensorDict:
    """The same whole batch in every process."""
    torch.manual_seed(1)
    data = {"observation": torch.randn(B, 3), "action": torch.randn(B, 2), "action_log_prob": torch.randn(B)}
    data |= {"advantage": torch.randn(B, 1), "value_target": torch.randn(B, 1)}
    return TensorDict(data, [B])


def differentiate(loss: nn.Module, data: TensorDict) -> None:
    """One backward pass."""
    terms = loss(data)
    (terms["loss_objective"] + terms["loss_entropy"] + terms["loss_critic"]).backward()


def main() -> None:
    """Join the other rank, differentiate, and leave the gradients in FOLDER."""
    rank, kind, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    store = f"file://{folder / 'rendezvous'}"
    distributed.init_process_group("gloo", store, timedelta(seconds=60), RANKS, rank)
    loss = make_loss()
    wrapped = DistributedDataParallel(loss) if kind == "ddp" else fully_shard(loss)
    differentiate(wrapped, make_data()[rank * B // RANKS : (rank + 1) * B // RANKS])
    grads = {
        name: p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
        for name, p in loss.named_parameters()
    }
    if rank == 0:
        torch.save(grads, folder / "grads.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
