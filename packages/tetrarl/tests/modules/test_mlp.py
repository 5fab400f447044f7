from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tetrarl.modules import MLP


def kinds(net):
    return [type(layer).__name__ for layer in net]


@pytest.mark.parametrize(
    ("options", "widths"),
    [
        ({}, [4, 2]),
        ({"depth": 2}, [4, 32, 32, 2]),
        ({"num_cells": [8, 9]}, [4, 8, 9, 2]),
        ({"depth": 1, "num_cells": 5}, [4, 5, 2]),
        ({"depth": 0}, [4, 2]),
    ],
    ids=str,
)
def test_depth_and_widths_make_the_layers(options, widths):
    linears = [layer for layer in MLP(4, 2, **options) if isinstance(layer, nn.Linear)]
    assert [(x.in_features, x.out_features) for x in linears] == list(pairwise(widths))


def test_it_computes_what_its_layers_say():
    net = MLP(4, 2, depth=1, num_cells=8)
    x = torch.randn(5, 4)
    assert_close(net(x), net[2](net[0](x).tanh()))


def test_several_inputs_are_joined():
    net = MLP(5, 2)
    a, b = torch.randn(3, 4), torch.randn(3, 1)
    assert_close(net(a, b), net(torch.cat([a, b], -1)))


def test_the_output_may_have_a_shape():
    assert MLP(4, (2, 3), depth=1)(torch.zeros(5, 4)).shape == (5, 2, 3)


def test_normalisation_and_dropout_come_before_each_activation():
    net = MLP(
        4,
        2,
        num_cells=[8, 9],
        norm_class=nn.LayerNorm,
        norm_kwargs=[{"normalized_shape": 8}, {"normalized_shape": 9}],
        dropout=0.1,
        activation_class=nn.ELU,
        activation_kwargs={"alpha": 0.5},
    )
    hidden = ["Linear", "Dropout", "LayerNorm", "ELU"]
    assert kinds(net) == [*hidden, *hidden, "Linear"]
    assert net[3].alpha == 0.5


def test_the_last_layer_may_be_activated_or_have_no_bias():
    assert kinds(MLP(4, 2, activate_last_layer=True)) == ["Linear", "Tanh"]
    net = MLP(4, 2, depth=1, bias_last_layer=False)
    assert net[0].bias is not None and net[2].bias is None


def test_the_outputs_may_share_one_bias():
    net = MLP(4, 3, single_bias_last_layer=True)
    before = net(torch.zeros(2, 4))
    with torch.no_grad():
        net[-1].bias.fill_(5.0)
    assert_close(net(torch.zeros(2, 4)), before + 5)
    assert [tuple(p.shape) for p in net.parameters()] == [(3, 4), (1,)]


def test_activations_may_be_functions_and_each_layer_have_its_keywords():
    net = MLP(
        4, 2, num_cells=[4, 4], activation_class=lambda: torch.sin, layer_kwargs=[{"bias": False}, {}, {}]
    )
    assert [layer.bias is None for layer in net if isinstance(layer, nn.Linear)] == [True, False, False]
    x = torch.randn(3, 4)
    assert_close(net(x), net[4](net[2](net[0](x).sin()).sin()))


def test_layers_may_be_of_another_class():
    class Loud(nn.Linear):
        def __init__(self, *sizes, bias=True, gain=1):
            super().__init__(*sizes, bias=bias)
            self.gain = gain

    assert MLP(4, 2, depth=1, layer_class=Loud, layer_kwargs={"gain": 3})[0].gain == 3


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_the_input_size_may_be_found_later():
    net = MLP(out_features=2, depth=1)
    assert net(torch.zeros(3, 7)).shape == (3, 2) and net[0].in_features == 7


def test_parameters_lie_on_the_device():
    assert MLP(4, 2, depth=1, norm_class=nn.LayerNorm, norm_kwargs={"normalized_shape": 32}, device="meta")[
        1
    ].weight.is_meta


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 3, "num_cells": [8, 9]}, "lists 2 hidden layers but depth is 3"),
        ({"depth": 2, "activation_kwargs": [{}]}, r"activation_kwargs must be one dict or a list of 2"),
        ({"out_features": None}, "out_features must be given"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MLP(**{"in_features": 4, "out_features": 2, **options})


def test_a_class_that_cannot_find_its_input_size_is_told_so():
    class Own(nn.Linear):
        pass

    with pytest.raises(ValueError, match="in_features must be given for Own"):
        MLP(out_features=2, layer_class=Own)
