"""The specs of an environment in one form: composites with the environment's batch size."""

from __future__ import annotations

import torch

from tetrarl.data import Categorical, Composite, TensorSpec, Unbounded


def as_composite(
    spec: TensorSpec, name: str, batch_size: torch.Size, device: torch.device | None, owner: str
) -> Composite:
    """A copy of ``spec``, under ``name`` unless it is a composite, with the batch size of the environment.

    Raises:
        TypeError: it is no spec.
        ValueError: its shape doesn't begin with the batch size.
    """
    if not isinstance(spec, TensorSpec):
        raise TypeError(f"{owner}: must be a spec, got a {type(spec).__name__}")
    try:
        whole = (
            spec.clone() if isinstance(spec, Composite) else Composite({name: spec.clone()}, shape=batch_size)
        )
        if whole.shape[: len(batch_size)] != batch_size:
            whole.shape = batch_size
    except ValueError as error:
        raise ValueError(
            f"{owner}: shapes must begin with {list(batch_size)}, the batch size of the environment; got {spec!r}"
        ) from error
    return whole if device is None else whole.to(device)


def check_reward(spec: Composite) -> Composite:
    """Refuse a reward without a dimension of its own."""
    for key, leaf in spec.items(True, True):
        if leaf.ndim == spec.ndim:
            raise ValueError(
                f"reward_spec: the reward {key!r} must have a dimension beyond the batch size {list(spec.shape)}, "
                f"of size 1 for one number a step; got shape {list(leaf.shape)}"
            )
    return spec


def default_specs(batch_size: torch.Size, device: torch.device | None) -> dict[str, Composite]:
    """What an environment has until it says otherwise: a float reward and the three flags."""
    one = (*batch_size, 1)
    flag = Categorical(2, one, device, torch.bool)
    specs = {
        "observation": Composite(shape=batch_size),
        "action": Composite(shape=batch_size),
        "state": Composite(shape=batch_size),
        "reward": Composite(reward=Unbounded(one, device), shape=batch_size),
        "done": Composite(done=flag, terminated=flag.clone(), truncated=flag.clone(), shape=batch_size),
    }
    return specs if device is None else {name: spec.to(device) for name, spec in specs.items()}


def only_leaf(spec: Composite) -> TensorSpec:
    """The leaf, where there is but one; else the composite."""
    leaves = spec.values(True, True)
    return leaves[0] if len(leaves) == 1 else spec
