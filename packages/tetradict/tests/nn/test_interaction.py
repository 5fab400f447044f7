import pytest
import torch

from tetradict.nn import InteractionType, interaction_type, set_interaction_type


def test_the_type_holds_inside_the_block_and_returns_after_it():
    assert interaction_type() is None
    with set_interaction_type(InteractionType.MODE):
        with set_interaction_type("random"):
            assert interaction_type() is InteractionType.RANDOM
        assert interaction_type() is InteractionType.MODE
        with set_interaction_type(None):
            assert interaction_type() is None
    assert interaction_type() is None


def test_an_error_in_the_block_does_not_leave_the_type_behind():
    with pytest.raises(KeyError), set_interaction_type():
        assert interaction_type() is InteractionType.DETERMINISTIC
        raise KeyError
    assert interaction_type() is None


def test_it_decorates_a_function_that_calls_itself():
    @set_interaction_type("mean")
    def down(n):
        assert interaction_type() is InteractionType.MEAN
        return down(n - 1) if n else interaction_type()

    assert down(2) is InteractionType.MEAN
    assert interaction_type() is None


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'best' is not a valid.*one of 'mode', .*'deterministic'"):
        set_interaction_type("best")


def test_compiled_code_follows_a_change_from_outside():
    def f(x):
        return x + 1 if interaction_type() is InteractionType.MODE else x + 2

    compiled = torch.compile(f, backend="eager", fullgraph=True)
    x = torch.zeros(1)
    assert compiled(x) == 2
    with set_interaction_type("mode"):
        assert compiled(x) == 1
    assert compiled(x) == 2


def test_it_may_be_set_inside_compiled_code():
    def f(x):
        with set_interaction_type("mode"):
            inner = x + 1 if interaction_type() is InteractionType.MODE else x + 2
        return inner, x + 1 if interaction_type() is InteractionType.MODE else x + 2

    assert torch.compile(f, backend="eager", fullgraph=True)(torch.zeros(1)) == (1, 2)
