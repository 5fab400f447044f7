import pytest
import torch
from tetradict import TensorDict

from tetrarl.data import Bounded, Composite, Unbounded
from tetrarl.envs import EnvBase, GymEnv
from tetrarl.envs.utils import check_env_specs


class Line(EnvBase):
    """Right as it is; a test overrides what is to be wrong."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(x=Bounded(-9, 9, (1,)))
        self.action_spec = Bounded(0, 1, (1,))

    def _reset(self, tensordict=None):
        return TensorDict(self.first())

    def _step(self, tensordict):
        return TensorDict({
            **self.later(tensordict["x"]),
            "reward": torch.ones(1),
            "done": torch.zeros(1).bool(),
        })

    def _set_seed(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def first(self):
        return {"x": torch.zeros(1)}

    def later(self, x):
        return {"x": x + 1}


def wrong(**methods):
    return type("Wrong", (Line,), methods)()


def test_an_environment_that_keeps_its_word_passes():
    check_env_specs(Line())
    check_env_specs(GymEnv("CartPole-v1"), seed=0)


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (
            {"first": lambda self: {"y": torch.zeros(1), "x": torch.zeros(1)}},
            r"'y' is in the data, but not in the specs",
        ),
        ({"later": lambda self, x: {}}, r"\('next', 'x'\) is in the specs, but not in the data"),
        (
            {"later": lambda self, x: {"x": x.double()}},
            r"has dtype torch.float64, by its spec it is torch.float32",
        ),
        ({"later": lambda self, x: {"x": x.expand(2)}}, r"has shape torch.Size\(\[2\]\), by its spec it is"),
        ({"later": lambda self, x: {"x": x + 50}}, r"\('next', 'x'\) is not in its spec Bounded"),
        (
            {"step_mdp": lambda self, td: super(Line, self).step_mdp(td).set("x", torch.ones(1) * 5)},
            "'x' of the next root",
        ),
    ],
    ids=["extra", "lacking", "dtype", "shape", "range", "chain"],
)
def test_every_kind_of_fault_is_named(methods, words):
    with pytest.raises(AssertionError, match=words):
        check_env_specs(wrong(**methods))


def test_all_faults_are_told_together():
    env = wrong(later=lambda self, x: {"x": x.double() + 50, "z": x})
    with pytest.raises(AssertionError) as error:
        check_env_specs(env)
    assert str(error.value).count("\n  ") >= 3


def test_dtypes_and_ranges_may_be_left_out():
    check_env_specs(wrong(later=lambda self, x: {"x": (x + 50).double()}), check_dtype=False)


def test_a_seed_leaves_the_state_of_torch_as_it_was():
    before = torch.random.get_rng_state()
    check_env_specs(Line(), seed=3)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_flag_at_the_root_is_a_fault():
    class Over(Line):
        def __init__(self):
            super().__init__()
            self.allow_done_after_reset = True

        def first(self):
            return {"x": torch.zeros(1), "done": torch.ones(1).bool()}

    with pytest.raises(AssertionError, match="'done' is set at the root"):
        check_env_specs(Over())


def test_a_spec_that_is_not_followed_on_another_batch_is_named():
    env = Line()
    env.reward_spec = Unbounded((2,))
    with pytest.raises(AssertionError, match=r"\('next', 'reward'\) has shape"):
        check_env_specs(env)
