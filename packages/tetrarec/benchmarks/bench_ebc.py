"""Collections and the table-batched module beside torchrec, fbgemm_gpu and F.embedding_bag; CPU, one thread.

python packages/tetrarec/benchmarks/bench_ebc.py [--rounds N] [--only PART_OF_A_CASE]

forward: lookup and pooling without gradients, from an unsynced batch; the floors are one F.embedding_bag over
all tables (ids made ready beforehand) and one a table. step: forward, backward and exact row-wise Adagrad;
the floor is one nn.EmbeddingBag a table with sparse gradients and torch.optim.Adagrad.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from timing import compare, facts, line, milliseconds, parser, peer, ratio
from torch import Tensor
from torch.testing import assert_close

import tetrarec
from tetrarec.optim import RowWiseAdagrad

Calls = dict[str, Callable[[], Any]]
RATE = 0.01


class Case(NamedTuple):
    """One shape of work."""

    tables: int
    dim: int
    batch: int
    pooling: int
    rows: int
    zipf: bool = False
    mean: bool = False
    weighted: bool = False

    @property
    def name(self) -> str:
        """In a few words."""
        words = f"{self.tables} tables x dim {self.dim} x batch {self.batch} x pooling {self.pooling}"
        return words + " zipf" * self.zipf + " mean" * self.mean + " weighted" * self.weighted


CASES = [
    Case(8, 16, 512, 1, 100_000),
    Case(8, 64, 2048, 10, 100_000),
    Case(8, 64, 2048, 10, 100_000, mean=True),
    Case(8, 64, 2048, 10, 100_000, weighted=True),
    Case(26, 128, 2048, 1, 50_000),
    Case(26, 64, 512, 20, 50_000, zipf=True),
    Case(8, 128, 8192, 5, 100_000, zipf=True),
    Case(26, 16, 8192, 2, 100_000),
]


class Data(NamedTuple):
    """A random batch of a case."""

    keys: list[str]
    values: Tensor
    lengths: Tensor
    offsets: Tensor
    weights: Tensor | None
    grad: Tensor


def draw(case: Case) -> Data:
    """Lengths are uniform up to twice the pooling; zipf ids are log-uniform."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 2 * case.pooling + 1, (case.tables * case.batch,), generator=generator)
    count = int(lengths.sum())
    if case.zipf:
        rank = case.rows ** torch.rand(count, generator=generator).clamp_min_(1e-9) - 1
        values = rank.long().clamp_(0, case.rows - 1) * 2654435761 % case.rows
    else:
        values = torch.randint(0, case.rows, (count,), generator=generator)
    weights = torch.rand(count, generator=generator) if case.weighted else None
    grad = torch.randn(case.batch, case.tables * case.dim, generator=generator)
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    return Data([f"f{i}" for i in range(case.tables)], values, lengths, offsets, weights, grad)


def modules(case: Case, library: Any, optimizer: Any) -> tuple[Any, Any]:
    """The plain and the fused collection of a library that has torchrec's paths."""
    configs, plain, fused = (
        peer(f"{library}.modules.{name}")
        for name in ("embedding_configs", "embedding_modules", "fused_embedding_modules")
    )
    tables = [
        configs.EmbeddingBagConfig(
            num_embeddings=case.rows,
            embedding_dim=case.dim,
            name=f"t{i}",
            feature_names=[f"f{i}"],
            pooling=configs.PoolingType.MEAN if case.mean else configs.PoolingType.SUM,
        )
        for i in range(case.tables)
    ]
    made = plain.EmbeddingBagCollection(tables=tables, is_weighted=case.weighted)
    return made, fused.FusedEmbeddingBagCollection(
        tables=tables, optimizer_type=optimizer, optimizer_kwargs={"lr": RATE}, is_weighted=case.weighted
    )


def ours_tbe(case: Case) -> Any:
    """Our table-batched module."""
    return tetrarec.TableBatchedEmbeddingBags(
        [(case.rows, case.dim)] * case.tables, pooling="mean" if case.mean else "sum", learning_rate=RATE
    )


def peer_tbe(case: Case) -> Any:
    """fbgemm_gpu's table-batched module."""
    training = peer("fbgemm_gpu.split_table_batched_embeddings_ops_training")
    common = peer("fbgemm_gpu.split_table_batched_embeddings_ops_common")
    spec = (case.rows, case.dim, common.EmbeddingLocation.HOST, training.ComputeDevice.CPU)
    return training.SplitTableBatchedEmbeddingBagsCodegen(
        [spec] * case.tables,
        optimizer=peer("fbgemm_gpu.split_embedding_configs").EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=RATE,
        pooling_mode=common.PoolingMode.MEAN if case.mean else common.PoolingMode.SUM,
        bounds_check_mode=common.BoundsCheckMode.NONE,
        device="cpu",
    )


def tables_of(module: Any) -> list[Tensor]:
    """The tables of any module, in order."""
    split = getattr(module, "split_embedding_weights", module.parameters)
    return [table.detach() for table in split()]


def share(source: Any, *others: Any) -> None:
    """Give all modules the weights of one."""
    for other in others:
        for table, weight in zip(tables_of(other), tables_of(source), strict=True):
            table.copy_(weight)


def step(call: Callable[[], Any], grad: Tensor) -> Callable[[], None]:
    """Forward and backward of a call."""

    def run() -> None:
        values(call()).backward(grad)

    return run


