"""Which kernel serves which type: one look-up by functional and type, filled when the library is imported."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from tetravision._plain import plain_of
from tetravision.tv_tensors import BoundingBoxes, Image, Mask, TVTensor, wrap

Kernel = Callable[..., Any]
F = TypeVar("F", bound=Kernel)

_OURS = (TVTensor, Image, Mask, BoundingBoxes)
_KERNELS: dict[Kernel, dict[type, Kernel]] = {}
_RESOLVED: dict[Kernel, dict[type, Kernel | None]] = {}


def is_pure_tensor(inpt: Any) -> bool:
    """Whether something is a tensor without a meaning: a tensor, and no tv_tensor.

    Example:
        >>> is_pure_tensor(torch.zeros(2)), is_pure_tensor(Image(torch.zeros(1, 2, 2)))
        (True, False)
    """
    return isinstance(inpt, torch.Tensor) and not isinstance(inpt, TVTensor)


def register_kernel(functional: Kernel | str, tv_tensor_cls: type) -> Callable[[F], F]:
    """Give a functional a kernel for a type of your own.

    Args:
        functional: one of the functionals of this module, e.g. ``resize``, or its name.
        tv_tensor_cls: a subclass of ``TVTensor``, or of one of the library's types.

    Returns:
        A decorator. The kernel gets the object as it is, the functional's other arguments by name, and gives
        the object to return. Subclasses use it too, until they have their own.

    Raises:
        ValueError: ``functional`` is none of ours, ``tv_tensor_cls`` is no type of yours, or has its kernel already.

    Example:
        >>> class Depth(Image): ...
        >>> @register_kernel(horizontal_flip, Depth)
        ... def flip_depth(depth):
        ...     return wrap(depth.flip(-1), like=depth)
        >>> type(horizontal_flip(Depth(torch.zeros(1, 2, 2)))).__name__
        'Depth'
    """
    names = {each.__name__: each for each in _KERNELS}
    function = names.get(functional) if isinstance(functional, str) else functional
    if function not in _KERNELS:
        raise ValueError(
            f"register_kernel: functional must be one of {', '.join(sorted(names))}; got {functional!r}"
        )
    if (
        not (isinstance(tv_tensor_cls, type) and issubclass(tv_tensor_cls, TVTensor))
        or tv_tensor_cls in _OURS
    ):
        raise ValueError(
            f"register_kernel: tv_tensor_cls must be a subclass of TVTensor of your own, got {tv_tensor_cls!r}"
        )
    if tv_tensor_cls in _KERNELS[function]:
        raise ValueError(
            f"register_kernel: {tv_tensor_cls} has a kernel for {function.__name__} already; derive a class"
        )
    return _registers(function, tv_tensor_cls)


def kernel(functional: Kernel, *types: type) -> Callable[[F], F]:
    """Register a kernel of the library for types that it takes as they are."""

    def decorate(function: F) -> F:
        for cls in types:
            _registers(functional, cls)(function)
        return function

    return decorate


def plain_kernel(functional: Kernel, *types: type) -> Callable[[F], F]:
    """Register a function of plain tensors for tv_tensor types: it gets the plain view, and its result is wrapped like the input."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def on_tv_tensor(inpt: TVTensor, *args: Any, **kwargs: Any) -> TVTensor:
            return wrap(function(plain_of(inpt), *args, **kwargs), like=inpt)

        for cls in types:
            _registers(functional, cls)(on_tv_tensor)
        return function

    return decorate


def functional(function: F) -> F:
    """Announce a dispatcher, so that kernels can be registered for it."""
    _KERNELS[function] = {}
    _RESOLVED[function] = {}
    return function


def find_kernel(function: Kernel, cls: type) -> Kernel | None:
    """Look up the kernel for a type: its own, or that of the nearest base; None when there is none."""
    table = _KERNELS[function]
    if cls in table:
        return table[cls]
    if torch.compiler.is_compiling():  # a graph must not depend on what has been looked up before
        return _walk(table, cls)
    resolved = _RESOLVED[function]
    if cls not in resolved:
        resolved[cls] = _walk(table, cls)
    return resolved[cls]


def dispatch(function: Kernel, inpt: Any, **kwargs: Any) -> Any:
    """Run the kernel of ``function`` for the type of ``inpt``."""
    found = find_kernel(function, type(inpt))
    if found is None:
        known = ", ".join(f"{cls.__module__.split('.')[0]}.{cls.__name__}" for cls in _KERNELS[function])
        raise TypeError(
            f"{function.__name__}: no kernel for {type(inpt)}; there are some for {known}; "
            "give a type of your own one with register_kernel"
        )
    return found(inpt, **kwargs)


def _registers(function: Kernel, cls: type) -> Callable[[F], F]:
    def decorate(kernel: F) -> F:
        _KERNELS[function][cls] = kernel
        _RESOLVED[function].clear()  # a subclass may have been resolved to a base already
        return kernel

    return decorate


def _walk(table: dict[type, Kernel], cls: type) -> Kernel | None:
    """Follow the bases of ``cls``; a tv_tensor type must not fall through to the kernel of plain tensors."""
    for base in cls.__mro__:
        if base is TVTensor:
            return None
        if base in table:
            return table[base]
    return None
