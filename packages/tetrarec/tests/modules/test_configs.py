import pytest
import torch

from tetrarec.modules import DataType, EmbeddingBagConfig, EmbeddingConfig, PoolingType, data_type_to_dtype


def test_a_table_starts_within_one_over_the_root_of_its_rows():
    table = EmbeddingBagConfig(num_embeddings=4, embedding_dim=2, name="t", feature_names=["f", "g"])
    assert (table.get_weight_init_min(), table.get_weight_init_max()) == (-0.5, 0.5)
    assert (table.num_features(), table.pooling, table.data_type) == (2, PoolingType.SUM, DataType.FP32)
    narrow = EmbeddingConfig(4, 2, "t", DataType.FP16, ["f"], 0.1, -0.2)
    assert (narrow.get_weight_init_min(), narrow.get_weight_init_max()) == (-0.2, 0.1)


@pytest.mark.parametrize("data_type", list(DataType))
def test_every_data_type_is_a_torch_dtype(data_type):
    assert data_type_to_dtype(data_type).is_floating_point
    assert torch.empty(1, dtype=data_type_to_dtype(data_type)).numel() == 1


def test_sizes_that_are_none_are_named():
    with pytest.raises(ValueError, match="EmbeddingBagConfig 't': num_embeddings must be positive, got 0"):
        EmbeddingBagConfig(0, 2, "t")
    with pytest.raises(ValueError, match="embedding_dim must be positive"):
        EmbeddingConfig(4, -1, "t")
    with pytest.raises(ValueError, match="weight_init_min must not pass weight_init_max"):
        EmbeddingConfig(4, 2, "t", weight_init_min=2.0)
