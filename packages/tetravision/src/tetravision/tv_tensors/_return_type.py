"""What an ordinary operation on a tv_tensor gives back: a plain tensor, or a tv_tensor again."""

import threading
from types import TracebackType

_NAMES = {"tensor": False, "tvtensor": True}


class _State(threading.local):
    wraps = False


_state = _State()


def results_are_wrapped() -> bool:
    """Whether operations in this thread give tv_tensors."""
    return _state.wraps


class set_return_type:
    """Choose what ordinary operations on tv_tensors give, in this thread.

    Args:
        return_type: ``"Tensor"`` (what holds when nothing is chosen): ``image + 1`` is a plain tensor.
            ``"TVTensor"``: it is an ``Image`` again. Any case.

    As a call it holds until the next one; as a context manager, until the block ends. Whatever is chosen, ``clone``, ``to``,
    ``detach``, ``requires_grad_`` and ``pin_memory`` keep the type, and operations in place leave their target what it is.

    Raises:
        ValueError: another name.

    Example:
        >>> image = Image(torch.zeros(3, 2, 2))
        >>> type(image + 1).__name__
        'Tensor'
        >>> with set_return_type("TVTensor"):
        ...     type(image + 1).__name__
        'Image'
    """

    def __init__(self, return_type: str) -> None:
        wanted = _NAMES.get(return_type.lower())
        if wanted is None:
            raise ValueError(
                f"set_return_type: return_type must be 'Tensor' or 'TVTensor', got {return_type!r}"
            )
        self._before = _state.wraps
        _state.wraps = wanted

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _state.wraps = self._before
