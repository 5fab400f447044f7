"""From one transition to the start of the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tetradict import NestedKey, TensorDict, TensorDictBase, unravel_key

Keys = NestedKey | Sequence[NestedKey]


def step_mdp(
    tensordict: TensorDictBase,
    next_tensordict: TensorDictBase | None = None,
    keep_other: bool = True,
    exclude_reward: bool = True,
    exclude_done: bool = False,
    exclude_action: bool = True,
    reward_keys: Keys = "reward",
    done_keys: Keys = "done",
    action_keys: Keys = "action",
) -> TensorDictBase:
    """Make the collection that the next step starts from: what stood under ``"next"`` moves to the root.

    Args:
        tensordict: a transition, as ``env.step`` gives it. It is left as it is, and its tensors are shared.
        next_tensordict: receives the result; a new collection by default.
        keep_other: keep the entries of the root that the step did not renew.
        exclude_reward: leave out the reward, which belongs to the transition.
        exclude_done: leave out the done flags.
        exclude_action: leave out the action, which belongs to the transition.
        reward_keys: one key or several; nested ones are tuples.
        done_keys: one key or several.
        action_keys: one key or several.

    Returns:
        ``next_tensordict``, or a new collection of the same batch size and device.

    Raises:
        KeyError: there is no ``"next"`` in the collection.

    Example:
        >>> td = TensorDict({"observation": 0.0, "action": 1.0, "next": {"observation": 5.0, "reward": 2.0}})
        >>> sorted(step_mdp(td).items())
        [('observation', tensor(5.))]
    """
    rewards, dones, actions = _paths(reward_keys), _paths(done_keys), _paths(action_keys)
    if "next" not in tensordict.keys():
        raise KeyError(
            f"step_mdp: the collection has no 'next', only {sorted(tensordict.keys())}; env.step adds it"
        )
    stale = {("next",), *rewards, *dones, *(actions if exclude_action else ())}
    unwanted = {*(rewards if exclude_reward else ()), *(dones if exclude_done else ())}
    out = {}
    if keep_other:
        out = _entries(tensordict, stale)
    elif not exclude_action:
        out = _entries(tensordict.select(*actions, strict=False), set())
    out = _merged(out, _entries(tensordict["next"], unwanted))
    if next_tensordict is not None:
        for key, value in out.items():
            next_tensordict.set(key, value)
        return next_tensordict
    result = TensorDict.trusted(out, tensordict.batch_size, tensordict.device)
    if tensordict.batch_size and any(tensordict.names):
        result.names = tensordict.names
    return result


def _paths(keys: Keys) -> set[tuple[str, ...]]:
    """Keys as tuples. A tuple is one nested key, a list several keys."""
    listed = keys if isinstance(keys, list) else [keys]
    return {key if isinstance(key, tuple) else (key,) for key in map(unravel_key, listed)}


def _entries(td: TensorDictBase, dropped: set[tuple[str, ...]]) -> dict[str, Any]:
    """The entries of one level without some; nested collections are made anew, and left out where they are empty."""
    out = {}
    for key in td.keys():
        if (key,) in dropped:
            continue
        value = td.get(key)
        if isinstance(value, TensorDictBase):
            value = _node(value, _entries(value, {path[1:] for path in dropped if path[0] == key}))
            if value is None:
                continue
        out[key] = value
    return out


def _node(like: TensorDictBase, entries: dict[str, Any]) -> TensorDict | None:
    return TensorDict.trusted(entries, like.batch_size, like.device) if entries else None


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Both sets of entries, the new ones winning; nested collections are merged too."""
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, TensorDictBase) and isinstance(before, TensorDictBase):
            value = _node(value, _merged(_entries(before, set()), _entries(value, set())))
        old[key] = value
    return old
