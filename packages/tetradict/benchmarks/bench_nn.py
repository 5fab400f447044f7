"""What a module of entries costs beside the peer, and beside calls of the modules it wraps.

python packages/tetradict/benchmarks/bench_nn.py [--rounds N] [--only TEXT]
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from timing import compare, facts, line, parser, peer
from torch import nn
from torch.func import functional_call

import tetradict
import tetradict.nn  # noqa: F401  (not loaded by tetradict itself)


def cases(library: Any) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """The name of each case, the call with ``library``, and the floor."""
    torch.manual_seed(0)
    kit, make = library.nn, library.TensorDict
    layers = [nn.Linear(4, 4) for _ in range(3)]
    x = torch.randn(8, 4)
    td = make({f"x{i}": x for i in range(4)}, [8])
    steps = [kit.TensorDictModule(layer, [f"x{i}"], [f"x{i + 1}"]) for i, layer in enumerate(layers)]
    chain = kit.TensorDictSequential(*steps)
    yield "module", lambda: steps[0](td)["x1"], lambda: layers[0](x)
    yield "sequential of 3", lambda: chain(td)["x3"], lambda: layers[2](layers[1](layers[0](x)))
    yield "module, tensors", lambda: steps[0](x0=x), lambda: layers[0](x)
    normal = torch.distributions.Normal
    draw = kit.ProbabilisticTensorDictModule(
        ["loc"], ["y"], distribution_class=normal, distribution_kwargs={"scale": 1.0}, return_log_prob=True
    )
    data = make({"loc": x}, [8])

    def plain() -> torch.Tensor:
        dist = normal(loc=x, scale=1.0)
        return dist.log_prob(dist.mean)

    yield "probabilistic", lambda: draw(data)["y_log_prob"], plain
    net = nn.Sequential(*layers)
    weights = make.from_module(net)
    named = dict(net.named_parameters())

    def swapped() -> torch.Tensor:
        with weights.to_module(net):
            return net(x)

    yield "to_module", swapped, lambda: functional_call(net, named, x)


def main() -> None:
    """Time every case and print a line of JSON for each."""
    args = parser(__doc__, 30).parse_args()
    other = peer("tensordict")
    if other is not None:
        import tensordict.nn  # noqa: F401, PLC0415  (where it is installed)
    print(line(**facts(other)))
    theirs = {name: call for name, call, _ in cases(other)} if other is not None else {}
    for name, ours, floor in cases(tetradict):
        if args.only in name:
            calls = {"ours": ours, "floor": floor} | ({"peer": theirs[name]} if name in theirs else {})
            with torch.no_grad():
                torch.testing.assert_close(ours(), floor())
                print(line(case=name, **compare(calls, args.rounds)))


if __name__ == "__main__":
    main()
