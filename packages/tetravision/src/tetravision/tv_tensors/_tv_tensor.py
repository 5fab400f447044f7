"""The base of all tv_tensors: a light subclass of Tensor that carries a plain view of itself.

Every tv_tensor made here keeps ``_plain``: the same memory as an ordinary tensor. Kernels run on it, which saves an unwrapping in
eager mode; and under ``torch.compile`` it is what becomes the input of the graph, so that no compiler ever meets the subclass.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tetravision._plain import plain_of
from tetravision._torch_compat import DisableTorchFunctionSubclass, is_view
from tetravision.tv_tensors._collate import register_collate
from tetravision.tv_tensors._return_type import results_are_wrapped

_KEEP_TYPE = frozenset({
    torch.Tensor.clone,
    torch.Tensor.to,
    torch.Tensor.detach,
    torch.Tensor.requires_grad_,
    torch.Tensor.pin_memory,
})
_AUGMENTED = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
)
# What gives back an argument because it has changed it; and as_subclass, which makes a tv_tensor because it was asked to.
_IN_PLACE = frozenset(
    [getattr(torch.Tensor, f"__i{name}__") for name in _AUGMENTED]
    + [
        getattr(home, name)
        for home in (torch.Tensor, torch)
        for name in dir(home)
        if name.endswith("_") and not name.startswith("_") and callable(getattr(home, name))
    ]
    + [torch.Tensor.as_subclass]
)


class TVTensor(torch.Tensor):
    """Base of :class:`Image`, :class:`Mask` and :class:`BoundingBoxes`, and of your own types.

    A tv_tensor is a tensor: any operation takes it, and gives a plain tensor (see :func:`set_return_type`), apart from ``clone``,
    ``to``, ``detach``, ``requires_grad_``, ``pin_memory`` and operations in place, which keep the type. Transforms look at
    the type to choose what to do. A type of your own derives from this class, or from one of the three; name what it
    carries in ``metadata_names``, and give it kernels with ``tetravision.transforms.v2.functional.register_kernel``.

    Attributes:
        metadata_names: attributes that belong to the object beside its values, e.g. ``("format", "canvas_size")``. They
            survive ``wrap``, ``clone``, ``to``, ``deepcopy`` and pickling.

    Example:
        >>> class Depth(TVTensor):
        ...     metadata_names = ("unit",)
        >>> depth = Depth.wrap(torch.zeros(1, 2), unit="mm")
        >>> depth.clone().unit
        'mm'
    """

    metadata_names: ClassVar[tuple[str, ...]] = ()
    _plain: Tensor | None = None
    _kind: "type[TVTensor] | None" = (
        None  # the type, where a tracer can read it: torch 2.13 can't make use of type(x) in a graph
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register_collate(cls)

    @classmethod
    def wrap(cls, tensor: Tensor, like: "TVTensor | None" = None, **metadata: Any) -> Self:
        """View a plain tensor as this type, unchecked and without a copy.

        Args:
            tensor: any tensor; its memory is shared.
            like: where metadata that is not given comes from.
            **metadata: values for ``metadata_names``.

        Raises:
            TypeError: a name that is not in ``metadata_names``, or one without a value.
        """
        plain = plain_of(tensor)
        out = plain.as_subclass(cls)
        out._plain, out._kind = plain, cls
        for name in cls.metadata_names:
            if name in metadata:
                value = metadata.pop(name)
            elif like is not None:
                value = getattr(like, name)
            else:
                raise TypeError(f"{cls.__name__}.wrap: {name}= is missing; give it, or like=")
            setattr(out, name, value)
        if metadata:
            known = ", ".join(cls.metadata_names) or "none"
            raise TypeError(
                f"{cls.__name__}.wrap: unknown metadata {', '.join(metadata)}; known are: {known}"
            )
        return out

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        for kind in types:
            if not issubclass(kind, TVTensor):
                return NotImplemented
        if torch.compiler.is_compiling():
            return _traced(func, args, kwargs)
        with DisableTorchFunctionSubclass():
            output = func(*args, **kwargs)
        if isinstance(output, TVTensor) and (func in _IN_PLACE or "out" in kwargs):
            _refresh(output)
            return output
        if output is None:  # a setter, such as x[0] = 1 or x.data = y
            if args and isinstance(args[0], TVTensor):
                _refresh(args[0])
            return None
        if results_are_wrapped() or (func in _KEEP_TYPE and isinstance(args[0], TVTensor)):
            return _wrap_output(output, _first_tv_tensor(args, kwargs))
        return plain_of(output) if isinstance(output, TVTensor) else output  # x.float() of floats is x

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        """The sizes of the tensor, read without a detour through ``__torch_function__``, as the next three are."""
        return plain_of(self).shape

    @property
    def ndim(self) -> int:  # type: ignore[override]
        """The number of dimensions."""
        return plain_of(self).ndim

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        """The type of one value."""
        return plain_of(self).dtype

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Where the values lie."""
        return plain_of(self).device

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        with DisableTorchFunctionSubclass():
            values = self.as_subclass(torch.Tensor).detach().clone()
        out = _rebuild(type(self), values, self.requires_grad, _state_of(self))
        memo[id(self)] = out
        return out

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        with DisableTorchFunctionSubclass():
            values = self.as_subclass(torch.Tensor).detach()
        return _rebuild, (type(self), values, self.requires_grad, _state_of(self))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        with DisableTorchFunctionSubclass():
            body = repr(self.as_subclass(torch.Tensor).detach()).removeprefix("tensor(").removesuffix(")")
        name = type(self).__name__
        body = body.replace("\n" + " " * len("tensor("), "\n" + " " * len(f"{name}("))
        extra = [f"{key}={getattr(self, key)}" for key in self.metadata_names]
        if self.requires_grad:
            extra.append("requires_grad=True")
        return f"{name}({', '.join([body, *extra])})"


