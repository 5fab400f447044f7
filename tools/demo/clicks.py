"""A click model on MovieLens: seven sparse features, six dense ones, and a fused update of the tables."""

from __future__ import annotations

import sys
from pathlib import Path

import data
import numpy as np
import page
import ratings
import torch
from matplotlib import pyplot as plt
from sklearn.metrics import roc_auc_score, roc_curve
from tetrarec import EmbeddingBagConfig, FusedEmbeddingBagCollection, KeyedJaggedTensor, PoolingType
from tetrarec.optim import RowWiseAdagrad
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

DIM, BATCH, TRAIN = 16, 256, 0.8


def section() -> page.Section:
    """What the report says of it."""
    return page.Section(
        title="Which film will be liked next",
        library="tetrarec",
        what=(
            "A model with one table a feature learns from the first four fifths of the ratings, in order of time, and is "
            "asked about the last fifth: will this person give this film four stars or more? The tables learn by exact "
            "row-wise Adagrad inside the backward pass."
        ),
        data="100,000 real ratings of 1,682 films by 943 people, MovieLens-100k (1997-1998).",
        code=page.shown_code(sys.modules[__name__]),
    )


def small(weight: Tensor) -> Tensor:
    """Start tables near zero: what is not yet learned should say nothing."""
    return nn.init.normal_(weight, std=0.02)


class ClickModel(nn.Module):
    """Pooled embeddings, their pairwise products and the dense features through a small network."""

    def __init__(self, sizes: dict[str, int], dense: int) -> None:
        super().__init__()
        # shown
        tables = [
            EmbeddingBagConfig(size, DIM, name, feature_names=[name], pooling=PoolingType.MEAN, init_fn=small)
            for name, size in sizes.items()
        ]
        self.tables = FusedEmbeddingBagCollection(tables, RowWiseAdagrad, {"lr": 0.01})
        # end
        pairs = len(sizes) * (len(sizes) - 1) // 2
        self.top = nn.Sequential(
            nn.Linear(len(sizes) * DIM + pairs + dense, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 1)
        )

    def forward(self, features: KeyedJaggedTensor, dense: Tensor) -> Tensor:
        """Log-odds of a like, ``[B]``."""
        pooled = self.tables(features).values().unflatten(1, (-1, DIM))
        row, column = torch.triu_indices(pooled.shape[1], pooled.shape[1], 1)
        products = (pooled @ pooled.mT)[:, row, column]
        return self.top(torch.cat([pooled.flatten(1), 10 * products, dense], dim=1)).squeeze(1)


def batch(clicks: ratings.Clicks, rows: np.ndarray) -> tuple[KeyedJaggedTensor, Tensor, Tensor]:
    """Some rows as jagged features, dense features and labels."""
    bags = [[clicks.bags[name][row] for row in rows] for name in clicks.sizes]
    lengths = torch.tensor([len(bag) for feature in bags for bag in feature])
    values = torch.from_numpy(np.concatenate([bag for feature in bags for bag in feature]))
    features = KeyedJaggedTensor.from_lengths_sync(keys=list(clicks.sizes), values=values, lengths=lengths)
    return features, torch.from_numpy(clicks.dense[rows]), torch.from_numpy(clicks.label[rows]).float()


def train(model: ClickModel, clicks: ratings.Clicks, rows: np.ndarray) -> list[float]:
    """Go once over the training rows; return the loss of each step."""
    optimizer = torch.optim.Adam(model.top.parameters(), lr=1e-3)
    random, losses = np.random.default_rng(0), []
    for part in tqdm(
        np.array_split(random.permutation(rows), len(rows) // BATCH), desc="  training", disable=None
    ):
        features, dense, label = batch(clicks, part)
        loss = F.binary_cross_entropy_with_logits(model(features, dense), label)
        optimizer.zero_grad()
        loss.backward()  # the tables are updated in here
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def predict(model: ClickModel, clicks: ratings.Clicks, rows: np.ndarray) -> np.ndarray:
    """Log-odds of a like for each row."""
    return torch.cat([model(*batch(clicks, part)[:2]) for part in np.array_split(rows, 20)]).numpy()


def popularity(clicks: ratings.Clicks, cut: int) -> dict[str, np.ndarray]:
    """What a list of favourites would say: how often a film was rated, or liked, or how well, in the training time."""
    item = np.concatenate(clicks.bags["item"])
    count = np.bincount(item[:cut], minlength=clicks.sizes["item"])
    likes = np.bincount(item[:cut], weights=clicks.label[:cut], minlength=clicks.sizes["item"])
    shrunk = (likes + 5.5) / (count + 10)
    return {
        name: score[item[cut:]] for name, score in (("rated", count), ("liked", likes), ("share", shrunk))
    }


def run(section: page.Section, scratch: Path) -> None:
    """Build the rows, train, and compare with popularity."""
    clicks = ratings.build(data.movielens())
    cut = int(TRAIN * len(clicks))
    torch.manual_seed(0)
    model = ClickModel(clicks.sizes, clicks.dense.shape[1])
    train(model, clicks, np.arange(cut))
    model.eval()
    truth = clicks.label[cut:]
    scores = predict(model, clicks, np.arange(cut, len(clicks)))
    baselines = popularity(clicks, cut)
    auc = {name: roc_auc_score(truth, score) for name, score in {"model": scores, **baselines}.items()}
    section.results += [
        (f"{auc['model']:.3f}", "AUC of the model on the last fifth"),
        (f"{auc['rated']:.3f}", "AUC of popularity: the number of ratings"),
        (f"{auc['liked']:.3f}", "AUC of popularity: the number of likes"),
        (f"{auc['share']:.3f}", "AUC of popularity: the share of likes"),
    ]
    figure, axis = plt.subplots(figsize=(8, 3.6))
    names = {
        "model": "model",
        "share": "share of likes",
        "liked": "number of likes",
        "rated": "number of ratings",
    }
    for name, label in names.items():
        false, true, _ = roc_curve(truth, scores if name == "model" else baselines[name])
        axis.plot(
            false, true, label=f"{label}, AUC {auc[name]:.3f}", linewidth=2.4 if name == "model" else 1.3
        )
    axis.plot([0, 1], [0, 1], color="#c3c8d0", linestyle=":")
    axis.set(xlabel="disliked films ranked above", ylabel="liked films found")
    axis.legend(loc="lower right")
    section.figures.append((page.svg(figure), "Receiver operating curves on the 20,000 latest ratings."))
