"""A gymnasium environment with everything a step needs worked out beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from torch import Tensor

from tetrarl.envs._gym_actions import ActionCodec
from tetrarl.envs._gym_rows import Block, rows_per_block
from tetrarl.envs._gym_spaces import Field

FIRST_ROWS = 16


class Driver:
    """Steps a gymnasium environment and writes what it gives into rows.

    Args:
        env: the environment.
        fields: its observations.
        actions: its actions.
        frame_skip: how often each action is repeated.

    Attributes:
        step: the environment's step, repeated where frames are skipped.
        puts: how to write each field.
        seed: for the next reset, once.
    """

    __slots__ = (
        "_block",
        "_env",
        "_most",
        "_next",
        "_pairs",
        "actions",
        "fields",
        "puts",
        "seed",
        "started",
        "step",
    )

    def __init__(
        self, env: gymnasium.Env, fields: Sequence[Field], actions: ActionCodec, frame_skip: int | None
    ) -> None:
        self._env = env
        self.fields = fields
        self.puts = [field.put for field in fields]
        self.actions = actions
        self.step = env.step if frame_skip in (None, 1) else _repeated(env.step, frame_skip)
        self.seed: int | None = None
        self.started = False
        self._most = rows_per_block(fields)
        self._renew(min(FIRST_ROWS, self._most))

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode and give its first observation, raw."""
        if self.seed is not None:
            kwargs.setdefault("seed", self.seed)
            self.seed = None
        observation, _ = self._env.reset(**kwargs)
        for field in self.fields:
            got, wanted = field.shape_of(observation)
            if got != wanted:
                raise ValueError(
                    f"reset: the environment's observation_space says that {'.'.join(field.key)!r} has shape "
                    f"{list(wanted)}, but it gave {list(got)}; its observation_space is wrong"
                )
        self.started = True
        return observation

    def reset_row(self, **kwargs: Any) -> tuple[Tensor, ...]:
        """Begin an episode and give the row of its first observation."""
        observation = self.reset(**kwargs)
        row = self._row()
        for put, array in self._pairs:
            put(array, row, observation)
        return self._block.rows[row]

    def step_row(self, action: Any) -> tuple[tuple[Tensor, ...], bool]:
        """Take an action as the environment takes it; the row of what follows, and whether the episode is over."""
        if not self.started:
            raise RuntimeError("step: call reset() before the first step")
        observation, reward, terminated, truncated, _ = self.step(action)
        row = self._row()
        block = self._block
        for put, array in self._pairs:
            put(array, row, observation)
        block.reward[row] = reward
        over = terminated or truncated
        if over:
            block.done[row] = True
            block.terminated[row] = terminated
            block.truncated[row] = truncated
        return block.rows[row], over

    def _row(self) -> int:
        row = self._next
        if row == self._block.size:
            self._renew(min(self._block.size * 2, self._most))
            row = 0
        self._next = row + 1
        return row

    def _renew(self, size: int) -> None:
        self._block = block = Block(self.fields, size)
        self._pairs = list(zip(self.puts, block.observations, strict=True))
        self._next = 0


def _repeated(step: Callable[[Any], tuple], times: int) -> Callable[[Any], tuple]:
    """A step that takes the action ``times`` times, until the episode is over, and adds the rewards up."""

    def repeat(action: Any) -> tuple:
        total = 0.0
        for _ in range(times):
            observation, reward, terminated, truncated, info = step(action)
            total += reward
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info

    return repeat


def frame_field(env: gymnasium.Env) -> Field:
    """The field of the pictures that ``env.render`` draws, uint8, ``[H, W, 3]``; resets the environment."""
    env.reset()
    shape = np.shape(env.render())

    def put(array: np.ndarray, i: int, observation: Any) -> None:
        array[i] = env.render()

    return Field(("pixels",), shape, np.dtype(np.uint8), put, lambda observation: (shape, shape))
