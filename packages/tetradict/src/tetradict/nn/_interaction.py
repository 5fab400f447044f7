"""Which value of a distribution a probabilistic module takes."""

import enum
from contextlib import ContextDecorator
from typing import Self


class InteractionType(enum.StrEnum):
    """How a probabilistic module turns its distribution into a value.

    ``RANDOM`` draws (with a gradient where the distribution has one), ``MODE``, ``MEAN`` and ``MEDIAN`` take these,
    and ``DETERMINISTIC`` takes whatever the distribution holds to be its one best value.
    """

    MODE = "mode"
    MEDIAN = "median"
    MEAN = "mean"
    RANDOM = "random"
    DETERMINISTIC = "deterministic"

    @classmethod
    def from_str(cls, type_str: str) -> "InteractionType":
        """The member of this name, in any case.

        Example:
            >>> InteractionType.from_str("mode")
            <InteractionType.MODE: 'mode'>
        """
        try:
            return cls(type_str.lower())
        except ValueError as error:
            names = ", ".join(repr(member.value) for member in cls)
            raise ValueError(
                f"{type_str!r} is not a valid InteractionType; expected one of {names}"
            ) from error


class _Setting:
    """The setting now in force.

    A plain attribute, for all threads: torch.compile guards on it, as it does not on a thread's or a context's own.
    """

    type: InteractionType | None = None


_setting = _Setting()


def interaction_type() -> InteractionType | None:
    """The type set by set_interaction_type, or ``None`` when each module follows its own default."""
    return _setting.type


class set_interaction_type(ContextDecorator):
    """Set the interaction type of every probabilistic module while a block (or a decorated function) runs.

    Args:
        type: a member of InteractionType, its name, or ``None`` to let each module follow its default.

    Example:
        >>> with set_interaction_type("mean"):
        ...     print(interaction_type())
        InteractionType.MEAN
    """

    def __init__(self, type: InteractionType | str | None = InteractionType.DETERMINISTIC) -> None:
        self.type = InteractionType.from_str(type) if isinstance(type, str) else type

    def clone(self) -> Self:
        """Another one of the same type: each can be entered once at a time."""
        return type(self)(self.type)

    def _recreate_cm(self) -> Self:
        return self.clone()  # a fresh one a call, so that a decorated function may recurse

    def __enter__(self) -> None:
        self._outer = _setting.type
        _setting.type = self.type

    def __exit__(self, *error: object) -> None:
        _setting.type = self._outer
