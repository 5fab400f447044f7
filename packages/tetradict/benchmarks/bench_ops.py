"""What an operation on a collection costs beside the peer, and beside the plain-dict code that makes the same tensors.

python packages/tetradict/benchmarks/bench_ops.py [--rounds N] [--only TEXT]
"""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import torch
from timing import compare, facts, line, parser, peer
from torch import Tensor
from torch.utils import _pytree as pytree  # noqa: PLC2701  (the registry that compile and vmap use)

import tetradict

B = 32  # rows


def tree_map(function: Callable[[Tensor], Any], source: dict[str, Any]) -> dict[str, Any]:
    """The floor of every leaf-wise verb."""
    return {k: tree_map(function, v) if isinstance(v, dict) else function(v) for k, v in source.items()}


def checked(source: dict[str, Any], rows: int) -> dict[str, Any]:
    """A copy of nested dicts whose rows were counted: the floor of construction."""
    out = {}
    for key, value in source.items():
        if isinstance(value, dict):
            out[key] = checked(value, rows)
        else:
            if value.shape[0] != rows:
                raise RuntimeError(key)
            out[key] = value
    return out


def rows_of(source: dict[str, Any], cut: Callable[[Tensor], Any]) -> list[dict[str, Any]]:
    """The floor of unbind and split: columns turned into rows."""
    columns = {k: rows_of(v, cut) if isinstance(v, dict) else cut(v) for k, v in source.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def joined(sources: list[dict[str, Any]], join: Callable[[list[Tensor]], Tensor]) -> dict[str, Any]:
    """The floor of stack and cat."""
    return {
        k: joined([s[k] for s in sources], join) if isinstance(v, dict) else join([s[k] for s in sources])
        for k, v in sources[0].items()
    }


def paths(source: dict[str, Any], path: tuple[str, ...] = ()) -> list[Any]:
    """Nested keys of plain dicts."""
    out: list[Any] = []
    for key, value in source.items():
        out += paths(value, (*path, key)) if isinstance(value, dict) else [(*path, key) if path else key]
    return out


def cases(kind: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Each case for one library: the operation, and its floor."""
    flat = {"a": torch.randn(B, 4), "b": torch.randn(B, 8), "c": torch.zeros(B, 1)}
    nest = {
        "obs": {"pixels": torch.randn(B, 3, 4, 4), "state": torch.randn(B, 17)},
        "action": torch.randn(B, 6),
        "next": {
            "obs": {"state": torch.randn(B, 17)},
            "reward": torch.randn(B, 1),
            "done": torch.zeros(B, 1) > 0,
        },
    }
    wide = {f"k{i}": torch.randn(B, 2) for i in range(64)}
    td, tn, tw = kind(flat, [B]), kind(nest, [B]), kind(wide, [B])
    mask, index = torch.arange(B) % 2 == 0, torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
    ten, ten_d = [td.clone() for _ in range(10)], [dict(flat) for _ in range(10)]
    nten, nten_d = [tn.clone() for _ in range(10)], [nest for _ in range(10)]
    target, plain, a = kind(flat, [B]), dict(flat), flat["a"]
    text, text_d = kind({"a": a, "s": "text"}, [B]), {"a": a, "s": "text"}
    return {
        "construct flat 3": (lambda: kind(flat, [B]), lambda: checked(flat, B)),
        "construct flat 64": (lambda: kind(wide, [B]), lambda: checked(wide, B)),
        "construct nested": (lambda: kind(nest, [B]), lambda: checked(nest, B)),
        "construct with text": (lambda: kind(text_d, [B]), lambda: dict(text_d)),
        "get": (lambda: td["a"], lambda: flat["a"]),
        "get method": (lambda: td.get("a"), lambda: flat.get("a")),
        "get nested": (lambda: tn["next", "obs", "state"], lambda: nest["next"]["obs"]["state"]),
        "get text": (lambda: text["s"], lambda: text_d["s"]),
        "contains nested": (lambda: ("next", "reward") in tn, lambda: "reward" in nest["next"]),
        "set": (lambda: target.set("a", a), lambda: plain.__setitem__("a", a)),
        "set item": (lambda: target.__setitem__("a", a), lambda: plain.__setitem__("a", a)),
        "set text": (lambda: text.set("s", "text"), lambda: text_d.__setitem__("s", "text")),
        "update": (lambda: target.update(td), lambda: plain.update(flat)),
        "index int": (lambda: td[0], lambda: {k: v[0] for k, v in flat.items()}),
        "index int nested": (lambda: tn[0], lambda: tree_map(lambda v: v[0], nest)),
        "index slice": (lambda: td[2:9], lambda: {k: v[2:9] for k, v in flat.items()}),
        "index mask": (lambda: td[mask], lambda: {k: v[mask] for k, v in flat.items()}),
        "index tensor": (lambda: td[index], lambda: {k: v[index] for k, v in flat.items()}),
        "unbind": (lambda: td.unbind(0), lambda: rows_of(flat, lambda v: v.unbind(0))),
        "unbind nested": (lambda: tn.unbind(0), lambda: rows_of(nest, lambda v: v.unbind(0))),
        "split": (lambda: td.split(8), lambda: rows_of(flat, lambda v: v.split(8))),
        "split nested": (lambda: tn.split(8), lambda: rows_of(nest, lambda v: v.split(8))),
        "stack 10": (lambda: torch.stack(ten), lambda: joined(ten_d, torch.stack)),
        "stack 10 nested": (lambda: torch.stack(nten), lambda: joined(nten_d, torch.stack)),
        "cat 10": (lambda: torch.cat(ten), lambda: joined(ten_d, torch.cat)),
        "clone": (lambda: tn.clone(), lambda: tree_map(torch.clone, nest)),
        "to dtype": (lambda: td.to(torch.float64), lambda: tree_map(lambda v: v.to(torch.float64), flat)),
        "apply": (lambda: td.apply(torch.neg), lambda: tree_map(torch.neg, flat)),
        "apply nested": (lambda: tn.apply(torch.clone), lambda: tree_map(torch.clone, nest)),
        "add number": (lambda: td + 1, lambda: tree_map(lambda v: v + 1, flat)),
        "add number 64": (lambda: tw + 1, lambda: tree_map(lambda v: v + 1, wide)),
        "mul": (lambda: td * td, lambda: {k: v * flat[k] for k, v in flat.items()}),
        "keys nested": (lambda: list(tn.keys(True, True)), lambda: paths(nest)),
        "select": (lambda: td.select("a", "b"), lambda: {k: flat[k] for k in ("a", "b")}),
        "exclude": (lambda: td.exclude("c"), lambda: {k: v for k, v in flat.items() if k != "c"}),
        "view": (lambda: td.view(4, 8), lambda: {k: v.view(4, 8, *v.shape[1:]) for k, v in flat.items()}),
        "unsqueeze": (lambda: td.unsqueeze(0), lambda: {k: v.unsqueeze(0) for k, v in flat.items()}),
        "expand": (lambda: td.expand(2, B), lambda: {k: v.expand(2, *v.shape) for k, v in flat.items()}),
        "pickle": (lambda: pickle.loads(pickle.dumps(td)), lambda: pickle.loads(pickle.dumps(flat))),
        "deepcopy": (lambda: copy.deepcopy(td), lambda: copy.deepcopy(flat)),
        "pytree map": (lambda: pytree.tree_map(torch.neg, td), lambda: pytree.tree_map(torch.neg, flat)),
    }


def main() -> None:
    """Run every case."""
    options = parser(__doc__, rounds=25).parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    other = peer("tensordict")
    print(line(case="facts", rows=B, rounds=options.rounds, **facts(other)))
    ours = cases(tetradict.TensorDict)
    theirs = cases(other.TensorDict) if other else {}
    for name, (call, floor) in ours.items():
        if options.only not in name:
            continue
        calls = {"ours": call, "dict": floor}
        if name in theirs:
            calls["peer"] = theirs[name][0]
        print(line(case=name, **compare(calls, options.rounds, fill_s=0.005)), flush=True)


if __name__ == "__main__":
    main()
