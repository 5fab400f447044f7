"""What every test here shares."""

import os

import pytest
import torch
from hypothesis import settings

settings.register_profile("ws", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ws")


@pytest.fixture
def device() -> torch.device:
    """Where kernels run: a GPU natively, or the CPU under Triton's interpreter."""
    native = torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"
    return torch.device("cuda" if native else "cpu")
