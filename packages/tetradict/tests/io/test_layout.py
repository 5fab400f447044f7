import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tetradict.io import _layout


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("plain", "plain"),
        ("a/b c", "a%2Fb%20c"),
        ("x.y", "x.y"),
        ("%", "%25"),
        ("a:b*c?", "a%3Ab%2Ac%3F"),
        ("\\", "%5C"),
        ("a|b", "a%7Cb"),
        ("A+b=c,@!$&'()[]{};#<>\"`^", "A+b=c,@!$&'()[]{};#%3C%3E%22`^"),
        ("\n\t\x7f\x01", "%0A%09%7F%01"),
        ("é", "é"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("...", "..."),
        ("", "%"),
        ("k%2F", "k%252F"),
    ],
)
def test_keys_are_encoded_as_tensordict_encodes_them(key, name):  # read from files that 0.14.3 wrote
    assert _layout.tensor_file(key) == name + ".memmap"


@settings(max_examples=25)
@given(keys=st.lists(st.text(), unique=True, min_size=2, max_size=4))
def test_names_differ_when_keys_do_and_lead_nowhere_else(keys):
    files = [_layout.tensor_file(key) for key in keys]
    folders = [_layout.child_folder(key) for key in keys]
    assert len(set(files + folders + [_layout.META, _layout.SIDE, _layout.PICKLE])) == 2 * len(keys) + 3
    for name in files + folders:
        assert name not in {"", ".", ".."}
        assert not set(name) & set("/\\\0")


@pytest.mark.parametrize("text", ["float32", "torch.nn", "torch.no", "torch.float32.x", 3, None, "torch."])
def test_what_is_no_dtype_is_none(text):
    assert _layout.dtype_of(text) is None


def test_dtypes_and_sizes_are_read():
    assert _layout.dtype_of("torch.bfloat16") is torch.bfloat16
    assert _layout.size_of([2, 0]) == torch.Size([2, 0])
    for value in (None, "3", [1.0], [-1], [True], [1 << 62], [[1]], {"a": 1}):
        assert _layout.size_of(value) is None


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(value=VALUES)
def test_json_gives_back_what_it_took(value):
    import json

    assert json.loads(_layout.as_json(value, "here")) == value


@pytest.mark.parametrize(
    "value",
    [(1, 2), {1, 2}, b"x", math.nan, math.inf, {1: 2}, [1, {"a": (2,)}], object(), torch.zeros(1)],
    ids=lambda value: type(value).__name__,  # not repr: an address differs between workers
)
def test_what_json_would_change_is_refused(value):
    with pytest.raises(
        TypeError, match=r"here: a value of type .* cannot be saved; non-tensor values are saved as JSON"
    ):
        _layout.as_json(value, "here")