def wrap(wrappee: Tensor, *, like: TVTensor, **kwargs: Any) -> TVTensor:
    """View a tensor as the type of ``like``, with its metadata.

    Args:
        wrappee: any tensor; its memory is shared.
        like: gives the type, a subclass of yours included, and the metadata.
        **kwargs: metadata that differs, e.g. ``canvas_size=``.

    Raises:
        TypeError: ``like`` is no tv_tensor, or has no such metadata.

    Example:
        >>> boxes = BoundingBoxes([[1., 2., 3., 4.]], format="XYXY", canvas_size=(8, 8))
        >>> wrap(boxes + 1, like=boxes).canvas_size
        (8, 8)
    """
    if not isinstance(like, TVTensor):
        raise TypeError(
            f"wrap: like must be a tv_tensor, got {type(like).__name__}; for a plain tensor, use it as it is"
        )
    kind = (torch.compiler.is_compiling() and like._kind) or type(like)
    return kind.wrap(wrappee, like=like, **kwargs)


def as_plain_tensor(
    data: Any, dtype: torch.dtype | None, device: torch.device | str | int | None, requires_grad: bool | None
) -> tuple[Tensor, bool]:
    """Convert anything to a plain tensor, and say whether the result shall be a leaf that wants a gradient."""
    if isinstance(data, torch.Tensor):
        data = plain_of(data)
        if requires_grad is None:
            requires_grad = False  # its own history, if any, goes on
        else:
            data = data.detach()
    return torch.as_tensor(data, dtype=dtype, device=device), bool(requires_grad)


def _refresh(tensor: TVTensor) -> None:
    """Renew the plain view after a change in place, which may have replaced memory, shape or history.

    A view made of ``tensor`` must not keep it alive: without a view's base, or as a leaf of autograd, it would. Then there is none.
    """
    if is_view(tensor) and not (tensor.is_leaf and tensor.requires_grad):
        with DisableTorchFunctionSubclass():
            tensor._plain = tensor.as_subclass(torch.Tensor)
    else:
        tensor._plain = None


def _state_of(tensor: TVTensor) -> dict[str, Any]:
    """Metadata and whatever else a user has set on the object."""
    state = {name: getattr(tensor, name) for name in tensor.metadata_names}
    return state | {key: value for key, value in tensor.__dict__.items() if not key.startswith("_")}


def _rebuild(cls: type[TVTensor], values: Tensor, requires_grad: bool, state: dict[str, Any]) -> TVTensor:
    """Make a tv_tensor from what pickling keeps of it."""
    metadata = {name: state[name] for name in cls.metadata_names}
    out = cls.wrap(values, **metadata)
    for name, value in state.items():
        setattr(out, name, value)
    return out.requires_grad_() if requires_grad else out


def _first_tv_tensor(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TVTensor | None:
    for value in (*args, *kwargs.values()):
        if isinstance(value, TVTensor):
            return value
        if isinstance(value, (list, tuple)):
            found = _first_tv_tensor(tuple(value), {})
            if found is not None:
                return found
    return None


def _wrap_output(output: Any, like: TVTensor | None) -> Any:
    if like is None:
        return output
    if isinstance(output, torch.Tensor):
        return output if isinstance(output, TVTensor) else wrap(output, like=like)
    if isinstance(output, (list, tuple)) and not isinstance(output, torch.Size):
        values = [_wrap_output(value, like) for value in output]
        return type(output)(values)
    return output


def _unwrap_tree(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return plain_of(value)
    if isinstance(value, list):
        return [_unwrap_tree(item) for item in value]
    if isinstance(value, tuple):
        return tuple([_unwrap_tree(item) for item in value])
    return value


def _traced(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operation on the plain views, for compilers: the default return type, whatever the thread has chosen."""
    plain_args = [_unwrap_tree(value) for value in args]
    output = func(*plain_args, **{key: _unwrap_tree(value) for key, value in kwargs.items()})
    if plain_args and output is plain_args[0]:  # a tracer gives the same object only for what changes it
        return args[0]
    if func in _KEEP_TYPE:
        return _wrap_output(output, _first_tv_tensor(args, {}))
    return output


torch.serialization.add_safe_globals([_rebuild])  # it makes tv_tensors and nothing else
