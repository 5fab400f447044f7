import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tetradict import TensorDict
from tetradict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential


def step(fn, in_keys, out_keys):
    return TensorDictModule(fn, in_keys=in_keys, out_keys=out_keys)


def chain():
    return TensorDictSequential(
        step(torch.neg, ["a"], ["b"]),
        step(torch.add, ["b", "x"], ["c"]),
        step(torch.exp, ["c"], [("d", "e")]),
    )


def data():
    return TensorDict({"a": torch.ones(3), "x": torch.full((3,), 2.0)}, [3])


@pytest.mark.smoke
def test_modules_run_in_turn_on_one_collection():
    td = data()
    assert chain()(td) is td
    assert_close(td["b"], -torch.ones(3))
    assert_close(td["d", "e"], torch.ones(3).exp())


def test_outer_keys_are_what_comes_from_outside_and_all_that_is_written():
    assert chain().in_keys == ["a", "x"]
    assert chain().out_keys == ["b", "c", ("d", "e")]


def test_an_entry_of_a_collection_that_is_written_is_no_outer_key():
    make = step(lambda a: (TensorDict({"y": a}, [3]),), ["a"], ["n"])
    use = step(torch.neg, [("n", "y")], ["z"])
    seq = TensorDictSequential(make, use)
    assert seq.in_keys == ["a"]
    assert_close(seq(data())["z"], -torch.ones(3))


def test_a_dropped_output_is_no_outer_key():
    seq = TensorDictSequential(step(lambda a: (a, a), ["a"], ["_", "b"]))
    assert seq.out_keys == ["b"]


def test_tensors_go_in_and_come_out():
    b, c, e = chain()(torch.ones(3), x=torch.full((3,), 2.0))
    assert_close((b, c, e), (-torch.ones(3), torch.ones(3), torch.ones(3).exp()))


def test_selected_keys_alone_are_written():
    seq = TensorDictSequential(*chain(), selected_out_keys=["c"])
    td = data()
    assert seq(td) is td
    assert set(td.keys()) == {"a", "x", "c"} and seq.out_keys == ["c"]


def test_not_inplace_leaves_the_input_alone():
    td = data()
    out = TensorDictSequential(*chain(), inplace=False)(td)
    assert set(td.keys()) == {"a", "x"}
    assert set(out.keys(True, True)) == {"b", "c", ("d", "e")}


@pytest.mark.parametrize("inplace", [True, False, None])
@pytest.mark.parametrize("module_inplace", [True, False])
def test_modules_that_return_another_collection_take_part(inplace, module_inplace):
    seq = TensorDictSequential(
        TensorDictModule(torch.neg, in_keys=["a"], out_keys=[("n", "b")], inplace=module_inplace),
        TensorDictModule(torch.add, in_keys=[("n", "b"), "x"], out_keys=["c"], inplace=module_inplace),
        inplace=inplace,
    )
    td = data()
    out = seq(td)
    assert_close(out["c"], torch.ones(3))
    in_place = module_inplace if inplace is None else inplace
    assert (out is td) is in_place
    assert set(out.keys()) == ({"a", "x", "n", "c"} if in_place else {"n", "c"})


def test_modules_are_reached_by_index_slice_and_loop():
    seq = chain()
    assert len(seq) == 3 and list(seq) == [seq[0], seq[1], seq[-1]]
    assert seq[1:].in_keys == ["b", "x"] and isinstance(seq[1:], TensorDictSequential)


def test_a_subsequence_leads_from_some_entries_to_others():
    seq = TensorDictSequential(*chain(), step(torch.neg, ["x"], ["other"]))
    assert [list(m.out_keys) for m in seq.select_subsequence(out_keys=["c"])] == [["b"], ["c"]]
    assert [list(m.out_keys) for m in seq.select_subsequence(in_keys=["x"])] == [["other"]]
    part = seq.select_subsequence(in_keys=["b", "x"], out_keys=["d"])
    assert part.in_keys == ["b", "x"] and part.out_keys == ["c", ("d", "e")]


def test_a_subsequence_reaches_into_plain_sequences():
    seq = TensorDictSequential(
        chain()[:2], TensorDictSequential(step(torch.exp, ["c"], ["d"]), step(torch.neg, ["x"], ["e"]))
    )
    part = seq.select_subsequence(out_keys=["d"])
    assert [list(m.out_keys) for m in part] == [["b"], ["c"], ["d"]]


