"""Settings of all modules at once: as context managers, as decorators, or for good.

Plain attributes, for all threads: torch.compile guards on them, as it does not on a thread's or a context's own.
"""

import functools
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, Self


class _Settings:
    skip_existing: bool = False
    composite_lp_aggregate: bool | None = None
    dispatch: bool = True


settings = _Settings()


class _Setting(ContextDecorator):
    """Give one of the settings a value while a block (or a decorated function) runs."""

    _name: str

    def __init__(self, mode: bool | None = True) -> None:
        self.mode = mode

    def clone(self) -> Self:
        """Another one of the same value: each can be entered once at a time."""
        return type(self)(self.mode)

    def _recreate_cm(self) -> Self:
        return self.clone()  # so that a decorated function may recurse

    def __enter__(self) -> Self:
        self.set()
        return self

    def __exit__(self, *error: object) -> None:
        self.unset()

    def set(self) -> None:
        """Let the value stand until unset."""
        self._outer = getattr(settings, self._name)
        setattr(settings, self._name, self.mode)

    def unset(self) -> None:
        """Go back to what stood before."""
        setattr(settings, self._name, self._outer)


class set_composite_lp_aggregate(_Setting):
    """Whether a distribution over several entries gives the sum of their log-probabilities, or each by itself.

    Args:
        mode: ``True`` for one tensor, the sum, under ``"sample_log_prob"``; ``False`` (and ``None``, the default) for
            a collection with an entry of each.
    """

    _name = "composite_lp_aggregate"


def composite_lp_aggregate(nowarn: bool = False) -> bool:
    """Whether log-probabilities are summed, see set_composite_lp_aggregate.

    Args:
        nowarn: accepted for code written when an unset mode warned; there is nothing to warn of here.
    """
    return bool(settings.composite_lp_aggregate)


class set_dispatch(_Setting):
    """Whether modules may be called with tensors in place of a collection."""

    _name = "dispatch"


def skip_existing() -> bool:
    """Whether modules pass over what is there already, see set_skip_existing."""
    return settings.skip_existing


class set_skip_existing(_Setting):
    """Let modules return their input as it is when all their outputs are in it.

    As a context manager it holds for every module that runs inside. As a decorator of a ``forward`` it holds for that
    module: always with ``True``, never with ``False``, and with ``None`` inside a context that says so.

    Args:
        mode: see above.
        in_key_attr: the attribute of the decorated module that lists what it reads. What it both reads and writes is
            always computed.
        out_key_attr: the attribute that lists what it writes.

    Example:
        >>> double = TensorDictModule(lambda x: 2 * x, in_keys=["x"], out_keys=["y"])
        >>> with set_skip_existing(True):
        ...     double(TensorDict(x=torch.ones(1), y=torch.zeros(1)))["y"]
        tensor([0.])
    """

    _name = "skip_existing"

    def __init__(
        self, mode: bool | None = True, in_key_attr: str = "in_keys", out_key_attr: str = "out_keys"
    ) -> None:
        super().__init__(mode)
        self.in_key_attr, self.out_key_attr = in_key_attr, out_key_attr

    def clone(self) -> Self:
        """Another one of the same value."""
        return type(self)(self.mode, self.in_key_attr, self.out_key_attr)

    def set(self) -> None:
        """Let the value stand until unset."""
        if self.mode is None:
            raise RuntimeError(
                "set_skip_existing: It seems that mode=None is used as a context; a context takes True or False, "
                "None is for decorating a forward that follows the context"
            )
        super().set()

    def __call__(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(forward)
        def call(module: Any, tensordict: Any, *args: Any, **kwargs: Any) -> Any:
            mode = settings.skip_existing if self.mode is None else self.mode
            if mode and is_done(
                tensordict, getattr(module, self.in_key_attr), getattr(module, self.out_key_attr)
            ):
                return tensordict
            return forward(module, tensordict, *args, **kwargs)

        return call


def is_done(tensordict: Any, in_keys: list[Any], out_keys: list[Any]) -> bool:
    """Whether all outputs are there, and none of them is an input too."""
    return all(key in tensordict and key not in in_keys for key in out_keys)
