"""The converter: every alignment lands in the same rows."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tetrarl.data.datasets import RawEpisode, split_flat, to_ted

ALIGNMENTS = ["T+1", "dm_env", "rlds", "flat"]
UNKNOWN = -7.0  # where an alignment has a row that means nothing


def played(length, seed=0, terminated_at_end=True):
    """One episode as its player saw it: T + 1 observations and T of all the rest."""
    random = np.random.default_rng(seed)
    ends = np.zeros(length, bool)
    if length:
        ends[-1] = True
    return {
        "observation": random.normal(size=(length + 1, 3)),
        "action": random.integers(5, size=(length, 2)),
        "reward": random.normal(size=length),
        "terminated": ends & terminated_at_end,
        "truncated": ends & (not terminated_at_end),
    }


def recorded(play, alignment):
    """The same episode as a source of this alignment writes it: which row holds what, spelled out."""
    length = len(play["reward"])
    if alignment == "T+1":
        return RawEpisode("T+1", **play)
    if alignment == "flat":
        return RawEpisode(
            "flat",
            **{**play, "observation": play["observation"][:-1]},
            next_observation=play["observation"][1:],
        )
    columns = {name: [] for name in ("action", "reward", "terminated", "truncated")}
    for row in range(length + 1):
        move = {"dm_env": row - 1, "rlds": row}[alignment]
        for name in ("action", "reward"):
            void = np.full(play[name].shape[1:], UNKNOWN, play[name].dtype)
            columns[name].append(play[name][move] if 0 <= move < length else void)
        for name in ("terminated", "truncated"):  # of the observation in this row
            columns[name].append(play[name][row - 1] if row else False)
    return RawEpisode(
        alignment, play["observation"], **{name: np.array(rows) for name, rows in columns.items()}
    )


@pytest.mark.smoke
@given(length=st.integers(1, 7), seed=st.integers(0, 99), terminated=st.booleans())
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_every_alignment_gives_the_transitions_that_were_played(alignment, length, seed, terminated):
    play = played(length, seed, terminated)
    ted = to_ted(recorded(play, alignment))
    assert ted.batch_size == torch.Size([length])
    np.testing.assert_array_equal(ted["observation"].numpy(), play["observation"][:-1])
    np.testing.assert_array_equal(ted["next", "observation"].numpy(), play["observation"][1:])
    np.testing.assert_array_equal(ted["action"].numpy(), play["action"])
    np.testing.assert_array_equal(ted["next", "reward"].numpy()[:, 0], play["reward"])
    for flag in ("terminated", "truncated"):
        np.testing.assert_array_equal(ted["next", flag].numpy()[:, 0], play[flag])


@given(length=st.integers(1, 7), seed=st.integers(0, 99), kept=st.booleans())
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_the_rules_of_the_format_hold(alignment, length, seed, kept):
    play = played(length, seed)
    if not kept:
        play["terminated"][:] = False
    ted = to_ted(recorded(play, alignment))
    for flag in ("done", "terminated", "truncated"):
        assert ted[flag].shape == ted["next", flag].shape == (length, 1)
        assert ted[flag].dtype == ted["next", flag].dtype == torch.bool
        assert not ted[flag].any()
    assert torch.equal(ted["next", "done"], ted["next", "terminated"] | ted["next", "truncated"])
    assert torch.equal(ted["next", "observation"][:-1], ted["observation"][1:])
    assert ted["next", "done"].flatten().tolist() == [False] * (length - 1) + [True]
    assert ted["next", "reward"].dtype == torch.float64
    assert ted["episode"].tolist() == [0] * length


@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=6), closed=st.booleans(), known=st.booleans())
def test_flat_columns_are_cut_at_their_flags_and_lose_no_row(lengths, closed, known):
    plays = [played(length, seed, seed % 2 == 0) for seed, length in enumerate(lengths)]
    if not closed:
        plays[-1]["terminated"][:] = plays[-1]["truncated"][:] = False
    columns = {
        name: np.concatenate([play[name] for play in plays])
        for name in ("action", "reward", "terminated", "truncated")
    }
    columns["observation"] = np.concatenate([play["observation"][:-1] for play in plays])
    if known:
        columns["next_observation"] = np.concatenate([play["observation"][1:] for play in plays])
    episodes = [to_ted(episode) for episode in split_flat(RawEpisode("flat", **columns))]
    assert [len(episode) for episode in episodes] == lengths
    assert [int(episode["episode"][0]) for episode in episodes] == list(range(len(lengths)))
    for ted, play in zip(episodes, plays, strict=True):
        np.testing.assert_array_equal(ted["next", "reward"].numpy()[:, 0], play["reward"])
        np.testing.assert_array_equal(ted["observation"].numpy(), play["observation"][:-1])
        last = ted["next", "observation"][-1].numpy()
        np.testing.assert_array_equal(last, play["observation"][-1] if known else np.zeros(3))
        assert ted["next", "terminated"].flatten().tolist() == play["terminated"].tolist()
        assert bool(ted["next", "done"][-1])


def test_a_d4rl_timeout_is_truncated_and_nothing_crosses_it():  # Farama D4RL issues 145 and 31
    rows = 6
    flat = RawEpisode(
        "flat",
        observation=np.arange(rows, dtype=np.float32)[:, None] + 1,
        action=np.zeros((rows, 1), np.float32),
        reward=np.arange(rows, dtype=np.float32),
        terminated=np.array([0, 0, 0, 0, 0, 1], bool),
        truncated=np.array([0, 0, 1, 0, 0, 0], bool),
    )
    data = torch.cat([to_ted(episode) for episode in split_flat(flat)])
    done, terminated, truncated = (
        data["next", flag].flatten().tolist() for flag in ("done", "terminated", "truncated")
    )
    assert done == [False, False, True, False, False, True]
    assert terminated == [False, False, False, False, False, True]
    assert truncated == [False, False, True, False, False, False]
    assert data["next", "observation"].flatten().tolist() == [2, 3, 0, 5, 6, 0]
    assert not data["done"].any()
    assert data["next", "reward"].flatten().tolist() == [0, 1, 2, 3, 4, 5]


def test_a_dm_env_row_is_the_result_of_the_move_before_it():  # conglu1997/v-d4rl issue 13, pytorch/rl issue 1833
    got = []
    for e in range(2):
        image = (
            np.zeros((4, 8, 8, 3), np.uint8) + (10 * e + np.arange(4, dtype=np.uint8))[:, None, None, None]
        )
        ted = to_ted(
            RawEpisode(
                "dm_env",
                observation={"pixels": image},
                action=np.stack([np.full(2, 100 * e + t, np.float32) for t in range(4)]),
                reward=np.array([0, 1, 2, 3], np.float64) + 10 * e,
                terminated=np.zeros(4, bool),
                number=e,
            )
        )
        pixels, after = ted["observation", "pixels"], ted["next", "observation", "pixels"]
        reward, done = ted["next", "reward"], ted["next", "done"]
        got += [
            (
                int(pixels[i].max()),
                float(ted["action"][i, 0]),
                float(reward[i]),
                int(after[i].max()),
                bool(done[i]),
            )
            for i in range(len(ted))
        ]
    assert got == [
        (0, 1, 1, 1, False), (1, 2, 2, 2, False), (2, 3, 3, 3, True),
        (10, 101, 11, 11, False), (11, 102, 12, 12, False), (12, 103, 13, 13, True),
    ]  # fmt: skip


def test_an_rlds_episode_drops_the_void_move_of_its_last_step():
    ted = to_ted(
        RawEpisode(
            "rlds",
            observation=np.arange(4.0),
            action=np.array([1, 2, 3, UNKNOWN]),
            reward=np.array([1, 2, 3, UNKNOWN]),
            terminated=np.array([False, False, False, True]),
        )
    )
    assert ted["action"].tolist() == [1, 2, 3]
    assert ted["next", "reward"].flatten().tolist() == [1, 2, 3]
    assert ted["next", "terminated"].flatten().tolist() == [False, False, True]


def test_infos_as_many_as_observations_go_with_them():
    play = played(3)
    ted = to_ted(RawEpisode("T+1", **play, info={"x": np.arange(4), "deep": {"y": np.arange(4) * 10}}))
    assert ted["info", "x"].tolist() == [0, 1, 2]
    assert ted["next", "info", "x"].tolist() == [1, 2, 3]
    assert ted["next", "info", "deep", "y"].tolist() == [10, 20, 30]


def test_infos_one_fewer_lack_the_first():
    ted = to_ted(RawEpisode("T+1", **played(3), info={"x": np.array([1, 2, 3])}))
    assert ted["info", "x"].tolist() == [0, 1, 2]
    assert ted["next", "info", "x"].tolist() == [1, 2, 3]


def test_an_episode_without_its_last_observation_keeps_the_row_done_and_zero():
    play = played(3)
    seen = play.pop("observation")[:-1]
    ted = to_ted(RawEpisode("T+1", seen, **play))
    assert len(ted) == 3
    assert not ted["next", "observation"][2].any()
    assert bool(ted["next", "done"][2])
    np.testing.assert_array_equal(ted["next", "observation"][:2].numpy(), seen[1:])


def test_an_unfinished_episode_is_truncated_at_its_last_row():
    play = played(3)
    play["terminated"][:] = False
    ted = to_ted(RawEpisode("T+1", **play))
    assert ted["next", "truncated"].flatten().tolist() == [False, False, True]
    assert not ted["next", "terminated"].any()


def test_a_flag_in_the_middle_of_an_episode_stays():
    play = played(3)
    play["truncated"][0] = True
    ted = to_ted(RawEpisode("T+1", **play))
    assert ted["next", "done"].flatten().tolist() == [True, False, True]


def test_big_endian_rows_and_integer_flags_are_taken():
    play = played(2)
    play["observation"] = play["observation"].astype(">f4")
    play["terminated"] = play["terminated"].astype(np.uint8)[:, None]
    ted = to_ted(RawEpisode("T+1", **play))
    assert ted["observation"].dtype == torch.float32
    np.testing.assert_array_equal(ted["observation"].numpy(), play["observation"][:-1])


def test_the_converted_rows_do_not_share_memory_with_the_source():
    play = played(2)
    ted = to_ted(RawEpisode("T+1", **play))
    play["observation"][:] = 0
    assert ted["observation"].any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action": np.zeros((2, 2))}, r"ep 4: action has 2 rows, expected 3 \(alignment T\+1"),
        ({"observation": np.zeros((5, 3))}, r"ep 4: observation has 5 rows, expected 3 or 4"),
        ({"observation": {"a": np.zeros((4, 1)), "b": np.zeros((2, 1))}}, r"observation/b has 2 rows"),
        ({"terminated": np.zeros(2)}, r"terminated has 2 rows, expected 3"),
        ({"terminated": np.array([0, 0, 2])}, r"terminated must hold 0 and 1 alone"),
        ({"truncated": np.zeros((3, 2))}, r"one flag a row, got shape \(3, 2\)"),
        ({"info": {"x": np.zeros(7)}}, r"info/x has 7 rows.*infos=False"),
        ({"info": {"x": np.float64(0)}}, r"info/x is a single value.*infos=False"),
        ({"action": np.array(["a", "b", "c"])}, r"action has dtype <U1, which torch can't hold"),
        ({"alignment": "T"}, r"unknown alignment 'T'; one of"),
        ({"next_observation": np.zeros((3, 3))}, r"next_observation goes with alignment 'flat'"),
    ],
)
def test_a_column_that_does_not_fit_is_named(change, message):
    columns = {"alignment": "T+1", **played(3), **change}
    with pytest.raises(ValueError, match=message):
        to_ted(RawEpisode(**columns, where="ep 4"))


def test_splitting_refuses_what_is_not_flat_or_not_equally_long():
    with pytest.raises(ValueError, match=r"alignment must be 'flat', got 'T\+1'"):
        next(split_flat(RawEpisode("T+1", **played(2))))
    with pytest.raises(ValueError, match=r"terminated has 3 rows, the reward 2"):
        next(split_flat(RawEpisode("flat", **{**played(2), "terminated": np.zeros(3)})))
