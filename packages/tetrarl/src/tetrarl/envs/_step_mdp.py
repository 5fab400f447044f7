"""From one transition to the start of the next."""

from __future__ import annotations

from collections.abc import Sequence

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
    out = _without(tensordict, stale) if keep_other else {}
    if not (keep_other or exclude_action):
        out = _only(tensordict, actions)
    out = _merged(out, _without(tensordict["next"], unwanted))
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


def _without(td: TensorDictBase, dropped: set[tuple[str, ...]]) -> dict:
    """The entries of one collection, as a dict, without some; a collection that loses all it had goes too."""
    out = {}
    for key in td.keys():
        if (key,) in dropped:
            continue
        value = td.get(key)
        below = {path[1:] for path in dropped if path[0] == key}
        if below and isinstance(value, TensorDictBase):
            entries = _without(value, below)
            if not entries and not value.is_empty():
                continue
            value = TensorDict.trusted(entries, value.batch_size, value.device)
        out[key] = value
    return out


def _only(td: TensorDictBase, paths: set[tuple[str, ...]]) -> dict:
    picked = TensorDict({}, td.batch_size)
    for path in paths:
        if path in td:
            picked.set(path, td.get(path))
    return {key: picked.get(key) for key in picked.keys()}


def _merged(old: dict, new: dict) -> dict:
    """Both sets of entries, the new ones winning; nested collections are merged too."""
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, TensorDictBase) and isinstance(before, TensorDictBase):
            entries = _merged(_without(before, set()), _without(value, set()))
            value = TensorDict.trusted(entries, value.batch_size, value.device)
        old[key] = value
    return old
