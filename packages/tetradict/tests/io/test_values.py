import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tetradict.io import _values

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()), max_size=5)
    | st.binary(max_size=5)
    | st.complex_numbers(allow_nan=False)
    | st.sampled_from([torch.float32, torch.device("cuda", 1), torch.Size([2, 3]), "$tuple", "$"])
)
HASHED = st.recursive(
    ATOMS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5
)
VALUES = st.recursive(
    HASHED | st.sets(HASHED, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.just("$set"), inner, max_size=3)
        | st.dictionaries(HASHED, inner, max_size=2)
    ),
    max_leaves=10,
)


def kinds(value):
    if type(value) in {list, tuple}:
        return type(value), [kinds(item) for item in value]
    if type(value) is dict:
        return dict, [(kinds(key), kinds(item)) for key, item in value.items()]
    return type(value)


@given(value=VALUES)
def test_a_value_comes_back_equal_and_of_its_types(value):
    back = _values.loaded(_values.dumped(_values.coded(value)).encode(), "x")
    assert back == value
    assert kinds(back) == kinds(value)


def test_what_is_json_already_stands_as_it_is():
    value = {"a": [1, 2.5, None, True, "é"], "": {}}
    assert _values.coded(value) == value


def test_floats_that_json_lacks_come_back():
    back = _values.loaded(_values.dumped(_values.coded([math.inf, -math.inf, math.nan])), "x")
    assert back[:2] == [math.inf, -math.inf]
    assert math.isnan(back[2])


class Mine(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [object(), Mine("x"), {"a": [1, {"b": print}]}, (object,)],
    ids=["object", "kind of str", "deep", "class"],
)
def test_a_value_without_a_form_is_said(value):
    with pytest.raises(_values.Unsaved):
        _values.coded(value)


@pytest.mark.parametrize(
    "text",
    [
        '{"$no":1}',
        '{"$tuple":1}',
        '{"$set":[[1]]}',
        '{"$bytes":"*"}',
        '{"$bytes":1}',
        '{"$complex":[1,2,3]}',
        '{"$float":"1"}',
        '{"$float":[]}',
        '{"$dict":[1]}',
        '{"$dict":{"ab":1}}',
        '{"$size":["a"]}',
        '{"$dtype":"load"}',
        '{"$dtype":"no such"}',
        '{"$device":"nowhere"}',
        '{"$device":[]}',
        "[" * 100_000,
    ],
    ids=range(16),
)
def test_an_object_that_stands_for_nothing_is_refused(text):
    with pytest.raises(ValueError, match=r"stands for no value|nested too deeply"):
        _values.loaded(text, "x")


@given(strings=st.lists(st.text(st.characters(exclude_categories=()), max_size=6)))
def test_a_column_of_strings_comes_back(strings):
    assert _values.parted(*_values.joined(strings)) == strings


@pytest.mark.parametrize("offsets", [[], [1, 3], [0, 2], [0, 2, 1, 3], [0, 9, 3], [0, -1, 3]], ids=str)
def test_offsets_that_are_none_of_the_column_are_refused(offsets):
    with pytest.raises(ValueError, match="rise from 0 to the 3 bytes"):
        _values.parted(b"abc", offsets)
