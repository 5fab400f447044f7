"""What every test here shares."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import settings
from torch import Tensor

settings.register_profile("ws", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ws")


@pytest.fixture
def device() -> torch.device:
    """Where kernels run: a GPU natively, or the CPU under Triton's interpreter."""
    native = torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"
    return torch.device("cuda" if native else "cpu")


class Case(NamedTuple):
    """A table-batched lookup with everything that can vary: what the operators take."""

    tables: list[Tensor]  # float64 views of one buffer
    flat: Tensor
    indices: Tensor
    offsets: Tensor
    samples: Tensor | None
    rows: list[int]
    dims: list[int]
    feature_tables: list[int]
    feature_keys: list[int]
    batch_sizes: list[int]
    mean: bool

    @property
    def lookup(self) -> tuple[Any, ...]:
        """The arguments that describe the lookup, after the per-sample weights."""
        return self.feature_tables, self.feature_keys, self.batch_sizes, self.mean

    def cast(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> "Case":
        """The same case in another dtype, on another device."""
        flat = self.flat.to(device, dtype)
        tables = [flat.as_strided(t.shape, t.stride(), t.storage_offset()) for t in self.tables]
        samples = None if self.samples is None else self.samples.to(device, dtype)
        moved = self._replace(tables=tables, flat=flat, samples=samples)
        return moved._replace(indices=self.indices.to(device), offsets=self.offsets.to(device))


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    """Builds a random :class:`Case`; each seed varies tables, keys, strides, empty bags and repeats."""
    from tetrarec.ops._layout import layout_of  # noqa: PLC0415, PLC2701  (kernel tests start without the rest)

    def build(
        seed: int,
        *,
        ragged: bool = False,
        weighted: bool = False,
        mean: bool = False,
        index_dtype: torch.dtype = torch.int64,
        dims: tuple[int, ...] = (4, 8, 4, 3),
        most_bags: int = 5,
    ) -> Case:
        generator = torch.Generator().manual_seed(seed)

        def number(low: int, high: int) -> int:
            return int(torch.randint(low, high + 1, (), generator=generator))

        tables, keys, features = number(1, 4), number(1, 4), number(1, 5)
        rows = [number(1, 9) for _ in range(tables)]
        widths = [dims[t % len(dims)] for t in range(tables)]
        feature_tables = [number(0, tables - 1) for _ in range(features)]
        feature_keys = [number(0, keys - 1) for _ in range(features)]
        sizes = [number(0, most_bags) for _ in range(keys if ragged else 1)]
        bags = sizes if len(sizes) == keys else sizes * keys
        lengths = torch.randint(0, 5, (sum(bags),), generator=generator)
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(index_dtype)
        bounds = torch.tensor([
            min((rows[t] for t, k in zip(feature_tables, feature_keys, strict=True) if k == key), default=7)
            for key in range(keys)
        ])
        key_of_id = torch.repeat_interleave(
            torch.repeat_interleave(torch.arange(keys), torch.tensor(bags)), lengths
        )
        count = int(lengths.sum())
        ids = (torch.rand(count, generator=generator) ** 2 * bounds[key_of_id]).to(index_dtype)
        layout = layout_of(rows, widths, feature_tables, feature_keys)
        flat = torch.randn(layout.numel, dtype=torch.float64, generator=generator)
        samples = torch.randn(count, dtype=torch.float64, generator=generator) if weighted else None
        return Case(
            layout.tables(flat),
            flat,
            ids,
            offsets,
            samples,
            rows,
            widths,
            feature_tables,
            feature_keys,
            sizes,
            mean,
        )

    return build