class Floor:
    """What bare torch does."""

    def __init__(self, case: Case, data: Data, weights: list[Tensor]) -> None:
        self.case, self.data = case, data
        bounds = data.offsets[:: case.batch].tolist()
        place = torch.arange(case.tables).repeat_interleave(data.offsets[:: case.batch].diff())
        self.ids = data.values + place * case.rows
        self.flat = torch.cat(weights)
        self.bags = torch.nn.ModuleList(
            torch.nn.EmbeddingBag(
                case.rows,
                case.dim,
                mode=self.mode,
                sparse=True,
                include_last_offset=True,
                _weight=weight.clone(),
            )
            for weight in weights
        )
        self.parts = [
            (
                data.values[begin:end],
                data.offsets[t * case.batch : (t + 1) * case.batch + 1] - begin,
                None if data.weights is None else data.weights[begin:end],
            )
            for t, (begin, end) in enumerate(itertools.pairwise(bounds))
        ]

    @property
    def mode(self) -> str:
        """How a bag is pooled."""
        return "mean" if self.case.mean else "sum"

    def one_call(self) -> Tensor:
        """One F.embedding_bag over all tables, laid out as [B, sum of dims]."""
        out = F.embedding_bag(
            self.ids,
            self.flat,
            self.data.offsets,
            mode=self.mode,
            per_sample_weights=self.data.weights,
            include_last_offset=True,
        )
        case = self.case
        return out.view(case.tables, case.batch, case.dim).transpose(0, 1).reshape(case.batch, -1)

    def call_a_table(self) -> Tensor:
        """One F.embedding_bag a table, joined."""
        return torch.cat([bag(*part) for bag, part in zip(self.bags, self.parts, strict=True)], 1)

    def stepper(self) -> Callable[[], None]:
        """Forward, backward and torch's Adagrad on sparse gradients."""
        optimizer = torch.optim.Adagrad(self.bags.parameters(), lr=RATE)

        def run() -> None:
            self.call_a_table().backward(self.data.grad)
            optimizer.step()
            optimizer.zero_grad()

        return run


class Contender(NamedTuple):
    """A module, and how it is called on the batch."""

    module: Any
    call: Callable[[], Any]


def contenders(case: Case, data: Data) -> dict[str, Contender]:
    """The modules of each library, on the same weights."""
    plain, fused = modules(case, "tetrarec", RowWiseAdagrad)
    tbe = ours_tbe(case)

    def batch() -> Any:
        return tetrarec.KeyedJaggedTensor(data.keys, data.values, data.weights, lengths=data.lengths)

    found = {
        "ebc": Contender(plain, lambda: plain(batch())),
        "fused": Contender(fused, lambda: fused(batch())),
        "tbe": Contender(tbe, lambda: tbe(data.values, data.offsets, data.weights)),
    }
    if peer("fbgemm_gpu"):
        other = peer_tbe(case)
        found["fbgemm tbe"] = Contender(other, lambda: other(data.values, data.offsets, data.weights))
    if peer("torchrec"):
        kind = peer("torchrec.sparse.jagged_tensor").KeyedJaggedTensor
        theirs = modules(case, "torchrec", peer("torchrec.optim.rowwise_adagrad").RowWiseAdagrad)
        fields = {"keys": data.keys, "values": data.values, "weights": data.weights, "lengths": data.lengths}
        found["torchrec ebc"] = Contender(theirs[0], lambda: theirs[0](kind(**fields)))
        found["torchrec fused"] = Contender(theirs[1], lambda: theirs[1](kind(**fields)))
    share(plain, *(contender.module for contender in found.values()))
    return found


def values(out: Any) -> Tensor:
    """The tensor of a result."""
    return out if isinstance(out, Tensor) else out.values()


def run(case: Case, rounds: int) -> None:
    """Forward, then the step; outputs and updated tables are compared before anything is timed."""
    data = draw(case)
    found = contenders(case, data)
    floor = Floor(case, data, tables_of(found["ebc"].module))
    forward: Calls = {name: contender.call for name, contender in found.items()}
    if not (case.mean and case.weighted):
        forward |= {"one F.embedding_bag": floor.one_call, "one a table": floor.call_a_table}
    with torch.no_grad():
        want = values(forward["ebc"]())
        for call in forward.values():
            assert_close(values(call()), want, rtol=1e-4, atol=1e-5)
        times = compare(forward, rounds)
    floors = [("ebc", "one F.embedding_bag"), ("ebc", "one a table"), ("ebc", "torchrec ebc")]
    peers = [("fused", "torchrec fused"), ("tbe", "fbgemm tbe")]
    report("forward", case, times, [*floors, *peers])
    updating = {name: contender for name, contender in found.items() if "ebc" not in name}
    steps = {name: step(contender.call, data.grad) for name, contender in updating.items()}
    for one in steps.values():
        one()
    want = torch.cat(tables_of(found["fused"].module))
    for contender in updating.values():
        assert_close(torch.cat(tables_of(contender.module)), want, rtol=1e-4, atol=1e-5)
    steps["one a table, sparse"] = floor.stepper()
    report("step", case, compare(steps, rounds), [*peers, ("tbe", "one a table, sparse")])


def report(row: str, case: Case, times: dict[str, list[float]], pairs: list[tuple[str, str]]) -> None:
    """One line of JSON."""
    ratios = {f"{a} / {b}": ratio(times, a, b) for a, b in pairs if b in times}
    print(line(row=row, case=case.name, ms=milliseconds(times), **ratios), flush=True)


def main() -> None:
    """Run all cases."""
    options = parser(__doc__, rounds=15).parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    versions = {}
    for name in ("torchrec", "fbgemm_gpu"):
        found = peer(name)
        versions[name] = getattr(found, "__version__", "installed") if found else "not installed: left out"
    print(line(row="facts", rounds=options.rounds, **facts(**versions)), flush=True)
    for case in CASES:
        if options.only in case.name:
            run(case, options.rounds)


if __name__ == "__main__":
    main()
