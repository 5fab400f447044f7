"""A gymnasium environment with everything a step needs worked out beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from tetradict import TensorDict, TensorDictBase
from torch import Tensor

from tetrarl.envs._gym_actions import ActionCodec
from tetrarl.envs._gym_rows import NO_BATCH, Block, Layout, rows_per_block
from tetrarl.envs._gym_spaces import Field

FIRST_ROWS = 16
trusted = TensorDict.trusted


class Driver:
    """Steps a gymnasium environment and writes what it gives into rows, which it hands out as collections.

    What a step does stands in few, long functions, as calls and attribute look-ups are most of its cost.

    Args:
        env: the environment.
        fields: its observations.
        actions: its actions.
        frame_skip: how often each action is repeated.
        device: where collections lie; ``None`` makes no promise.

    Attributes:
        step: the environment's step, repeated where frames are skipped.
        puts: how to write each field.
        layout: how rows become collections.
        far: the device, where it is not the CPU.
        seed: for the next reset, once.
    """

    __slots__ = (
        "_block",
        "_device",
        "_env",
        "_left",
        "_most",
        "_pairs",
        "_read",
        "actions",
        "far",
        "fields",
        "layout",
        "puts",
        "seed",
        "started",
        "step",
    )

    def __init__(
        self,
        env: gymnasium.Env,
        fields: Sequence[Field],
        actions: ActionCodec,
        frame_skip: int | None,
        device: torch.device | None,
    ) -> None:
        self._env = env
        self.fields = fields
        self.puts = [field.put for field in fields]
        self.actions = actions
        self._read = actions.read
        self.step = env.step if frame_skip in (None, 1) else _repeated(env.step, frame_skip)
        self.seed: int | None = None
        self.started = False
        self._most = rows_per_block(fields)
        self._block: Block | None = None
        self._left: Iterator[tuple[int, tuple[Tensor, ...]]] = iter(())
        self._pairs: list[tuple[Any, np.ndarray]] = []
        self.place(device)

    def place(self, device: torch.device | None) -> None:
        """Hand out collections on another device from now on."""
        self._device = device
        self.far = device if device is not None and device.type != "cpu" else None
        self.layout = Layout(self.fields, device)

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

    def first(self, **kwargs: Any) -> TensorDict:
        """Begin an episode and give the collection of its first observation."""
        observation = self.reset(**kwargs)
        i, row = next(self._left, None) or self._renew()
        for put, array in self._pairs:
            put(array, i, observation)
        return self._root(row if self.far is None else self._moved(row))

    def transition(self, td: TensorDictBase) -> TensorDict:
        """Take the action in ``td``, and put what follows under ``"next"``.

        Returns:
            What the next step starts from: a new episode where this one is over.
        """
        _, row, over, plain = self.advance(td)
        following = self.first() if over else self._root(row)
        return following if plain else following.update(carried_over(td, self.layout))

    def advance(self, td: TensorDictBase) -> tuple[TensorDict, tuple[Tensor, ...], bool, bool]:
        """Take the action in ``td``, and put what follows under ``"next"``.

        Returns:
            What follows, its row, whether the episode is over, and whether ``td`` held nothing else to carry over.
        """
        if not self.started:
            raise RuntimeError("step: call reset() before the first step")
        observation, reward, terminated, truncated, _ = self.step(self._read(td["action"]))
        i, row = next(self._left, None) or self._renew()
        for put, array in self._pairs:
            put(array, i, observation)
        block = self._block
        block.reward[i] = reward
        over = terminated or truncated
        if over:
            block.done[i] = True
            block.terminated[i], block.truncated[i] = terminated, truncated
        if self.far is not None:
            row = self._moved(row)
        layout = self.layout
        if layout.nested:
            after, plain = layout.after(row), False
        else:
            after = trusted(dict(zip(layout.after_names, row, strict=False)), NO_BATCH, self._device)
            plain = layout.expected.issuperset(td.keys())
        if not plain:
            preset = td.get("next", None)
            if preset is not None:
                after.update(preset.exclude(*layout.after_keys))
        td["next"] = after
        return after, row, over, plain

    def _root(self, row: tuple[Tensor, ...]) -> TensorDict:
        layout = self.layout
        if layout.nested:
            return layout.root(row)
        return trusted(dict(zip(layout.root_names, row, strict=False)), NO_BATCH, self._device)

    def _moved(self, row: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(tensor.to(self.far) for tensor in row)

    def _renew(self) -> tuple[int, tuple[Tensor, ...]]:
        """Begin another block, twice as long as the last one up to the limit, and give its first row."""
        size = min(self._block.size * 2, self._most) if self._block else min(FIRST_ROWS, self._most)
        self._block = block = Block(self.fields, size)
        self._pairs = list(zip(self.puts, block.observations, strict=True))
        self._left = enumerate(block.rows)
        return next(self._left)


def carried_over(td: TensorDictBase, layout: Layout) -> TensorDictBase:
    """What a step doesn't renew and the next one starts with: all that a policy added, except the action."""
    kept = td.exclude(*layout.after_keys, "action", "next")
    preset = td.get("next", None)
    return kept if preset is None else kept.update(preset.exclude(*layout.after_keys))


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
