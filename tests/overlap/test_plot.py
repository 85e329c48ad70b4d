"""Heat maps side by side: the same corruptions in the same order, as asked for."""

from pathlib import Path

import numpy as np
import pytest

from commands import assert_rejected
from eyechart.cli.overlap.matrices import _order
from eyechart.overlap.matrix import OverlapMatrix
from eyechart.overlap.matrix_file import write_matrix
from eyechart.reports.figures.overlap_figure import draw_side_by_side
from eyechart.reports.figures.paper_style import paper_style
from eyechart.reports.series.overlap import in_order, read_overlap

NAMES = ("frost", "noc/rain", "shot_noise", "noc/hue", "gaussian_noise")


def matrix(path: Path, names=NAMES, seed=0) -> Path:
    scores = np.random.default_rng(seed).random((len(names), len(names)))
    scores = (scores + scores.T) / 2
    np.fill_diagonal(scores, 1)
    write_matrix(OverlapMatrix(tuple(names), scores), path, ["noc/rain"])
    return path


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (["given"], list(NAMES)),
        # the order in which ImageNet-C has them, then that of ImageNet-NOC
        (
            ["imagenet-c", "imagenet-noc"],
            ["gaussian_noise", "shot_noise", "frost", "noc/rain", "noc/hue"],
        ),
        (["noc/hue", "frost"], ["noc/hue", "frost"]),
        (["frost", "imagenet-c"], ["frost", "gaussian_noise", "shot_noise"]),
    ],
)
def test_corruptions_come_in_the_order_that_was_asked_for(tmp_path, asked, shown):
    assert _order([read_overlap(matrix(tmp_path / "a.csv"))], asked) == shown


def test_clusters_are_of_the_first_matrix_and_of_what_all_matrices_have(tmp_path):
    one = read_overlap(matrix(tmp_path / "a.csv"))
    two = read_overlap(matrix(tmp_path / "b.csv", NAMES[1:], seed=1))
    assert sorted(_order([one, two], ["cluster"])) == sorted(NAMES[1:])


def test_each_heat_map_shows_its_own_scores_in_that_order(tmp_path):
    paths = [matrix(tmp_path / "a.csv"), matrix(tmp_path / "b.csv", NAMES[::-1], seed=1)]
    names = ["noc/hue", "gaussian_noise", "frost"]
    stored = [read_overlap(path) for path in paths]
    with paper_style():
        figure = draw_side_by_side([in_order(own, names) for own in stored], ["first", "second"])
    for axes, own, title in zip(figure.axes, stored, ["first", "second"], strict=False):
        drawn = axes.images[0].get_array()
        for row, one in enumerate(names):
            for column, two in enumerate(names):
                expected = own.scores[own.names.index(one)][own.names.index(two)]
                assert drawn[row, column] == expected
        assert axes.get_title(loc="left") == title
        labels = [label.get_text() for label in axes.get_xticklabels()]
        assert labels == ["Hue", "Gaussian noise", "Frost"]


@pytest.mark.parametrize("ending", [".svg", ".pdf", ".png"])
def test_the_command_writes_the_figure_and_says_what_it_left_out(run, tmp_path, ending):
    one, two = matrix(tmp_path / "a.csv"), matrix(tmp_path / "b.csv", seed=1)
    out = tmp_path / f"heat{ending}"
    result = run("overlap", "plot", one, two, "--out", out, "--order", "imagenet-c")
    assert result.status == 0, result.err
    assert out.stat().st_size > 1000
    assert "Not shown" in result.out and "noc/rain" in result.out
    # written again over our own, never over somebody else's
    assert run("overlap", "plot", one, "--out", out).status == 0
    out.write_bytes(b"somebody's")
    assert_rejected(run("overlap", "plot", one, "--out", out), "not written by eyechart")
    assert out.read_bytes() == b"somebody's"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--out", "heat.jpg"], [".svg, .pdf or .png", "heat.jpg"]),
        (["--out", "heat.svg", "--order", "imagenet-k"], ["Did you mean 'imagenet-c'"]),
        (["--out", "heat.svg", "--order", "given", "--order", "vcr"], ["must be the only value"]),
        (["--out", "heat.svg", "--order", "frost"], ["fewer than 2"]),
        (["--out", "heat.svg", "--title", "a", "--title", "b"], ["once for each", "got 2"]),
        (["--out", "none/heat.svg"], ["No such folder"]),
    ],
)
def test_what_cannot_be_drawn_is_said_in_one_sentence(run, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    matrix(tmp_path / "a.csv")
    assert_rejected(run("overlap", "plot", "a.csv", *options), *words)
