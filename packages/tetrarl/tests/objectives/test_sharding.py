import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

RANK = Path(__file__).with_name("sharded_loss.py")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fully_shard"])
def test_two_processes_find_the_gradient_of_one(kind, tmp_path):
    ranks = [
        subprocess.Popen([sys.executable, RANK, str(rank), kind, tmp_path], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    errors = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    alone = runpy.run_path(str(RANK))
    loss = alone["make_loss"]()
    alone["differentiate"](loss, alone["make_data"]())
    want = {name: p.grad for name, p in loss.named_parameters()}
    assert_close(torch.load(tmp_path / "grads.pt", weights_only=True), want)
