"""The demo's own parts: what it counts, what it shows, and what it does when data is missing."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

DEMO = Path(__file__).resolve().parent.parent / "tools" / "demo"
OFFLINE = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_RETRIES": "0",
    "PIP_FIND_LINKS": "",
}


@pytest.fixture(scope="module", autouse=True)
def demo_on_the_path():
    sys.path.insert(0, str(DEMO))
    yield
    sys.path.remove(str(DEMO))


@pytest.fixture
def tables():
    """A hundred ratings by five people of seven films, several in one second."""
    random = np.random.default_rng(0)
    rows = 100
    return {
        "inter": {
            "user_id": random.integers(1, 6, rows).astype(str), "item_id": random.integers(1, 8, rows).astype(str),
            "rating": random.integers(1, 6, rows).astype(str), "timestamp": random.integers(0, 40, rows).astype(str),
        },
        "user": {
            "user_id": np.arange(1, 6).astype(str), "age": np.array(["17", "24", "30", "50", "60"]),
            "gender": np.array(list("MFMFM")), "occupation": np.array(["writer", "other", "writer", "artist", "other"]),
        },
        "item": {
            "item_id": np.arange(1, 8).astype(str), "release_year": np.array(["1990"] * 6 + ["unknown"]),
            "class": np.array(["Drama", "Drama Comedy", "War", "Comedy", "War", "Drama", "unknown"]),
        },
    }  # fmt: skip


def test_a_row_knows_only_what_happened_in_earlier_seconds(tables):
    import ratings

    clicks = ratings.build(tables)
    user, item = (np.concatenate(clicks.bags[name]) for name in ("user", "item"))
    assert (np.diff(clicks.time) >= 0).all()
    for row in range(len(clicks)):
        before = clicks.time < clicks.time[row]
        mine, film = before & (user == user[row]), before & (item == item[row])
        assert clicks.bags["liked"][row].tolist() == item[mine & clicks.label][-ratings.HISTORY :].tolist()
        assert (
            clicks.bags["disliked"][row].tolist() == item[mine & ~clicks.label][-ratings.HISTORY :].tolist()
        )
        for column, chosen in ((0, mine), (2, film)):
            likes, count = clicks.label[chosen].sum(), chosen.sum()
            np.testing.assert_allclose(clicks.dense[row, column], np.log1p(count) / 3, rtol=1e-6)
            np.testing.assert_allclose(
                clicks.dense[row, column + 1], (likes + 5.5) / (count + 10) * 4 - 2.2, atol=1e-6
            )


def test_ids_of_a_row_are_those_of_its_user_and_film(tables):
    import ratings

    clicks = ratings.build(tables)
    order = np.argsort(tables["inter"]["timestamp"].astype(int), kind="stable")
    assert [int(b[0]) + 1 for b in clicks.bags["user"]] == tables["inter"]["user_id"][order].astype(
        int
    ).tolist()
    assert all(max(map(max, filter(len, clicks.bags[name]))) < size for name, size in clicks.sizes.items())


def test_average_precision_of_a_worked_example():
    import digits

    square = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
    truth = [(torch.cat([square, square + 20]), torch.zeros(2, dtype=torch.long))]
    truth += [(torch.zeros(0, 4), torch.zeros(0, dtype=torch.long))]

    def found(boxes, scores):
        none = (torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.long))
        return [(torch.cat(boxes), torch.tensor(scores), torch.zeros(len(scores), dtype=torch.long)), none]

    def ap(boxes, scores):  # the other nine digits have no truth and count as nothing
        return digits.average_precision(found(boxes, scores), truth) * digits.CLASSES

    assert ap([square, square + 20], [0.9, 0.8]) == pytest.approx(1.0)
    assert ap([square + 40, square], [0.9, 0.8]) == pytest.approx(
        0.25
    )  # half the truth, at precision one half
    assert ap([square, square, square + 20], [0.9, 0.8, 0.7]) == pytest.approx(
        0.5 + 0.5 * 2 / 3
    )  # a double is wrong
    assert ap([square + 4], [0.9]) == 0.0  # overlap 0.22


@given(seed=st.integers(0, 50))
def test_the_detectors_targets_lie_in_the_boxes_they_point_to(seed):
    import digits

    _, boxes, labels = digits.Canvases("train", seed).draw()
    boxes = boxes.as_subclass(torch.Tensor)
    assert len(boxes) == len(labels)
    assert (boxes[:, 2:] > boxes[:, :2]).all() and boxes.min() >= 0 and boxes.max() <= digits.SIDE
    which, centres = digits.assign(boxes), digits.cells()
    inside = which >= 0
    assert set(which[inside].tolist()) == set(range(len(boxes)))  # each digit has a cell to be found by
    near = boxes[which[inside]]
    reach = digits.STRIDE
    assert (centres[inside] >= near[:, :2] - reach).all() and (centres[inside] <= near[:, 2:] + reach).all()


def test_the_two_halves_of_the_handwriting_share_no_picture():
    import digits

    train, test = digits.Canvases("train", 0), digits.Canvases("test", 0)
    assert len(train.labels) + len(test.labels) == 1797
    assert set(np.unique(train.labels)) == set(np.unique(test.labels)) == set(range(10))


def test_the_page_needs_no_network_and_shows_the_code_that_ran():
    import detector
    import page
    from matplotlib import pyplot as plt

    section = page.Section("A <title>", "tetravision", "what", "data", code=page.shown_code(detector))
    section.results.append(("1.0", "figure & label"))
    figure, axis = plt.subplots()
    axis.plot([1, 2])
    section.figures += [
        (page.svg(figure), "a plot"),
        (page.picture(np.zeros((2, 2, 3), np.uint8), alt="black"), "a dot"),
    ]
    html = page.render([section], {"seconds": "1 s", "machine": "here", "versions": "tetra 1"})
    assert "A &lt;title&gt;" in html and "figure &amp; label" in html
    assert "model.losses(torch.stack(images)" in html
    assert not re.search(r"""(src|href)=["']?(https?:)?//|url\(\s*["']?http|@import""", html)
    assert "<svg" in html and "data:image/png;base64," in html
    assert 'name="viewport"' in html


def test_missing_data_leaves_the_section_empty_and_the_rest_goes_on(tmp_path):
    out = tmp_path / "report.html"
    env = {**os.environ, **OFFLINE, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, str(DEMO / "report.py"), "--out", str(out), "--only", "clicks", "gallery"]
    shown = subprocess.run(command, capture_output=True, text=True, env=env, timeout=240)
    assert shown.returncode == 0, shown.stderr
    assert (
        len([line for line in shown.stdout.splitlines() if "left empty: MovieLens-100k could not be" in line])
        == 1
    )
    html = out.read_text()
    assert "could not be downloaded" in html and html.count("augmented") == 15
    assert not list((tmp_path / "cache").rglob("ml-100k.*"))


def test_a_damaged_download_is_named_and_not_used(tmp_path, monkeypatch):
    import data

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    data.cache().mkdir(parents=True)
    for name in data.FILES:
        (data.cache() / name).write_text("a:token\tb:float\n1\t2\n")
    with pytest.raises(data.MissingDataError, match=r"has 1 rows, expected 100000; delete it"):
        data.movielens()


def test_a_wheel_without_the_data_is_named(tmp_path, monkeypatch):
    import zipfile

    import data

    def fake(command, **_):
        with zipfile.ZipFile(
            Path(command[command.index("-d") + 1]) / "recbole-9.9-py3-none-any.whl", "w"
        ) as archive:
            archive.writestr("recbole/__init__.py", "")
        return SimpleNamespace(stderr="", returncode=0)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(data.subprocess, "run", fake)
    with pytest.raises(data.MissingDataError, match=r"recbole-9.9.*holds no ml-100k.inter"):
        data.movielens()


def test_a_section_that_fails_is_told_and_the_command_fails(tmp_path, monkeypatch):
    import gallery
    import report

    def broken(section, scratch):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(gallery, "run", broken)
    section, well = report.run_section("gallery", tmp_path)
    assert not well and "failed" in section.missing
