import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tetradict import TensorDict
from tetradict.nn import (
    TensorDictModule,
    TensorDictModuleWrapper,
    TensorDictSequential,
    WrapModule,
    as_tensordict_module,
)


def split():
    return TensorDictModule(lambda x: (x + 1, x + 2), in_keys=["a"], out_keys=["b", "c"])


def test_a_wrapper_stands_for_its_module():
    module = TensorDictModuleWrapper(TensorDictModule(nn.Linear(3, 2), ["x"], ["y"]))
    assert module.in_keys == ["x"] and module.out_keys == ["y"] and module.in_features == 3
    x = torch.rand(4, 3)
    assert_close(module(TensorDict({"x": x}, [4]))["y"], module.td_module.module(x))
    assert_close(module(x), module.td_module.module(x))
    assert copy.deepcopy(module).weight is not module.weight


def test_a_wrapper_passes_selections_on():
    module = TensorDictModuleWrapper(split())
    assert module.select_out_keys("c") is module and module.out_keys == ["c"] == module.td_module.out_keys
    assert module.out_keys_source == ["b", "c"]
    assert set(module(TensorDict(a=0)).keys()) == {"a", "c"}
    assert module.reset_out_keys() is module and module.out_keys == ["b", "c"]


@pytest.mark.parametrize("inplace", [False, True])
def test_a_function_of_a_collection_is_a_module(inplace):
    module = WrapModule(lambda td: TensorDict(b=td["a"] + 1), inplace=inplace, in_keys=["a"], out_keys="b")
    assert module.in_keys == ["a"] and module.out_keys == ["b"]
    td = TensorDict(a=1)
    out = module(td)
    assert out["b"] == 2 and (out is td) == inplace
    with pytest.raises(TypeError, match="func must be a function"):
        WrapModule(3)


def test_functions_stand_in_sequences_by_name():
    seq = TensorDictSequential({
        "first": split(),
        "copy": lambda td: td.copy(),
        "last": lambda td: td.exclude("a"),
    })
    td = TensorDict(a=0)
    out = seq(td)
    assert out is not td and set(out.keys()) == {"b", "c"}
    assert (
        seq["first"].out_keys == ["b", "c"]
        and len(seq) == 3
        and list(seq.module) == ["first", "copy", "last"]
    )
    assert seq.in_keys == ["a"]


def test_a_function_of_tensors_reads_and_writes_entries():
    class Holder:
        gain = 3

        @as_tensordict_module(in_keys=["a"], out_keys="b")
        def scale(self, a):
            return self.gain * a

    @as_tensordict_module(in_keys="a", out_keys=["b", "c"])
    def both(a):
        return a, -a

    assert Holder().scale(TensorDict(a=2))["b"] == 6
    assert both(TensorDict(a=2))["c"] == -2
    with pytest.raises(TypeError, match="expected a function"):
        as_tensordict_module("a", "b")(3)
