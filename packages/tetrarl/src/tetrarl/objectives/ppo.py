"""The losses of PPO, by the path that users of other libraries know."""

from tetrarl.objectives._ppo import ClipPPOLoss, PPOLoss

__all__ = ["ClipPPOLoss", "PPOLoss"]
