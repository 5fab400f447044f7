"""What a collection looks like in a shell."""

from typing import Any

from torch import Tensor

from tetradict._apply import is_shared
from tetradict._protocol import Container


def show(td: Container) -> str:
    """The tree with sorted keys: shape, device and dtype of each tensor, batch size and device of each node."""
    names = "" if td._names is None else f"\n    names={td._names},"
    fields = "".join(f"\n    {key}: {_entry(value)}," for key, value in sorted(td._entries().items()))
    fields = "{" + fields[:-1].replace("\n", "\n    ") + "}" if fields else "{}"
    return (
        f"{type(td).__name__}(\n    fields={fields},\n    batch_size={td.batch_size},{names}\n"
        f"    device={td.device},\n    is_shared={is_shared(td)})"
    )


def _entry(value: Any) -> str:
    if isinstance(value, Container):
        return show(value).replace("\n", "\n    ")
    if isinstance(value, Tensor):
        return (
            f"{type(value).__name__}(shape={value.shape}, device={value.device}, dtype={value.dtype}, "
            f"is_shared={value.is_shared()})"
        )
    return repr(value)
