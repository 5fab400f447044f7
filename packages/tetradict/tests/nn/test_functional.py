import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

from tetradict import TensorDict
from tetradict.nn import (
    CudaGraphModule,
    TensorDictModule,
    get_functional,
    is_functional,
    make_functional,
    repopulate_module,
)


def test_a_functional_module_takes_its_parameters():
    linear, x = nn.Linear(3, 2), torch.randn(4, 3)
    want = linear(x)
    params = make_functional(linear)
    assert is_functional(linear) and TensorDictModule(linear, ["x"], ["y"]).is_functional
    assert all(p.is_meta for p in linear.parameters())
    assert_close(linear(x, params=params), want)
    module = TensorDictModule(linear, ["x"], ["y"])
    assert_close(module(TensorDict({"x": x}, [4]), params=params)["y"], want)
    assert repopulate_module(linear, params) is linear
    assert_close(linear(x), want)


def test_a_module_may_keep_its_parameters():
    linear, x = nn.Linear(3, 2), torch.randn(4, 3)
    want = linear(x)
    assert make_functional(linear, keep_params=True, return_params=False) is None
    assert_close(linear(x), want)
    zeros = TensorDict.from_module(linear).detach() * 0
    assert_close(linear(x, params=zeros), torch.zeros(4, 2))


def test_a_functional_copy_leaves_the_module_alone():
    linear, x = nn.Linear(3, 2), torch.randn(4, 3)
    twin = get_functional(linear)
    assert is_functional(twin) and not is_functional(linear)
    other = {"weight": torch.randn(2, 3), "bias": torch.randn(2)}
    assert_close(twin(x, params=TensorDict(other)), functional_call(linear, other, x))


def graph(module, **options):
    if torch.cuda.is_available():
        return CudaGraphModule(module, **options)
    with pytest.warns(UserWarning, match="there is no CUDA device"):
        return CudaGraphModule(module, **options)


def test_without_a_gpu_a_recorded_function_is_a_plain_one():
    call = graph(lambda td: td.set("y", td["x"] + 1), in_keys=["x"], out_keys=["y"])
    td = TensorDict(x=torch.zeros(3))
    for _ in range(5):
        assert call(td) is td and (td["y"] == 1).all()
    linear = nn.Linear(3, 2)
    wrapped = graph(linear)
    assert set(wrapped.state_dict()) == {"weight", "bias"}
    wrapped.load_state_dict({"weight": torch.zeros(2, 3), "bias": torch.ones(2)})
    assert_close(wrapped(torch.ones(3)), torch.ones(2))
    with pytest.raises(ValueError, match="warmup must be at least 1"):
        CudaGraphModule(linear, warmup=0)
    with pytest.raises(TypeError, match="a function has no state"):
        call.load_state_dict({})
