"""Worker processes: results in order, errors with their tracebacks, and no wait without an end."""

import os
import signal

import pytest
import torch
from torch import multiprocessing as mp
from torch.testing import assert_close

from tetradict import TensorDict


def collection(rows=7):
    return TensorDict({"x": torch.arange(rows * 3.0).view(rows, 3), "n": {"y": torch.arange(rows)}}, [rows])


def plus_one(td):
    return td + 1


def rows_of(td):
    return td["x"].sum(-1)


def odd_chunks(td):
    return td if int(td["n", "y"][0]) % 2 else None


def fails_late(td):
    if 4 in td["n", "y"].tolist():
        raise ValueError("the fourth row")
    return td


def dies(td):
    if 4 in td["n", "y"].tolist():
        os.kill(os.getpid(), signal.SIGKILL)
    return td


def draws(td):
    return td.clone().update({"seed": torch.full(td.batch_size, torch.initial_seed() % 2**31)})


def threads(td):
    return torch.full(td.batch_size, torch.get_num_threads())


def no_dim(td):
    assert td.batch_dims == 0
    return td


@pytest.fixture(scope="module")
def pool():
    with mp.get_context("fork").Pool(2) as pool:
        yield pool


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"chunksize": 3}, {"num_chunks": 5}, {"chunksize": 0}, {"chunksize": 99}]
)
def test_results_are_joined_in_the_order_of_the_rows(pool, options, lazily):
    td = collection()
    out = td.map(plus_one, pool=pool, index_with_generator=lazily, **options)
    assert out.batch_size == td.batch_size
    assert (out == td + 1).all()


def test_tensors_are_joined_too(pool):
    td = collection()
    assert_close(td.map(rows_of, pool=pool, chunksize=2), td["x"].sum(-1))


def test_any_batch_dimension_can_be_cut(pool):
    td = TensorDict({"x": torch.rand(2, 5, 3)}, [2, 5])
    for dim in (0, 1, -1):
        assert_close(td.map(plus_one, dim, pool=pool, chunksize=2)["x"], td["x"] + 1)
    with pytest.raises(IndexError, match="map: dim"):
        td.map(plus_one, 2, pool=pool)


def test_chunks_for_which_none_comes_back_are_dropped(pool):
    td = collection(6)
    assert td.map(odd_chunks, pool=pool, chunksize=1)["n", "y"].tolist() == [1, 3, 5]
    assert td[::2].map(odd_chunks, pool=pool, chunksize=1) is None


def test_single_items_have_no_batch_dimension(pool):
    assert collection().map(no_dim, pool=pool, chunksize=0).batch_size == (7,)


def test_no_rows_at_all(pool):
    assert collection(0).map(plus_one, pool=pool)["x"].shape == (0, 3)


@pytest.mark.parametrize("kind", ["plain", "shared", "mapped"])
def test_out_is_written_and_returned(pool, kind, tmp_path):
    td = collection()
    out = TensorDict({"x": torch.zeros(7, 3), "n": {"y": torch.zeros(7, dtype=torch.int64)}}, [7])
    if kind == "shared":
        out.share_memory_()
    elif kind == "mapped":
        out = out.memmap(tmp_path / "out")
    assert td.map(plus_one, pool=pool, chunksize=2, out=out) is out
    assert (out == td + 1).all()
    if kind == "mapped":
        assert (TensorDict.load_memmap(tmp_path / "out") == td + 1).all()


def test_an_error_of_fn_comes_back_with_the_workers_traceback(pool):
    with pytest.raises(ValueError, match="the fourth row") as caught:
        collection().map(fails_late, pool=pool, chunksize=2)
    assert "in fails_late" in str(caught.value.__cause__)
    assert any("[4:6]" in note for note in caught.value.__notes__)


def test_a_function_that_cannot_be_sent_is_an_error(pool):
    with pytest.raises(Exception, match=r"pickle|local object"):
        collection().map(lambda td: td, pool=pool)
    assert (collection().map(plus_one, pool=pool) == collection() + 1).all()  # the pool still works


def test_a_worker_that_was_killed_is_noticed():
    with pytest.raises(RuntimeError, match="exit code -9"):
        collection().map(dies, num_workers=2, chunksize=1, mp_start_method="fork")


def test_iteration_gives_one_result_after_the_other(pool):
    td = collection()
    got = list(td.map_iter(plus_one, pool=pool, chunksize=2))
    assert [part.batch_size[0] for part in got] == [2, 2, 2, 1]
    assert (torch.cat(got) == td + 1).all()
    assert len(list(td.map_iter(plus_one, pool=pool, chunksize=0))) == 7
    assert len(list(td.map_iter(odd_chunks, pool=pool, chunksize=1))) == 3


def test_iteration_works_a_bounded_number_of_chunks_ahead():
    taken = []

    class Pool:  # runs at once what it is given
        _processes = 2

        def apply_async(self, fn, arguments):
            taken.append(arguments)
            return Ready(fn(*arguments))

    class Ready:
        def __init__(self, value):
            self.get = lambda: value

        def ready(self):
            return True

    results = collection(100).map_iter(plus_one, pool=Pool(), chunksize=1)
    next(results)
    assert len(taken) == 4


def test_a_shuffled_iteration_gives_every_row_once_and_follows_the_generator(pool):
    td = collection(20)

    def order(seed):
        generator = torch.Generator().manual_seed(seed)
        parts = td.map_iter(plus_one, pool=pool, chunksize=3, shuffle=True, generator=generator)
        return torch.cat([part["n", "y"] for part in parts]).tolist()

    assert sorted(order(0)) == list(range(1, 21))
    assert order(0) == order(0) != order(1)
    with pytest.raises(ValueError, match="index_with_generator"):
        td.map_iter(plus_one, pool=pool, shuffle=True, index_with_generator=False)


def test_started_workers_have_seeds_of_their_own_and_few_threads():
    td = TensorDict({"x": torch.zeros(8)}, [8])
    generator = torch.Generator().manual_seed(3)
    options = {"num_workers": 2, "chunksize": 1, "mp_start_method": "fork", "max_tasks_per_child": 1}
    seeds = td.map(draws, generator=generator, **options)["seed"].tolist()
    assert len(set(seeds)) == 8  # each chunk has a fresh worker here
    assert td.map(threads, num_workers=1, mp_start_method="fork").tolist() == [1] * 8


def test_options_that_do_not_go_together_are_refused(pool):
    td = collection()
    with pytest.raises(ValueError, match="but not both"):
        td.map(plus_one, pool=pool, chunksize=2, num_chunks=2)
    with pytest.raises(ValueError, match="chunksize must be"):
        td.map(plus_one, pool=pool, chunksize=-1)
    with pytest.raises(ValueError, match="num_chunks must be"):
        td.map_iter(plus_one, pool=pool, num_chunks=0)
    with pytest.raises(ValueError, match="got both"):
        td.map(plus_one, pool=pool, num_workers=2)
    with pytest.raises(ValueError, match="num_workers must be"):
        td.map(plus_one, num_workers=0)


def test_started_processes_may_be_spawned():
    td = collection()
    assert_close(td.map(torch.exp, num_workers=1, mp_start_method="spawn")["x"], td["x"].exp())
