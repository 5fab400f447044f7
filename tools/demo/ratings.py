"""MovieLens ratings as a click problem: will this user like this film, given only what happened before."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

LIKED = 4  # stars from which a rating counts as a click
HISTORY = 30  # the most recent likes and dislikes that a user is described by
AGES = np.array([18, 25, 35, 45, 56])


@dataclass
class Clicks:
    """Rows in order of time.

    ``bags`` holds, for each feature, one array of ids a row (of differing length); ``sizes`` the number of ids of each.
    ``dense`` is ``[N, F]`` float32, ``label`` ``[N]`` bool, ``time`` ``[N]`` seconds.
    """

    bags: dict[str, list[np.ndarray]]
    sizes: dict[str, int]
    dense: np.ndarray
    label: np.ndarray
    time: np.ndarray

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.label)


def codes(column: np.ndarray) -> tuple[np.ndarray, int]:
    """Each distinct value as a number, and how many there are."""
    values, index = np.unique(column, return_inverse=True)
    return index, len(values)


def build(tables: dict[str, dict[str, np.ndarray]]) -> Clicks:
    """Turn the three tables into rows; every running figure of a row comes from strictly earlier seconds."""
    inter, users, items = tables["inter"], tables["user"], tables["item"]
    time = inter["timestamp"].astype(np.int64)
    order = np.argsort(time, kind="stable")
    time, label = time[order], inter["rating"].astype(float)[order] >= LIKED
    user = np.searchsorted(*ids(users["user_id"], inter["user_id"][order]))
    item = np.searchsorted(*ids(items["item_id"], inter["item_id"][order]))
    gender, _ = codes(users["gender"])
    job, jobs = codes(users["occupation"])
    genres = [np.array(text.split()) for text in items["class"]]
    names = np.unique(np.concatenate(genres))
    genre = [np.searchsorted(names, text) for text in genres]
    age = users["age"].astype(int)
    by_user, by_item = np.argsort(users["user_id"]), np.argsort(items["item_id"])
    user_row, item_row = by_user[user], by_item[item]
    person = np.digitize(age, AGES) * 2 + gender
    liked, disliked, dense = running(user, item, label, time, len(by_user), len(by_item))
    year = np.array([int(y) if y.isdigit() else 1995 for y in items["release_year"]], dtype=np.float32)
    still = np.stack([(year[item_row] - 1990) / 10, (age[user_row] - 35) / 15], axis=1)
    bags = {
        "user": list(user[:, None]),
        "item": list(item[:, None]),
        "person": list(person[user_row][:, None]),
        "job": list(job[user_row][:, None]),
        "genre": [genre[i] for i in item_row],
        "liked": liked,
        "disliked": disliked,
    }
    sizes = {
        "user": len(by_user),
        "item": len(by_item),
        "person": 2 * (len(AGES) + 1),
        "job": jobs,
        "genre": len(names),
        "liked": len(by_item),
        "disliked": len(by_item),
    }
    return Clicks(bags, sizes, np.concatenate([dense, still], axis=1).astype(np.float32), label, time)


def ids(known: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arguments for ``searchsorted``: the sorted vocabulary and what is looked up."""
    return np.sort(known), asked


def running(
    user: np.ndarray, item: np.ndarray, label: np.ndarray, time: np.ndarray, users: int, items: int
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Recent likes and dislikes of each row's user, and counts and rates of its user and film, before its second."""
    seen = {"user": np.zeros((users, 2)), "item": np.zeros((items, 2))}  # ratings, likes
    past: tuple[list[list[int]], list[list[int]]] = ([[] for _ in range(users)], [[] for _ in range(users)])
    liked, disliked, dense = [], [], np.empty((len(time), 4), dtype=np.float32)
    starts = np.flatnonzero(np.r_[True, time[1:] != time[:-1], True])
    for start, stop in pairwise(starts):
        for row in range(start, stop):
            u, i = user[row], item[row]
            liked.append(np.array(past[1][u][-HISTORY:], dtype=np.int64))
            disliked.append(np.array(past[0][u][-HISTORY:], dtype=np.int64))
            dense[row] = [*rate(seen["user"][u]), *rate(seen["item"][i])]
        for row in range(start, stop):
            past[int(label[row])][user[row]].append(item[row])
            for table, index in (("user", user[row]), ("item", item[row])):
                seen[table][index] += (1, label[row])
    return liked, disliked, dense


def rate(counts: np.ndarray) -> tuple[float, float]:
    """How often, as a logarithm, and how well liked, shrunk towards the mean of all."""
    return float(np.log1p(counts[0])) / 3, float((counts[1] + 5.5) / (counts[0] + 10)) * 4 - 2.2
