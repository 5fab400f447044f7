"""A function over the chunks of a collection, run by worker processes."""

import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch import multiprocessing as mp

from tetradict import _shape, _stack
from tetradict._entries import write
from tetradict._index import index
from tetradict._protocol import Container, real_dim

if TYPE_CHECKING:
    from multiprocessing.pool import Pool
else:
    Pool: TypeAlias = Any

C = TypeVar("C", bound=Container)
LOOK_S = 0.5  # how often a wait looks whether the workers still live
STOP_S = 10.0  # how long a pool may take to end


def map_(
    td: C,
    fn: Callable[[C], Any],
    dim: int = 0,
    num_workers: int | None = None,
    *,
    out: Container | None = None,
    chunksize: int | None = None,
    num_chunks: int | None = None,
    pool: Pool | None = None,
    generator: torch.Generator | None = None,
    max_tasks_per_child: int | None = None,
    worker_threads: int = 1,
    index_with_generator: bool = False,
    pbar: bool = False,
    mp_start_method: str | None = None,
) -> Any:
    """Apply ``fn`` to chunks of the collection in worker processes, and join what it returns, in order.

    Chunks of mapped and of shared tensors reach the workers without a copy.

    Args:
        td: the collection.
        fn: takes a chunk, returns a collection or a tensor, or ``None`` for a chunk that it drops; it must pickle.
        dim: the batch dimension to cut.
        num_workers: how many processes to start; as many as this process may use cores when not given.
        out: a collection of the joined size to write into; it is returned. One in shared memory or mapped from files
            is written by the workers themselves, so that no result travels.
        chunksize: items a chunk. 0 gives ``fn`` single items, without ``dim``, and stacks what it returns.
        num_chunks: how many chunks to make, instead of ``chunksize``; one for each worker when neither is given.
        pool: a ready ``multiprocessing`` pool, instead of ``num_workers``; it is left open.
        generator: where the seeds of the started workers come from; each has another.
        max_tasks_per_child: chunks after which a worker is replaced by a fresh one.
        worker_threads: torch threads of each started worker.
        index_with_generator: cut each chunk when its turn comes, rather than all at the start.
        pbar: show a progress bar, where there is a terminal.
        mp_start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``; Python's default when not given.

    Returns:
        What ``fn`` returned, joined along ``dim``; ``out`` where given; ``None`` when every chunk was dropped.

    Raises:
        RuntimeError: a worker process died.
        Exception: whatever ``fn`` raised, with the worker's traceback as its cause and the chunk in a note.

    Example:
        >>> data = TensorDict({"x": torch.zeros(6)}, [6])
        >>> data.map(torch.exp, num_workers=2, chunksize=3)["x"]
        tensor([1., 1., 1., 1., 1., 1.])
    """
    dim = real_dim(dim, td.batch_dims, "map")
    with _workers(
        pool, num_workers, generator, max_tasks_per_child, worker_threads, mp_start_method
    ) as workers:
        cuts = _cuts(td.batch_size[dim], chunksize, num_chunks, pool_workers(workers))
        chunks = (_chunk(td, dim, cut) for cut in cuts)
        if not index_with_generator:
            chunks = iter(_chunks(td, dim, cuts))
        remote = out is not None and (out.is_shared() or out.is_memmap())
        task: Callable[[Any], Any] = fn
        if remote:
            task, chunks = _IntoOut(fn), zip(chunks, _chunks(out, dim, cuts), strict=True)
        elif max_tasks_per_child is not None:
            task = _Packed(fn)
        ahead = max(len(cuts), 1) if not index_with_generator else 2 * pool_workers(workers)
        results = []
        for cut, result in zip(cuts, _ordered(workers, task, chunks, cuts, ahead, "map", pbar), strict=True):
            if out is not None and not remote:
                _put(_chunk(out, dim, cut), result)
            else:
                results.append(result)
    return out if out is not None else _joined(results, dim, single=chunksize == 0)


