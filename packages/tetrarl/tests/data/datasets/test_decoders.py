"""Rows that a file keeps encoded."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tetrarl.data.datasets import decode_text
from tetrarl.data.datasets._decoders import TextRows, decode_jpeg


@given(
    texts=st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9), max_size=6
    )
)
def test_text_comes_back_as_it_was(texts):
    rows = TextRows(texts, "here")
    assert rows.shape[0] == len(texts)
    assert decode_text(torch.from_numpy(rows[:])) == texts


def test_a_zero_byte_in_a_text_is_refused():
    with pytest.raises(ValueError, match="here: text with a zero byte"):
        TextRows(["a\0b"], "here")


def test_what_is_no_text_is_refused():
    with pytest.raises(ValueError, match=r"expected \[N, L\] uint8, got int64 of shape \(3,\)"):
        decode_text(torch.arange(3))


def test_a_broken_frame_is_refused():
    with pytest.raises(ValueError, match="here: a frame is no readable JPEG"):
        decode_jpeg(np.frombuffer(b"\xff\xd8\xff nothing", np.uint8), "here")
