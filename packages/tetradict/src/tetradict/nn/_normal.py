"""From the output of a network to the location and scale of a normal distribution."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus


class biased_softplus(nn.Module):
    """A softplus that is moved so that it takes 0 to ``bias``, and that stays above ``min_val``.

    Args:
        bias: the value at 0, above ``min_val``.
        min_val: what it tends to on the far left, at least 0.

    Example:
        >>> biased_softplus(1.0)(torch.zeros(1))
        tensor([1.])
    """

    def __init__(self, bias: float, min_val: float = 0.01) -> None:
        super().__init__()
        if not 0 <= min_val < bias:
            raise ValueError(
                f"biased_softplus: expected 0 <= min_val < bias, got min_val={min_val}, bias={bias}"
            )
        self.shift = inv_softplus(bias - min_val)
        self.min_val = min_val

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x``, of any shape."""
        return softplus(x + self.shift) + self.min_val


def inv_softplus(bias: float | Tensor) -> float | Tensor:
    """What softplus takes to ``bias``, which must be positive.

    Example:
        >>> round(inv_softplus(1.0), 4)
        0.5413
    """
    if isinstance(bias, Tensor):
        return bias + (-(-bias).expm1()).log()
    return bias + math.log(-math.expm1(-bias))


def _expln(x: Tensor) -> Tensor:
    """Exponential below 0 and logarithmic above, with one slope where they meet."""
    return torch.where(x > 0, 1 + x.clamp(min=0).log1p(), x.clamp(max=0).exp())


def _same(x: Tensor) -> Tensor:
    return x


_MAPPINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "softplus": softplus,
    "exp": torch.exp,
    "relu": torch.relu,
    "expln": _expln,
    "none": _same,
}


def mappings(key: str) -> Callable[[Tensor], Tensor]:
    """A map to positive numbers by its name.

    Args:
        key: ``"softplus"``, ``"exp"``, ``"relu"``, ``"expln"``, ``"none"``, or ``"biased_softplus"``, which may be
            followed by ``_`` and its bias (1 when left out), and by ``_`` and its smallest value.

    Raises:
        ValueError: there is no map of that name.

    Example:
        >>> mappings("biased_softplus_0.5")(torch.zeros(1))
        tensor([0.5000])
    """
    if key in _MAPPINGS:
        return _MAPPINGS[key]
    head = "biased_softplus"
    try:
        if key == head or key.startswith(head + "_"):
            return biased_softplus(
                *([float(number) for number in key[len(head) + 1 :].split("_") if number] or [1.0])
            )
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"mappings: expected {head}_BIAS or {head}_BIAS_MINIMUM, got {key!r}: {error}"
        ) from error
    raise ValueError(f"mappings: expected one of {[*_MAPPINGS, head]}, got {key!r}")


class NormalParamExtractor(nn.Module):
    """Split the last dimension into a location and a positive scale.

    Args:
        scale_mapping: the name of the map that makes the scale positive, see mappings.
        scale_lb: smallest scale.

    Example:
        >>> loc, scale = NormalParamExtractor()(torch.tensor([0.5, 0.0]))
        >>> loc, scale
        (tensor([0.5000]), tensor([1.]))
    """

    def __init__(self, scale_mapping: str = "biased_softplus_1.0", scale_lb: float = 1e-4) -> None:
        super().__init__()
        self.scale_mapping = mappings(scale_mapping)
        self.scale_lb = scale_lb

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Split a tensor.

        Args:
            tensors: one whose last dimension is even, ``[..., 2 D]``; more are passed through behind the result.

        Returns:
            The location and the scale, both ``[..., D]``.

        Raises:
            ValueError: the last dimension is odd.
        """
        tensor, *others = tensors
        if tensor.shape[-1] % 2:
            raise ValueError(
                "NormalParamExtractor: the last dimension holds locations then scales and must be even, "
                f"got shape {tuple(tensor.shape)}"
            )
        loc, scale = tensor.chunk(2, -1)
        return (loc, self.scale_mapping(scale).clamp_min(self.scale_lb), *others)


class AddStateIndependentNormalScale(nn.Module):
    """Add a scale that doesn't depend on the input to a location.

    Args:
        scale_shape: the shape of the scale; its leading dimensions follow those of the location.
        scale_mapping: the name of the map that makes the scale positive, see mappings.
        scale_lb: smallest scale.
        device: where the scale lies.
        make_param: learn the scale, rather than keep it.
        init_value: the scale at first, before it is mapped.

    Example:
        >>> loc, scale = AddStateIndependentNormalScale(2)(torch.zeros(3, 2))
        >>> scale.shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        scale_shape: torch.Size | int | tuple[int, ...] = (),
        *,
        scale_mapping: str = "exp",
        scale_lb: float = 1e-4,
        device: torch.device | None = None,
        make_param: bool = True,
        init_value: float = 0.0,
    ) -> None:
        super().__init__()
        self.scale_lb = scale_lb
        shape = () if scale_shape is None else (scale_shape,) if isinstance(scale_shape, int) else scale_shape
        value = torch.full(tuple(shape), init_value, device=device)
        if make_param:
            self.state_independent_scale = nn.Parameter(value)
        else:
            self.register_buffer("state_independent_scale", value)
        self.scale_mapping = mappings(scale_mapping)

    def forward(self, loc: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        """The location, the scale in its shape, and ``others`` behind.

        Raises:
            RuntimeError: the location does not end in the shape of the scale.
        """
        shape = self.state_independent_scale.shape
        if shape and loc.shape[-len(shape) :] != shape:
            raise RuntimeError(
                f"AddStateIndependentNormalScale: expected a location that ends in {tuple(shape)}, got "
                f"{tuple(loc.shape)}; give scale_shape the shape of one location"
            )
        scale = self.scale_mapping(self.state_independent_scale).clamp_min(self.scale_lb)
        return (loc, scale.expand_as(loc), *others)


def add_custom_mapping(name: str, mapping: Callable[[Tensor], Tensor]) -> None:
    """Let mappings know another map to positive numbers.

    Raises:
        ValueError: there is one of that name.
    """
    if name in _MAPPINGS or name.split("_0")[0] == "biased_softplus":
        raise ValueError(f"add_custom_mapping: there is a mapping {name!r} already; choose another name")
    _MAPPINGS[name] = mapping