def map_iter(
    td: C,
    fn: Callable[[C], Any],
    dim: int = 0,
    num_workers: int | None = None,
    *,
    shuffle: bool = False,
    chunksize: int | None = None,
    num_chunks: int | None = None,
    pool: Pool | None = None,
    generator: torch.Generator | None = None,
    max_tasks_per_child: int | None = None,
    worker_threads: int = 1,
    index_with_generator: bool = True,
    pbar: bool = False,
    mp_start_method: str | None = None,
) -> Iterator[Any]:
    """What :func:`map_` would join, one result at a time and in order, while the workers go on.

    The workers are two chunks each ahead at most, so that any size of collection can be gone through. The other
    arguments are those of :func:`map_`.

    Args:
        td: the collection.
        fn: takes a chunk; ``None`` that it returns is passed over.
        dim: the batch dimension to cut.
        num_workers: how many processes to start.
        shuffle: draw the items of the chunks from all of ``td`` in random order, by ``generator``.
        chunksize: items a chunk; 0 for single items, without ``dim``.
        num_chunks: how many chunks to make.
        pool: a ready pool, instead of ``num_workers``.
        generator: where the order and the seeds of started workers come from.
        max_tasks_per_child: chunks after which a worker is replaced.
        worker_threads: torch threads of each started worker.
        index_with_generator: cut each chunk when its turn comes, rather than all at the start.
        pbar: show a progress bar, where there is a terminal.
        mp_start_method: how processes are started.
    """
    dim = real_dim(dim, td.batch_dims, "map_iter")
    if shuffle and not index_with_generator:
        raise ValueError(
            "map_iter: a shuffled order is cut as it goes; pass index_with_generator=True with shuffle"
        )
    _check_sizes(chunksize, num_chunks)

    def results() -> Iterator[Any]:
        with _workers(
            pool, num_workers, generator, max_tasks_per_child, worker_threads, mp_start_method
        ) as workers:
            size = td.batch_size[dim]
            cuts: Sequence[Any] = _cuts(size, chunksize, num_chunks, pool_workers(workers))
            if shuffle:
                order = torch.randperm(size, generator=generator)
                cuts = [order[cut] for cut in cuts]
            chunks = (_chunk(td, dim, cut) for cut in cuts)
            if not index_with_generator:
                chunks = iter(_chunks(td, dim, cuts))
            ahead = 2 * pool_workers(workers)
            task = fn if max_tasks_per_child is None else _Packed(fn)
            for result in _ordered(workers, task, chunks, cuts, ahead, "map_iter", pbar):
                if result is not None:
                    yield result

    return results()


# --- cutting and joining


def _check_sizes(chunksize: int | None, num_chunks: int | None) -> None:
    if chunksize is not None and num_chunks is not None:
        raise ValueError(
            f"map: give chunksize or num_chunks, but not both; got chunksize={chunksize}, num_chunks={num_chunks}"
        )
    if chunksize is not None and chunksize < 0:
        raise ValueError(f"map: chunksize must be 0 (single items) or more, got {chunksize}")
    if num_chunks is not None and num_chunks < 1:
        raise ValueError(f"map: num_chunks must be 1 or more, got {num_chunks}")


