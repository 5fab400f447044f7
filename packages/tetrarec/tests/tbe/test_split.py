import pytest
import torch
from torch.testing import assert_close

from tetrarec.fbgemm.split_embedding_configs import EmbOptimType, SparseType
from tetrarec.fbgemm.split_table_batched_embeddings_ops_common import (
    BoundsCheckMode,
    EmbeddingLocation,
    PoolingMode,
)
from tetrarec.fbgemm.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    SplitTableBatchedEmbeddingBagsCodegen,
)
from tetrarec.tbe import TableBatchedEmbeddingBags

HOST = (EmbeddingLocation.HOST, ComputeDevice.CPU)
ADAGRAD = EmbOptimType.EXACT_ROWWISE_ADAGRAD


def test_it_is_the_readable_module_under_the_names_of_fbgemm():
    specs = [(5, 4), (6, 4)]
    theirs = SplitTableBatchedEmbeddingBagsCodegen(
        [(*spec, *HOST) for spec in specs],
        [0, 1, 1],
        optimizer=ADAGRAD,
        pooling_mode=PoolingMode.MEAN,
        learning_rate=0.5,
        eps=1e-3,
        bounds_check_mode=BoundsCheckMode.NONE,
        device="cpu",
    )
    ours = TableBatchedEmbeddingBags(specs, [0, 1, 1], pooling="mean", learning_rate=0.5, eps=1e-3)
    ours.load_state_dict(theirs.state_dict())
    ids, offsets = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 2, 3, 4])
    for module in (theirs, ours):
        module(ids, offsets).sum().backward()
    assert_close(theirs.split_embedding_weights(), ours.split_embedding_weights())
    assert_close(theirs.split_optimizer_states(), [[state] for state in ours.split_optimizer_states()])
    assert not theirs.check_ids


@pytest.mark.parametrize("precision", list(SparseType))
def test_tables_have_the_precision_asked_for(precision):
    op = SplitTableBatchedEmbeddingBagsCodegen(
        [(5, 4, *HOST)], weights_precision=precision, optimizer=ADAGRAD
    )
    op.init_embedding_weights_uniform(1.0, 1.0)
    out = op(torch.tensor([1, 1]), torch.tensor([0, 2]))
    assert out.dtype == precision.as_dtype()
    assert out.tolist() == [[2.0] * 4]


def test_what_it_cannot_do_is_refused():
    with pytest.raises(ValueError, match=r"optimizer must be EmbOptimType\.EXACT_ROWWISE_ADAGRAD"):
        SplitTableBatchedEmbeddingBagsCodegen([(5, 4, *HOST)], optimizer="ADAM")
    with pytest.raises(ValueError, match=r"all tables must be \(HOST, CPU\), or all \(DEVICE, CUDA\)"):
        SplitTableBatchedEmbeddingBagsCodegen(
            [(5, 4, EmbeddingLocation.DEVICE, ComputeDevice.CPU)], optimizer=ADAGRAD
        )
