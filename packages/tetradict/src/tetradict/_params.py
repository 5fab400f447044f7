"""A collection that is an ``nn.Module``, whose entries are parameters and buffers."""

from collections.abc import Callable, Iterator, KeysView, Mapping
from functools import wraps
from typing import Any, Literal, Self

import torch
from torch import Size, Tensor, nn

from tetradict import _modules
from tetradict._base import TensorDictBase
from tetradict._lock import is_root
from tetradict._protocol import Container
from tetradict._repr import show
from tetradict._td import TensorDict
from tetradict._torch_compat import register_pytree_node

_CONVERT = (False, True, "skip")


class TensorDictParams(TensorDictBase, nn.Module):
    """A tree of parameters and buffers: a collection, and a module that can stand in another one.

    Its tensors are found by ``parameters()``, ``state_dict()``, ``to()`` and their kin of the module around it. Verbs
    that compute something give a plain ``TensorDict``; ``clone`` and ``to`` give parameters again.

    Args:
        parameters: the entries, as ``TensorDict`` takes them; keyword arguments are entries too.
        no_convert: by default a floating or complex tensor becomes a parameter and any other a buffer. With ``True``,
            all tensors that are no parameters become buffers; with ``"skip"`` they stay as they are.
        lock: forbid changes of the entries.

    Example:
        >>> params = TensorDictParams(TensorDict(scale=torch.ones(2), count=torch.tensor(0)))
        >>> [name for name, _ in params.named_parameters()], [name for name, _ in params.named_buffers()]
        (['scale'], ['count'])
    """

    def __init__(
        self,
        parameters: Mapping[Any, Any] | TensorDictBase | None = None,
        *,
        no_convert: bool | Literal["skip"] = False,
        lock: bool = False,
        **kwargs: Any,
    ) -> None:
        if no_convert not in _CONVERT:
            raise ValueError(
                f"TensorDictParams: no_convert must be False, True or 'skip', got {no_convert!r}"
            )
        if parameters is not None and not isinstance(parameters, (TensorDictBase, Mapping)):
            raise TypeError(
                f"TensorDictParams: parameters must be a collection or a dict, got a {type(parameters).__name__}"
            )
        if not isinstance(parameters, TensorDictBase):
            parameters = TensorDict(parameters or {})
        nn.Module.__init__(self)
        self._start(parameters.batch_size, parameters.device, parameters._names, no_convert, [])
        for key, value in parameters._entries().items():
            self._set1(key, value)
        for key, value in kwargs.items():
            self[key] = value
        if lock:
            self.lock_()

    def _start(self, size: Size, device: Any, names: Any, no_convert: Any, hooks: list[Any]) -> None:
        own = self.__dict__
        own["_bs"], own["_dev"], own["_names"], own["_lock"] = size, device, names, None
        own["_no_convert"], own["_hooks"], own["_rest"] = no_convert, hooks, {}

    @classmethod
    def _node(cls, like: "TensorDictParams", td: Container, no_convert: Any) -> "TensorDictParams":
        node = cls.__new__(cls)
        nn.Module.__init__(node)
        node._start(td.batch_size, td.device, td._names, no_convert, like._hooks)
        for key, value in td._entries().items():
            node._set1(key, value)
        return node

    # --- the protocol of a container

    @property
    def batch_size(self) -> Size:
        """The leading dimensions that all entries share; may be set."""
        return self._bs

    @batch_size.setter
    def batch_size(self, size: Any) -> None:
        TensorDictBase.batch_size.fset(self, size)

    @property
    def device(self) -> torch.device | None:
        """Where every entry lies, or ``None`` for "mixed, not checked"."""
        return self._dev

    def _entries(self) -> Mapping[str, Any]:
        entries: dict[str, Any] = {}
        for part in (self._parameters, self._buffers, self._modules, self._rest):
            entries.update(part)
        if self._hooks:
            return {k: self._hooked(v) if isinstance(v, Tensor) else v for k, v in entries.items()}
        return entries

    def _hooked(self, value: Tensor) -> Tensor:
        for hook in self._hooks:
            changed = hook(self, value)
            value = value if changed is None else changed
        return value

    def _keys(self) -> KeysView[str]:
        return self._entries().keys()

    def _get1(self, key: str) -> Any:
        for part in (self._parameters, self._buffers, self._modules, self._rest):
            if key in part:
                value = part[key]
                return self._hooked(value) if self._hooks and isinstance(value, Tensor) else value
        raise KeyError(key)

    def _set1(self, key: str, value: Any) -> None:
        for part in (self._parameters, self._buffers, self._modules, self._rest):
            part.pop(key, None)
        if isinstance(value, Tensor):
            value = _as_kept(value, self._no_convert)
            (self._parameters if isinstance(value, nn.Parameter) else self._buffers)[key] = value
        elif isinstance(value, Container):
            known = isinstance(value, TensorDictParams)
            self._modules[key] = value if known else self._node(self, value, self._no_convert)
        else:
            self._rest[key] = value

    def _del1(self, key: str) -> None:
        for part in (self._parameters, self._buffers, self._modules, self._rest):
            part.pop(key, None)

    def _like(self, entries: dict[str, Any], batch_size: Size, names: Any = None) -> TensorDict:
        td = TensorDict.trusted(entries, batch_size, self._dev)
        td._names = names
        return td

    def _put_meta(self, batch_size: Size, device: torch.device | None, names: Any) -> None:
        own = self.__dict__
        own["_bs"], own["_dev"], own["_names"] = batch_size, device, names

    # --- what a module is

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in {"batch_size", "names", "_lock", "_names", "_undo"} or name in type(self).__dict__:
            object.__setattr__(self, name, value)
        elif isinstance(value, (Tensor, TensorDictBase)):
            self[name] = value
        else:
            nn.Module.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        value = nn.Module.__getattr__(self, name)
        return self._hooked(value) if isinstance(value, Tensor) and self._hooks else value

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_lock": is_root(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__setstate__(self, state)
        locked, self.__dict__["_lock"] = self.__dict__["_lock"], None
        if locked:
            self.lock_()

    def __repr__(self) -> str:
        return f"TensorDictParams(params={show(_modules._plain(TensorDict(), self))})"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What ``nn.Module.to`` and its kin call: change every tensor."""
        nn.Module._apply(self, fn, recurse)
        if self._dev is not None:
            leaves = self._leaves()
            self.__dict__["_dev"] = leaves[0].device if leaves else self._dev
        return self

    def register_get_post_hook(self, hook: Callable[["TensorDictParams", Tensor], Tensor | None]) -> None:
        """Let ``hook(self, tensor)`` change, or with ``None`` leave, each tensor that is read from here or below."""
        for module in self.modules():
            module.__dict__["_hooks"] = [*module._hooks, hook]

    # --- copies

    def _mapped(self, fn: Callable[[Tensor], Tensor], memo: dict[int, Any]) -> "TensorDictParams":
        """The same tree with ``fn`` of each tensor, kept a parameter or buffer; what was shared is shared again."""
        out = type(self).__new__(type(self))
        nn.Module.__init__(out)
        out._start(self._bs, self._dev, self._names, self._no_convert, list(self._hooks))
        out._rest.update(self._rest)
        for source, target in ((self._parameters, out._parameters), (self._buffers, out._buffers)):
            for key, value in source.items():
                if id(value) not in memo:
                    memo[id(value)] = _of_kind(value, fn(value.detach()))
                target[key] = memo[id(value)]
        for key, child in self._modules.items():
            out._modules[key] = child._mapped(fn, memo)
        return out

    def clone(self, recurse: bool = True) -> "TensorDictParams":
        """A copy of the tree, of parameters and buffers; its tensors are copied too unless ``recurse`` is ``False``."""
        if recurse:
            return self._mapped(Tensor.clone, {})
        out = type(self)(no_convert="skip")
        out._start(self._bs, self._dev, self._names, self._no_convert, list(self._hooks))
        out._rest.update(self._rest)
        for source, target in ((self._parameters, out._parameters), (self._buffers, out._buffers)):
            target.update(source)
        for key, child in self._modules.items():
            out._modules[key] = child.clone(recurse=False)
        return out

    def copy(self) -> "TensorDictParams":
        """A new tree of the same parameters and buffers."""
        return self.clone(recurse=False)

    __copy__ = copy

    def to(self, *args: Any, **kwargs: Any) -> "TensorDictParams":
        """Parameters and buffers on another device or in another dtype; see :meth:`TensorDictBase.to`."""
        moved = TensorDictBase.to(self, *args, **kwargs)
        if moved is self or all(a is b for a, b in zip(moved._leaves(), self._leaves(), strict=True)):
            return self
        leaves = iter([leaf.detach() for leaf in moved._leaves()])
        out = self._mapped(lambda _: next(leaves), _Unshared())
        out.__dict__["_dev"] = moved.device
        return out

    def cpu(self) -> "TensorDictParams":
        """Parameters and buffers in host memory."""
        return self.to("cpu")

    def cuda(self, device: int | None = None) -> "TensorDictParams":
        """Parameters and buffers on a CUDA device."""
        return self.to(torch.device("cuda", device) if device is not None else "cuda")

    def to_tensordict(self, *args: Any, **kwargs: Any) -> TensorDict:
        """The same tree as a ``TensorDict``, of copies of the tensors."""
        out = self._like({}, self._bs, self._names)
        for key, value in self._entries().items():
            out._d[key] = (
                value.to_tensordict()
                if isinstance(value, Container)
                else value.clone()
                if isinstance(value, Tensor)
                else value
            )
        return out

    # --- state dicts

    def state_dict(
        self,
        *args: Any,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
        flatten: bool = True,
    ) -> dict[str, Any]:
        """The tensors by name, levels joined by dots, as of any module; with ``flatten=False`` nested."""
        flat = nn.Module.state_dict(self, *args, destination=destination, prefix=prefix, keep_vars=keep_vars)
        if flatten:
            return flat
        nested: dict[str, Any] = {}
        for name, value in flat.items():
            node, (*path, last) = nested, name.split(".")
            for step in path:
                node = node.setdefault(step, {})
            node[last] = value
        return nested

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        strict: bool = True,
        assign: bool = False,
        from_flatten: bool | None = None,
    ) -> Any:
        """Load what ``state_dict`` gave, flat or nested; the form is seen from the dict.

        Args:
            state_dict: tensors by name.
            strict: refuse missing and unknown names.
            assign: take the tensors themselves, rather than copy them.
            from_flatten: accepted where code says which form it is.
        """
        flat = dict(_flat_state(state_dict))
        return nn.Module.load_state_dict(self, flat, strict=strict, assign=assign)

    from_module = classmethod(
        wraps(_modules.from_module)(
            lambda cls, module, **options: TensorDict.from_module(module, as_module=True, **options)
        )
    )


class _Unshared(dict):
    """A memo that forgets: for tensors that come one by one, shared or not."""

    def __contains__(self, key: object) -> bool:
        return False


def _flat_state(state: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in state.items():
        if isinstance(value, Mapping):
            yield from _flat_state(value, f"{prefix}{name}.")
        elif isinstance(value, Tensor):
            yield prefix + name, value


def _as_kept(value: Tensor, no_convert: Any) -> Tensor:
    """A tensor as the parameter or buffer that it becomes."""
    if isinstance(value, (nn.Parameter, nn.Buffer)) or no_convert == "skip":
        return value
    if not no_convert and (value.is_floating_point() or value.is_complex()):
        return nn.Parameter(value)
    return nn.Buffer(value)


def _of_kind(like: Tensor, value: Tensor) -> Tensor:
    """A new tensor as what ``like`` is."""
    if isinstance(like, nn.Parameter):
        return nn.Parameter(value, like.requires_grad)
    return nn.Buffer(value) if isinstance(like, nn.Buffer) else value


def _without_grad(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb that writes into tensors, for parameters: autograd records no such write."""

    @wraps(verb)
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            return verb(self, *args, **kwargs)

    return write


_STRUCTURAL = {
    "lock_",
    "unlock_",
    "del_",
    "rename_key_",
    "requires_grad_",
    "auto_batch_size_",
    "rename_",
    "detach_",
}
for _name in dir(TensorDictBase):
    if _name.endswith("_") and not _name.startswith("_") and _name not in _STRUCTURAL:
        setattr(TensorDictParams, _name, _without_grad(getattr(TensorDictBase, _name)))


def _flatten(params: TensorDictParams) -> tuple[list[Any], Any]:
    return TensorDict._flatten(_modules._plain(TensorDict(), params))


register_pytree_node(
    TensorDictParams, _flatten, TensorDict._unflatten, serialized_type_name="tetradict.TensorDictParams"
)
_modules.AS_MODULE.append(TensorDictParams)

from_module = TensorDict.from_module
from_modules = TensorDict.from_modules
