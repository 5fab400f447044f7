import pytest
import torch

from tetrarec.modules import DataType, EmbeddingBagConfig, PoolingType
from tetrarec.modules._tables import TablePlan, check_tables, embedding_names_by_table, key_places


def table(name, features, **options):
    return EmbeddingBagConfig(9, options.pop("dim", 4), name, feature_names=features, **options)


def test_a_feature_of_several_tables_is_named_after_both():
    tables = [table("t1", ["a", "b"]), table("t2", ["a"]), table("t3", ["c"])]
    assert embedding_names_by_table(tables) == [["a@t1", "b"], ["a@t2"], ["c"]]


def test_groups_are_put_together_in_the_order_of_the_tables():
    tables = [
        table("t1", ["a"], dim=1),
        table("t2", ["b", "c"], dim=2, pooling=PoolingType.MEAN),
        table("t3", ["d"], dim=3),
        table("t4", ["e"], dim=1, data_type=DataType.FP16),
    ]
    plan = TablePlan(tables)
    assert [group.tables for group in plan.groups] == [(0, 2), (1,), (3,)]
    outputs = [torch.tensor([[1.0, 4, 4, 4]]), torch.tensor([[2.0, 2, 3, 3]]), torch.tensor([[5.0]])]
    assert plan.assemble(outputs).tolist() == [[1, 2, 2, 3, 3, 4, 4, 4, 5]]
    assert plan.names == ["a", "b", "c", "d", "e"]
    assert plan.dims == [1, 2, 2, 3, 1]


def test_the_places_of_keys():
    assert key_places("here", ["a", "b"], ["a", "b"]) == []
    assert key_places("here", ["a", "b", "c"], ["c", "a", "c"]) == [2, 0, 2]
    with pytest.raises(KeyError, match="here: no key 'film'; nearest of 1: 'films'"):
        key_places("here", ["films"], ["film"])


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([], "needs at least one table"),
        ([table("t", ["a"]), table("t", ["b"])], r"a name of its own, got \['t', 't'\]"),
        ([table("", ["a"])], "a name of its own"),
        ([table("t", [])], r"table 't' needs feature_names, each once, got \[\]"),
        ([table("t", ["a", "a"])], "each once"),
    ],
)
def test_tables_that_make_no_collection_are_refused(tables, message):
    with pytest.raises(ValueError, match=message):
        check_tables("Here", tables)