def test_no_way_between_two_entries_is_an_error():
    with pytest.raises(ValueError, match=r"no module leads from \['x'\] to \['b'\]"):
        chain().select_subsequence(in_keys=["x"], out_keys=["b"])


def test_a_module_without_keys_is_refused_with_the_mend():
    with pytest.raises(
        TypeError, match=r"module 1 must have in_keys.*got a Linear; wrap it in TensorDictModule"
    ):
        TensorDictSequential(step(torch.neg, ["a"], ["b"]), nn.Linear(2, 2))


def test_selecting_what_nobody_writes_is_refused():
    with pytest.raises(ValueError, match=r"non existent keys \['q'\]; choose some of"):
        TensorDictSequential(*chain(), selected_out_keys=["q"])


def test_a_missing_entry_names_the_module_that_wants_it():
    class Named(TensorDictModule):
        pass

    seq = TensorDictSequential(step(torch.neg, ["a"], ["b"]), Named(torch.exp, ["q"], ["c"]))
    with pytest.raises(KeyError, match=r"Named\(exp\).*\['q'\]"):
        seq(data())


def test_own_modules_take_part():
    class Twice(TensorDictModuleBase):
        in_keys = ["a"]  # noqa: RUF012  (how users write it)
        out_keys = ["b"]  # noqa: RUF012

        def forward(self, tensordict):
            return tensordict.set("b", 2 * tensordict["a"])

    seq = TensorDictSequential(Twice(), step(torch.neg, ["b"], ["c"]))
    assert_close(seq(data())["c"], torch.full((3,), -2.0))


def test_it_trains_as_the_plain_network_does():
    torch.manual_seed(0)
    one, two = nn.Linear(4, 8), nn.Linear(8, 1)
    seq = TensorDictSequential(
        step(one, ["x"], ["h"]), step(torch.tanh, ["h"], ["h"]), step(two, ["h"], ["y"])
    )
    x = torch.randn(5, 4)
    seq(TensorDict({"x": x}, [5]))["y"].sum().backward()
    got = [p.grad.clone() for p in seq.parameters()]
    seq.zero_grad()
    two(one(x).tanh()).sum().backward()
    assert_close(got, [p.grad for p in seq.parameters()])


@pytest.mark.parametrize("inplace", [True, False])
def test_it_compiles_in_one_graph(inplace):
    seq = TensorDictSequential(*chain(), inplace=inplace)
    got = torch.compile(seq, backend="aot_eager", fullgraph=True)(data())
    want = seq(data())
    assert set(got.keys(True, True)) == set(want.keys(True, True))
    assert_close(got["d", "e"], want["d", "e"])


def test_modules_without_their_inputs_may_be_passed_over():
    seq = TensorDictSequential(
        TensorDictModule(torch.neg, ["a"], ["b"]),
        TensorDictModule(torch.neg, ["c"], ["d"]),
        partial_tolerant=True,
    )
    assert set(seq(TensorDict(c=1)).keys()) == {"c", "d"}
    assert seq[:1].partial_tolerant


def test_modules_may_be_replaced_and_removed():
    seq = TensorDictSequential(
        TensorDictModule(torch.neg, ["a"], ["b"]), TensorDictModule(torch.exp, ["b"], ["c"])
    )
    seq[1] = TensorDictModule(torch.abs, ["b"], ["d"])
    assert seq.out_keys == ["b", "d"] and seq(TensorDict(a=1))["d"] == 1
    del seq[0]
    assert seq.in_keys == ["b"] and len(seq) == 1
    with pytest.raises(TypeError, match="module 0 must have in_keys and out_keys, got a Linear"):
        seq[0] = torch.nn.Linear(2, 2)


def test_a_sequence_is_a_module_of_entries():
    assert issubclass(TensorDictSequential, TensorDictModule)


def test_selected_names_are_those_of_a_part_too():
    parts = {
        "one": TensorDictModule(torch.neg, ["a"], ["b"]),
        "two": TensorDictModule(torch.neg, ["a"], ["c"]),
    }
    part = TensorDictSequential(parts).select_subsequence(out_keys=["c"])
    assert list(part.module) == ["two"]