def _cuts(size: int, chunksize: int | None, num_chunks: int | None, workers: int) -> list[Any]:
    """The index of each chunk along the dimension: an int for single items, else a slice."""
    _check_sizes(chunksize, num_chunks)
    if chunksize == 0:
        return list(range(size))
    if chunksize is None:
        chunksize = max(-(-size // (num_chunks or workers)), 1)
    return [slice(start, min(start + chunksize, size)) for start in range(0, size, chunksize)] or [
        slice(0, 0)
    ]


def _chunk(td: C, dim: int, cut: Any) -> C:
    return index(td, (*(slice(None),) * dim, cut))


def _chunks(td: C, dim: int, cuts: Sequence[Any]) -> Sequence[C]:
    """Every chunk at once, which is cheaper than one at a time."""
    if cuts and isinstance(cuts[0], slice):
        return _shape.split(td, [cut.stop - cut.start for cut in cuts], dim)
    return _shape.unbind(td, dim)


def _joined(results: list[Any], dim: int, *, single: bool) -> Any:
    kept = [result for result in results if result is not None]
    if not kept:
        return None
    if isinstance(kept[0], Tensor):
        return torch.stack(kept, dim) if single else torch.cat(kept, dim)
    return _stack.stack(kept, dim) if single else _stack.cat(kept, dim)


class _IntoOut:
    """Runs the function and writes its result into the part of ``out`` that came with the chunk."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn = fn

    def __call__(self, task: tuple[Any, Any]) -> None:
        chunk, place = task
        _put(place, self.fn(chunk))


class _Packed:
    """Sends results as bytes: the memory that a worker shares cannot be taken over once the worker has ended."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn = fn

    def __call__(self, task: Any) -> bytes:
        return pickle.dumps(self.fn(task))


def _put(place: Container, result: Any) -> None:
    if isinstance(result, Container):
        write(place, result)
    elif result is not None:
        raise TypeError(
            f"map: with out, fn must return a collection (or None), got a {type(result).__name__}"
        )


# --- workers


@contextmanager
def _workers(
    pool: Pool | None,
    num_workers: int | None,
    generator: torch.Generator | None,
    max_tasks_per_child: int | None,
    worker_threads: int,
    mp_start_method: str | None,
) -> Iterator[Pool]:
    """The caller's pool, or one that lives as long as the block."""
    if pool is not None:
        if num_workers is not None:
            raise ValueError("map: give num_workers or a pool, which has its own; got both")
        yield pool
        return
    count = len(os.sched_getaffinity(0)) if num_workers is None else num_workers
    if count < 1:
        raise ValueError(f"map: num_workers must be 1 or more, got {num_workers}")
    context = mp.get_context(mp_start_method)
    seed = int(torch.empty((), dtype=torch.int64).random_(generator=generator))
    number = context.Value("q", 0)
    own = context.Pool(
        count, _start_worker, (seed, number, worker_threads), maxtasksperchild=max_tasks_per_child
    )
    try:
        yield own
    finally:
        _stop(own)


def _stop(pool: Pool) -> None:
    """End a pool; a worker that was killed while it held a queue's lock would make ``terminate`` wait for ever."""
    processes = processes_of(pool)
    ending = threading.Thread(target=_terminate, args=(pool,), daemon=True)
    ending.start()
    ending.join(STOP_S)
    for process in (*processes, *processes_of(pool)):
        if process.is_alive():
            process.kill()


def _terminate(pool: Pool) -> None:
    with suppress(AssertionError):  # Python's own, over a chunk that was lost with its worker
        pool.terminate()


def _start_worker(seed: int, number: Any, threads: int) -> None:
    with number.get_lock():
        mine, number.value = number.value, number.value + 1
    torch.set_num_threads(threads)
    torch.manual_seed((seed + mine) % 2**63)


def _ordered(
    pool: Pool,
    fn: Callable[[Any], Any],
    tasks: Iterable[Any],
    cuts: Sequence[Any],
    ahead: int,
    verb: str,
    pbar: bool,
) -> Iterator[Any]:
    """The result for each task in the order of the tasks, with at most ``ahead`` of them under way."""
    from tqdm.auto import tqdm  # noqa: PLC0415  (heavy, and of use to nobody who maps nothing)

    pending: deque[Any] = deque()
    workers = _Watch(pool)
    left = iter(tasks)
    with tqdm(total=len(cuts), desc=verb, unit="chunk", disable=None if pbar else True) as bar:
        for cut in cuts:
            while len(pending) < ahead and (task := next(left, None)) is not None:
                pending.append(pool.apply_async(fn, (task,)))
            try:
                result = workers.wait(pending.popleft(), verb)
            except Exception as error:
                error.add_note(f"{verb}: fn failed on the chunk {_where(cut)}")
                raise
            yield pickle.loads(result) if isinstance(fn, _Packed) else result
            bar.update()


def _where(cut: Any) -> str:
    if isinstance(cut, Tensor):
        return "of shuffled items"
    return f"[{cut.start}:{cut.stop}]" if isinstance(cut, slice) else f"[{cut}]"


class _Watch:
    """Waits for results without waiting for ever: the result of a process that was killed would never come."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.seen: dict[int, Any] = {}

    def wait(self, result: Any, verb: str) -> Any:
        self.look()
        while not result.ready():
            result.wait(LOOK_S)
            dead = next((p for p in self.look() if p.exitcode not in {0, None}), None)
            if dead is not None and not result.ready():
                raise RuntimeError(
                    f"{verb}: the worker process {dead.pid} ended with exit code {dead.exitcode} (a negative one is "
                    "the signal that killed it; -9 is often a lack of memory) and its chunk is lost; "
                    "try smaller chunks or fewer workers"
                )
            if not (result.ready() or receives(self.pool)):
                raise RuntimeError(
                    f"{verb}: a result could not be received; its worker may have ended before its tensors were taken"
                )
        return result.get()

    def look(self) -> list[Any]:
        """Every process that the pool has had since the first look: it replaces those that end."""
        self.seen.update({id(process): process for process in processes_of(self.pool)})
        return list(self.seen.values())


# a pool has no public way to tell what it consists of


def processes_of(pool: Pool) -> list[Any]:
    """The worker processes that a pool has at the moment."""
    return list(getattr(pool, "_pool", ()))


def receives(pool: Pool) -> bool:
    """Whether the thread that takes results lives: it ends, and says nothing, over one that it cannot read."""
    thread = getattr(pool, "_result_handler", None)
    return thread is None or thread.is_alive()


def pool_workers(pool: Pool) -> int:
    """How many workers a pool has."""
    return getattr(pool, "_processes", None) or 1
