"""Rollouts that write straight into arrays of T rows, and become a collection once, at the end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from tetradict import TensorDict, TensorDictBase

from tetrarl.envs._gym_driver import Driver, carried_over
from tetrarl.envs._gym_rows import Layout, empty_columns, rows_of

Policy = Callable[[TensorDictBase], TensorDictBase | None]


class Columns:
    """What T steps give, in arrays: the observations before and after each step, reward and flags."""

    def __init__(self, driver: Driver, steps: int) -> None:
        self.before = empty_columns(driver.fields, steps)
        self.after = empty_columns(driver.fields, steps)
        self.root_flags = list(np.zeros((3, steps, 1), bool))
        self.terminated, self.truncated = np.zeros((2, steps, 1), bool)
        self.reward = np.zeros((steps, 1), np.float32)

    def collect(self, layout: Layout, steps: int) -> TensorDict:
        """The first ``steps`` rows as a collection, without the actions."""
        size = torch.Size([steps])
        done = self.terminated | self.truncated
        after = [*self.after, done, self.terminated, self.truncated, self.reward]
        tensors = [torch.from_numpy(column[:steps]) for column in (*self.before, *self.root_flags)]
        out = layout.root(tensors, size)
        return out.set("next", layout.after([torch.from_numpy(column[:steps]) for column in after], size))


def random_rollout(driver: Driver, steps: int, stop: bool) -> TensorDict:
    """Up to ``steps`` random actions, drawn beforehand; ``stop`` ends them with the first episode."""
    columns = Columns(driver, steps)
    actions, taken = driver.actions.draw(steps)
    starts = [0]
    first = driver.reset()
    for put, array in zip(driver.puts, columns.before, strict=True):
        put(array, 0, first)
    step, pairs = driver.step, list(zip(driver.puts, columns.after, strict=True))
    rewards, terminals, truncations = columns.reward[:, 0], columns.terminated[:, 0], columns.truncated[:, 0]
    count = 0
    for action in taken:
        observation, rewards[count], terminated, truncated, _ = step(action)
        for put, array in pairs:
            put(array, count, observation)
        count += 1
        if terminated or truncated:
            terminals[count - 1], truncations[count - 1] = terminated, truncated
            if stop:
                break
            if count < steps:
                starts.append(count)
                first = driver.reset()
                for put, array in zip(driver.puts, columns.before, strict=True):
                    put(array, count, first)
    for start, end in zip(starts, [*starts[1:], count], strict=True):
        for before, after in zip(columns.before, columns.after, strict=True):
            before[start + 1 : end] = after[start : end - 1]
    return columns.collect(driver.layout, count).set("action", actions[:count])


def policy_rollout(driver: Driver, steps: int, policy: Policy, stop: bool) -> TensorDict:
    """Up to ``steps`` actions of a policy, which is called with one small collection a step."""
    layout, device = driver.layout, driver.far
    columns = Columns(driver, steps)
    rows = rows_of([*columns.before, *columns.root_flags])
    acted: list[TensorDictBase] = []
    carried = None
    over = True
    for t in range(steps):
        if over:
            observation = driver.reset()
            for put, array in zip(driver.puts, columns.before, strict=True):
                put(array, t, observation)
        else:
            for before, after in zip(columns.before, columns.after, strict=True):
                before[t] = after[t - 1]
        if device is not None:
            rows[t] = tuple(tensor.to(device) for tensor in rows[t])
        td = layout.root(rows[t])
        if carried is not None:
            td.update(carried)
        answer = policy(td)
        td = td if answer is None else answer
        acted.append(td)
        observation, columns.reward[t], terminated, truncated, _ = driver.step(
            driver.actions.read(td["action"])
        )
        for put, array in zip(driver.puts, columns.after, strict=True):
            put(array, t, observation)
        columns.terminated[t], columns.truncated[t] = terminated, truncated
        over = terminated or truncated
        if over and stop:
            break
        carried = None if layout.is_plain(td) else carried_over(td, layout)
    return with_policy_entries(columns.collect(layout, len(acted)), acted, rows, layout)


def with_policy_entries(
    out: TensorDict, acted: list[TensorDictBase], rows: list[tuple], layout: Layout
) -> TensorDict:
    """Put what the policy wrote into ``out``: actions, further entries, and observations that it replaced."""
    for column, key in enumerate(layout.root_keys):
        values = [td.get(key, None) for td in acted]
        if any(
            value is not None and value is not row[column] for value, row in zip(values, rows, strict=False)
        ):
            out.set(key, torch.stack(values))
    out.update(torch.stack([td.exclude(*layout.root_keys, "next") for td in acted]))
    presets = [
        preset.exclude(*layout.after_keys) for td in acted if (preset := td.get("next", None)) is not None
    ]
    if presets:
        out["next"].update(torch.stack(presets))
    return out
