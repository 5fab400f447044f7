import pytest
import torch
from torch.testing import assert_close

from tetradict import TensorDict
from tetradict.nn import (
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
    composite_lp_aggregate,
    set_composite_lp_aggregate,
    set_skip_existing,
    skip_existing,
)
from tetradict.nn.utils import set_dispatch


def step(**options):
    return TensorDictModule(lambda x: x + 1, in_keys=["in"], out_keys=["out"], **options)


def data(**entries):
    return TensorDict({"in": torch.zeros(()), **entries})


@pytest.mark.parametrize("make", [step, lambda: TensorDictSequential(step())], ids=["module", "sequence"])
def test_what_is_there_is_passed_over_where_asked(make):
    module = make()
    assert module(data(out=torch.zeros(())))["out"] == 1
    with set_skip_existing(True):
        assert module(data(out=torch.zeros(())))["out"] == 0
        assert module(data())["out"] == 1
        with set_skip_existing(False):
            assert module(data(out=torch.zeros(())))["out"] == 1
    assert skip_existing() is False


def test_what_is_read_and_written_is_always_computed():
    module = TensorDictModule(lambda x: x + 1, in_keys=["a"], out_keys=["a"])
    with set_skip_existing(True):
        assert module(TensorDict(a=0))["a"] == 1


@pytest.mark.parametrize(("mode", "outside", "inside"), [(True, 0, 0), (False, 1, 1), (None, 1, 0)])
def test_a_forward_may_say_for_itself(mode, outside, inside):
    class Own(TensorDictModuleBase):
        in_keys, out_keys = ["in"], ["out"]

        @set_skip_existing(mode)
        def forward(self, tensordict):
            return tensordict.set("out", torch.ones(()))

    assert Own()(data(out=torch.zeros(())))["out"] == outside
    with set_skip_existing(True):
        assert Own()(data(out=torch.zeros(())))["out"] == inside


def test_none_is_no_mode_for_a_block():
    with (
        pytest.raises(RuntimeError, match="It seems that mode=None is used as a context"),
        set_skip_existing(None),
    ):
        pass


def test_a_setting_may_be_a_block_a_decorator_or_for_good():
    @set_composite_lp_aggregate(True)
    def inside():
        return composite_lp_aggregate()

    assert inside() and not composite_lp_aggregate()
    setting = set_composite_lp_aggregate(True)
    setting.set()
    assert composite_lp_aggregate()
    setting.unset()
    assert not composite_lp_aggregate() and setting.clone().mode is True


def test_calls_with_tensors_may_be_switched_off():
    with (
        set_dispatch(False),
        pytest.raises(TypeError, match="missing 1 required positional argument: 'tensordict'"),
    ):
        step()(torch.zeros(()))
    assert_close(step()(torch.zeros(())), torch.ones(()))
