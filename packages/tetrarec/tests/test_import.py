import json
import subprocess
import sys

import pytest

import tetrarec

CODE = """
import json, sys, time
import torch
before = set(sys.modules)
start = time.process_time()
import {module}
print(json.dumps([sorted(set(sys.modules) - before), time.process_time() - start]))
"""


def loaded_by(module):
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE.format(module=module)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.smoke
def test_import_loads_little_beyond_torch():
    modules, seconds = loaded_by("tetrarec")
    tops = {name.partition(".")[0] for name in modules}
    assert not tops & {
        "triton",
        "pandas",
        "matplotlib",
        "numba",
        "scipy",
        "tetradict",
        "tetravision",
        "tetrarl",
        "tqdm",
    }
    foreign = [name for name in modules if not name.startswith("tetrarec")]
    assert len(foreign) <= 15, foreign
    assert seconds < 1.0


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("tetrarec.sparse.jagged_tensor", ["JaggedTensor", "KeyedJaggedTensor", "KeyedTensor"]),
        ("tetrarec.sparse.jagged_tensor_validator", ["validate_keyed_jagged_tensor"]),
        (
            "tetrarec.modules.embedding_configs",
            ["EmbeddingBagConfig", "EmbeddingConfig", "DataType", "PoolingType"],
        ),
        ("tetrarec.modules.embedding_modules", ["EmbeddingBagCollection", "EmbeddingCollection"]),
        ("tetrarec.modules.fused_embedding_modules", ["FusedEmbeddingBagCollection"]),
        ("tetrarec.optim.rowwise_adagrad", ["RowWiseAdagrad"]),
        (
            "tetrarec.fbgemm.split_table_batched_embeddings_ops_training",
            ["SplitTableBatchedEmbeddingBagsCodegen"],
        ),
        ("tetrarec.fbgemm.split_table_batched_embeddings_ops_common", ["EmbeddingLocation", "PoolingMode"]),
        ("tetrarec.fbgemm.split_embedding_configs", ["EmbOptimType", "SparseType"]),
    ],
)
def test_the_paths_that_users_write_resolve(module, names):
    door = __import__(module, fromlist=names)
    assert set(names) <= set(door.__all__)
    assert all(hasattr(door, name) for name in names)


def test_every_public_name_is_there():
    assert all(hasattr(tetrarec, name) for name in tetrarec.__all__)
    assert tetrarec.__version__[0].isdigit()
