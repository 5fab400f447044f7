"""TableBatchedEmbeddingBags under the names of fbgemm_gpu."""

from collections.abc import Sequence
from enum import Enum, IntEnum

import torch
from torch import Tensor

from tetrarec.tbe._tbe import DEFAULT_EPS, TableBatchedEmbeddingBags


class EmbeddingLocation(IntEnum):
    """Where a table lives: on the device, or in the host's memory."""

    DEVICE = 0
    HOST = 3


class ComputeDevice(IntEnum):
    """What looks a table up."""

    CPU = 0
    CUDA = 1


class PoolingMode(IntEnum):
    """How the rows of a bag become one."""

    SUM = 0
    MEAN = 1


class BoundsCheckMode(IntEnum):
    """Ids outside their table: FATAL refuses them on the CPU, NONE doesn't look. A GPU leaves them out."""

    FATAL = 0
    NONE = 3


class EmbOptimType(Enum):
    """The rule of the update."""

    EXACT_ROWWISE_ADAGRAD = "exact_row_wise_adagrad"


class SparseType(Enum):
    """The numbers that tables are made of."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"

    def as_dtype(self) -> torch.dtype:
        """The torch dtype."""
        return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[self.value]


class SplitTableBatchedEmbeddingBagsCodegen(TableBatchedEmbeddingBags):
    """A :class:`TableBatchedEmbeddingBags` that is made the way fbgemm_gpu's module of this name is.

    Args:
        embedding_specs: ``(rows, dim, location, compute device)`` of each table; HOST goes with CPU, DEVICE
            with CUDA.
        feature_table_map: the table that each feature reads; by default feature f reads table f.
        weights_precision: the numbers that the tables are made of; the output has the same.
        optimizer: EXACT_ROWWISE_ADAGRAD.
        pooling_mode: SUM or MEAN.
        learning_rate: of the updates.
        eps: added to the root of the state.
        bounds_check_mode: FATAL or NONE.
        device: by default "cpu" or "cuda", as the compute device says.

    Raises:
        ValueError: tables on different devices, a location that the compute device can't reach, or another
            optimizer.

    Example:
        >>> specs = [(10, 4, EmbeddingLocation.HOST, ComputeDevice.CPU)]
        >>> op = SplitTableBatchedEmbeddingBagsCodegen(specs, optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD)
        >>> op(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 3])).shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        embedding_specs: Sequence[tuple[int, int, EmbeddingLocation, ComputeDevice]],
        feature_table_map: Sequence[int] | None = None,
        *,
        weights_precision: SparseType = SparseType.FP32,
        optimizer: EmbOptimType,
        pooling_mode: PoolingMode = PoolingMode.SUM,
        learning_rate: float = 0.01,
        eps: float = DEFAULT_EPS,
        bounds_check_mode: BoundsCheckMode = BoundsCheckMode.FATAL,
        device: torch.device | str | None = None,
    ) -> None:
        where = "SplitTableBatchedEmbeddingBagsCodegen"
        if optimizer is not EmbOptimType.EXACT_ROWWISE_ADAGRAD:
            raise ValueError(
                f"{where}: optimizer must be EmbOptimType.EXACT_ROWWISE_ADAGRAD, got {optimizer}"
            )
        places = {(location, compute) for _, _, location, compute in embedding_specs}
        kinds = {
            (EmbeddingLocation.HOST, ComputeDevice.CPU): "cpu",
            (EmbeddingLocation.DEVICE, ComputeDevice.CUDA): "cuda",
        }
        if len(places) != 1 or next(iter(places)) not in kinds:
            raise ValueError(
                f"{where}: all tables must be (HOST, CPU), or all (DEVICE, CUDA), got {sorted(places)}"
            )
        super().__init__(
            [(rows, dim) for rows, dim, _, _ in embedding_specs],
            feature_table_map,
            pooling=pooling_mode.name.lower(),
            learning_rate=learning_rate,
            eps=eps,
            check_ids=bounds_check_mode is not BoundsCheckMode.NONE,
            dtype=weights_precision.as_dtype(),
            device=kinds[next(iter(places))] if device is None else device,
        )

    def split_optimizer_states(self) -> list[list[Tensor]]:
        """For each table, a list of its one accumulator, ``[rows]``, as a view."""
        return [[state] for state in super().split_optimizer_states()]
