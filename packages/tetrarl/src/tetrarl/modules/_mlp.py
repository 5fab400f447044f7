"""Fully connected networks."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Size, Tensor, nn

Options = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class _Bias(nn.Module):
    """Add one number to every output."""

    def __init__(self, device: torch.device | str | int | None) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, device=device))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class _Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class MLP(nn.Sequential):
    """Linear layers with activations between them.

    Args:
        in_features: size of the last dimension of the input; found at the first call when left out.
        out_features: size of the last dimension of the output, or the shape that takes its place.
        depth: number of hidden layers; as many as ``num_cells`` lists when left out, and none when that isn't a list.
        num_cells: width of the hidden layers, or one for each.
        activation_class: what makes an activation, a module or another callable.
        activation_kwargs: its keywords, or one set for each activation.
        norm_class: what makes a normalisation, put before each activation; none when left out.
        norm_kwargs: its keywords, or one set for each.
        dropout: probability of the dropout before each activation; none when left out.
        bias_last_layer: whether the last layer has a bias.
        single_bias_last_layer: give it one bias for all outputs.
        layer_class: what makes a layer from its two sizes.
        layer_kwargs: its keywords, or one set for each layer.
        activate_last_layer: treat the output like a hidden layer.
        device: where the parameters lie.

    A call with several tensors joins them along the last dimension.

    Raises:
        ValueError: ``depth`` and the length of ``num_cells`` differ, or a list of keywords has another length than
            what it is for.

    Example:
        >>> net = MLP(3, 2, depth=2, num_cells=16, activation_class=torch.nn.ReLU)
        >>> net(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
    """

    def __init__(
        self,
        in_features: int | None = None,
        out_features: int | Sequence[int] | None = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        activation_class: Callable[..., Callable[[Tensor], Tensor]] = nn.Tanh,
        activation_kwargs: Options = None,
        norm_class: Callable[..., nn.Module] | None = None,
        norm_kwargs: Options = None,
        dropout: float | None = None,
        bias_last_layer: bool = True,
        single_bias_last_layer: bool = False,
        layer_class: Callable[..., nn.Module] = nn.Linear,
        layer_kwargs: Options = None,
        activate_last_layer: bool = False,
        device: torch.device | str | int | None = None,
    ) -> None:
        if out_features is None:
            raise ValueError("MLP: out_features must be given, the size of the output")
        widths = _hidden_widths(depth, num_cells)
        self.in_features, self.out_features = in_features, out_features
        self._out_shape = None if isinstance(out_features, int) else Size(out_features)
        out_size = out_features if self._out_shape is None else math.prod(self._out_shape)
        sizes = [in_features, *widths, out_size]
        acts = len(widths) + activate_last_layer
        place = {} if device is None else {"device": device}
        activations = _each("activation_kwargs", activation_kwargs, acts)
        norms = _each("norm_kwargs", norm_kwargs, acts)
        options = _each("layer_kwargs", layer_kwargs, len(widths) + 1)
        layers: list[nn.Module] = []
        for i, (before, after) in enumerate(pairwise(sizes)):
            last = {"bias": bias_last_layer and not single_bias_last_layer} if i == len(widths) else {}
            layers.append(_layer(layer_class, before, after, {**place, **next(options), **last}))
            if last and bias_last_layer and single_bias_last_layer:
                layers.append(_Bias(device))
            if i < acts:
                if dropout:
                    layers.append(nn.Dropout(dropout))
                if norm_class is not None:
                    layers.append(norm_class(**place, **next(norms)))
                activation = activation_class(**next(activations))
                layers.append(activation if isinstance(activation, nn.Module) else _Call(activation))
        super().__init__(*layers)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Map ``[..., in_features]`` to ``[..., out_features]``."""
        output = super().forward(inputs[0] if len(inputs) == 1 else torch.cat(inputs, -1))
        return output if self._out_shape is None else output.unflatten(-1, self._out_shape)


def _hidden_widths(depth: int | None, num_cells: Sequence[int] | int | None) -> list[int]:
    if num_cells is None or isinstance(num_cells, int):
        return [32 if num_cells is None else num_cells] * (depth or 0)
    if depth is not None and depth != len(num_cells):
        raise ValueError(
            f"MLP: num_cells lists {len(num_cells)} hidden layers but depth is {depth}; leave depth out"
        )
    return list(num_cells)


def _each(name: str, options: Options, count: int) -> Iterator[Mapping[str, Any]]:
    """One set of keywords for each of ``count`` modules."""
    if options is None or isinstance(options, Mapping):
        return iter([options or {}] * count)
    if len(options) != count:
        raise ValueError(f"MLP: {name} must be one dict or a list of {count}, got a list of {len(options)}")
    return iter(options)


def _layer(layer_class: Callable[..., nn.Module], before: int | None, after: int, options: dict) -> nn.Module:
    if before is not None:
        return layer_class(before, after, **options)
    if layer_class is not nn.Linear:
        raise ValueError(
            f"MLP: in_features must be given for {layer_class.__name__}, which can't find it by itself"
        )
    return nn.LazyLinear(after, **options)
