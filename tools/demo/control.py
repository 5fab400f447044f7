"""PPO learns to balance a pole."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import page
import torch
from matplotlib import pyplot as plt
from tetradict.nn import TensorDictModule
from tetrarl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from tetrarl.envs import ExplorationType, GymEnv, set_exploration_type
from tetrarl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
from tetrarl.objectives import ClipPPOLoss
from tetrarl.objectives.value import GAE
from tqdm import tqdm

FRAMES, MOST, EPOCHS, BATCH = 512, 50, 4, 64
GOAL, SOLVED = 195.0, 475.0  # the mean return to pass, and gymnasium's own threshold, where training stops


def section() -> page.Section:
    """What the report says of it."""
    return page.Section(
        title="A pole learns to stand",
        library="tetrarl",
        what=(
            "Proximal policy optimisation, from nothing, until the mean return of ten evaluation episodes, played with the "
            f"most likely action, passes {GOAL:.0f}; it goes on to {SOLVED:.0f}, where gymnasium calls the task solved."
        ),
        data="gymnasium's CartPole; each step that the pole stands is worth one, 500 at most.",
        code=page.shown_code(sys.modules[__name__]),
    )


def evaluate(actor: ProbabilisticActor, episodes: int = 10) -> np.ndarray:
    """Returns of whole episodes with the most likely action."""
    env = GymEnv("CartPole-v1")
    env.set_seed(10_000)
    with torch.no_grad(), set_exploration_type(ExplorationType.MODE):
        played = [env.rollout(500, actor) for _ in range(episodes)]
    return np.array([episode["next", "reward"].sum().item() for episode in played])


def networks() -> tuple[ProbabilisticActor, ValueOperator]:
    """An actor over two actions and a value of the state."""
    logits = TensorDictModule(
        MLP(4, 2, num_cells=[64, 64], activation_class=torch.nn.Tanh), ["observation"], ["logits"]
    )
    actor = ProbabilisticActor(
        logits,
        ["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
        default_interaction_type=ExplorationType.RANDOM,
    )
    return actor, ValueOperator(
        MLP(4, 1, num_cells=[64, 64], activation_class=torch.nn.Tanh), ["observation"]
    )


def learn(curve: list[tuple[int, float, float]]) -> None:
    """Train until the task is solved; append frames, mean return and its spread of each evaluation."""
    env, (actor, value) = GymEnv("CartPole-v1"), networks()
    env.set_seed(0)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=value)
    loss_module = ClipPPOLoss(actor, value, clip_epsilon=0.2, entropy_coeff=0.01)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=5e-4)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(FRAMES), sampler=SamplerWithoutReplacement(), batch_size=BATCH
    )
    bar = tqdm(range(MOST), desc="  PPO", disable=None)
    for step in bar:
        returns = evaluate(actor)
        curve.append((step * FRAMES, returns.mean(), returns.std()))
        bar.set_postfix(mean_return=f"{returns.mean():.0f}")
        if returns.mean() > SOLVED:
            bar.close()
            break
        # shown
        played = env.rollout(FRAMES, actor, break_when_any_done=False)
        buffer.extend(advantage(played))
        for _, batch in ((e, b) for e in range(EPOCHS) for b in buffer):
            losses = loss_module(batch)
            # end
            loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(loss_module.parameters(), 0.5)
            optimizer.step()


def run(section: page.Section, scratch: Path) -> None:
    """Train and draw the return curve."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # networks this small lose more to waking a second thread than it gains
    curve: list[tuple[int, float, float]] = []
    learn(curve)
    steps, mean, spread = map(np.array, zip(*curve, strict=True))
    passed = np.flatnonzero(mean > GOAL)
    if not len(passed):
        raise RuntimeError(
            f"PPO reached a mean return of {mean.max():.0f} in {steps[-1]} steps, short of {GOAL:.0f}"
        )
    section.results += [
        (f"{mean[0]:.0f}", "mean return of ten episodes before training"),
        (f"{steps[passed[0]]:,}", f"steps of the environment until it passed {GOAL:.0f}"),
        (f"{mean[-1]:.0f}", f"mean return of ten episodes at the end, after {steps[-1]:,} steps"),
    ]
    figure, axis = plt.subplots(figsize=(9, 3.2))
    axis.fill_between(steps, mean - spread, mean + spread, alpha=0.15)
    axis.plot(steps, mean, marker="o", markersize=4)
    axis.axhline(GOAL, linestyle=":", color="#b0489c")
    axis.set(xlabel="steps of the environment", ylabel="return", ylim=(0, 520))
    section.figures.append((
        page.svg(figure),
        "Mean return of ten evaluation episodes and its spread; dotted, the goal.",
    ))
