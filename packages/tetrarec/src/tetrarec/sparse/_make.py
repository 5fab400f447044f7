"""The second door to the containers: no checks."""

from typing import Any, TypeVar

Kind = TypeVar("Kind")


def make(kind: type[Kind], **fields: Any) -> Kind:
    """Construct from parts that are known to fit, or from whatever a tree_map put in their place.

    ``fields`` are the container's own, without the underscore; those left out keep the default of the class.
    """
    made = kind.__new__(kind)
    for name, value in fields.items():
        setattr(made, f"_{name}", value)
    return made
