import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tetradict import TensorDict

from tetrarl.envs import step_mdp

FULL = {
    "obs": 0.0,
    "memory": 0.0,
    "action": 0.0,
    "reward": 0.0,
    "done": 0.0,
    "agents": {"action": 0.0, "memory": 0.0, "reward": 0.0},
    "next": {"obs": 1.0, "reward": 1.0, "done": 1.0, "agents": {"obs": 1.0, "reward": 1.0}},
}


def shown(td):
    return {".".join(key) if isinstance(key, tuple) else key: v.item() for key, v in td.items(True, True)}


def test_what_stood_under_next_moves_to_the_root():
    td = TensorDict(FULL)
    want = {
        "obs": 1,
        "memory": 0,
        "done": 1,
        "agents.obs": 1,
        "agents.reward": 1,
        "agents.action": 0,
        "agents.memory": 0,
    }
    assert shown(step_mdp(td)) == want
    assert shown(td) == shown(TensorDict(FULL))


@pytest.mark.parametrize(
    ("options", "gone", "added"),
    [
        ({"keep_other": False}, {"memory", "agents.action", "agents.memory"}, {}),
        ({"exclude_reward": False}, set(), {"reward": 1}),
        ({"exclude_done": True}, {"done"}, {}),
        ({"exclude_action": False}, set(), {"action": 0}),
        (
            {"keep_other": False, "exclude_action": False},
            {"memory", "agents.action", "agents.memory"},
            {"action": 0},
        ),
        ({"reward_keys": ["reward", ("agents", "reward")]}, {"agents.reward"}, {}),
        ({"action_keys": ["action", ("agents", "action")]}, {"agents.action"}, {}),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_options_choose_what_is_kept(options, gone, added):
    want = shown(step_mdp(TensorDict(FULL)))
    want = {key: value for key, value in want.items() if key not in gone} | added
    assert shown(step_mdp(TensorDict(FULL), **options)) == want


def test_a_nested_collection_that_loses_all_it_had_goes_too():
    td = TensorDict({"agents": {"action": 0.0}, "next": {"done": 1.0}})
    assert shown(step_mdp(td, action_keys=("agents", "action"))) == {"done": 1}
    assert list(step_mdp(td, action_keys=("agents", "action")).keys()) == ["done"]


@pytest.mark.parametrize("options", [{}, {"keep_other": False, "exclude_action": False}], ids=str)
def test_nested_collections_are_made_anew_with_their_own_batch_size(options):
    agents = TensorDict({"action": torch.zeros(2, 3, 1), "memory": torch.zeros(2, 3)}, [2, 3])
    after = TensorDict({"agents": TensorDict({"obs": torch.ones(2, 3)}, [2, 3])}, [2])
    td = TensorDict({"agents": agents, "next": after}, [2]).lock_()
    out = step_mdp(td, action_keys=("agents", "action"), **options)
    assert out["agents"].batch_size == (2, 3)
    assert out["agents"] is not td["agents"] and out["agents"] is not td["next", "agents"]
    out["agents", "new"] = torch.zeros(2, 3)
    assert ("agents", "new") not in td and ("agents", "new") not in td["next"]


def test_the_result_goes_into_the_collection_that_is_given():
    target = TensorDict({"other": 5.0})
    assert step_mdp(TensorDict(FULL), target) is target
    assert target["other"] == 5 and target["obs"] == 1 and target["agents", "obs"] == 1


@given(size=st.lists(st.integers(1, 3), max_size=2))
def test_batch_size_names_and_tensors_are_kept(size):
    entries = {"obs": torch.zeros(*size, 2), "next": TensorDict({"obs": torch.ones(*size, 2)}, size)}
    td = TensorDict(entries, size, names=[f"d{i}" for i in range(len(size))] or None)
    out = step_mdp(td)
    assert out.batch_size == td.batch_size and out.names == td.names
    assert out["obs"] is td["next", "obs"]


def test_a_collection_without_next_is_refused():
    with pytest.raises(KeyError, match=r"no 'next'.*env\.step adds it"):
        step_mdp(TensorDict({"obs": 0.0}))
