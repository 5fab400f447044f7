import torch
from hypothesis import given
from hypothesis import strategies as st

from tetrarec.ops._layout import ALIGNMENT, Batch, layout_of

SIZES = st.lists(st.tuples(st.integers(1, 9), st.sampled_from([1, 3, 4, 8])), min_size=1, max_size=6)


@given(sizes=SIZES)
def test_tables_fill_the_buffer_without_overlap(sizes):
    rows, dims = zip(*sizes, strict=True)
    layout = layout_of(rows, dims, range(len(sizes)))
    flat = torch.zeros(layout.numel)
    for number, table in enumerate(layout.tables(flat), 1):
        assert table.shape == sizes[number - 1]
        assert (table == 0).all()
        table.fill_(number)
    assert int((flat != 0).sum()) == sum(r * d for r, d in sizes)
    assert all(group.start % ALIGNMENT == 0 for group in layout.groups)


@given(sizes=SIZES)
def test_tables_of_one_width_form_one_matrix(sizes):
    rows, dims = zip(*sizes, strict=True)
    layout = layout_of(rows, dims, range(len(sizes)))
    flat = torch.arange(float(layout.numel))
    assert len(layout.groups) == len(set(dims))
    for group in layout.groups:
        matrix = group.matrix(flat)
        for feature in group.features:
            table = layout.tables(flat)[feature.table]
            assert matrix[feature.first_row : feature.first_row + feature.rows].equal(table)
    states = torch.arange(sum(rows))
    covered = torch.cat(layout.table_states(states)).sort().values
    assert covered.equal(states)


@given(sizes=SIZES, data=st.data())
def test_blocks_cover_the_output_once(sizes, data):
    rows, dims = zip(*sizes, strict=True)
    keys = data.draw(st.integers(1, 3))
    features = data.draw(
        st.lists(st.tuples(st.integers(0, len(sizes) - 1), st.integers(0, keys - 1)), min_size=1, max_size=5)
    )
    tables, feature_keys = zip(*features, strict=True)
    bags = data.draw(st.lists(st.integers(0, 3), min_size=keys, max_size=keys))
    layout = layout_of(rows, dims, tables, feature_keys)
    for sizes_of_bags in ([2], bags):
        batch = Batch(torch.empty(0), torch.empty(0), None, sizes_of_bags, False)
        shape = batch.output_shape(layout)
        seen = torch.zeros(shape)
        for block, dim in zip(batch.blocks(layout), layout.feature_dims, strict=True):
            seen.view(-1).as_strided((block.bags, dim), (block.stride, 1), block.start).add_(1)
        assert (seen == 1).all()


def test_a_round_counts_the_features_that_read_the_key_before():
    layout = layout_of([3, 3], [4, 4], [0, 1, 0, 1], [1, 1, 0, 1])
    assert [feature.round for feature in layout.features] == [0, 1, 0, 2]
    assert layout.rounds == 3
    assert len(layout.apart().groups) == 2
    assert layout.apart().features[1].key == 1
