"""Geometric corruptions: curves under rulers that can measure them, and single conditions."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import eyechart as ec
from eyechart.reports.html.report_page import render_report
from eyechart.reports.series.report import make_report
from eyechart.results.runs import read_run
from eyechart.testsets.plan import MOVED, SINGLE, Plan
from eyechart.visual_change import registry
from eyechart.visual_change.registry import RULERS
from report_runs import AT_LEVELS, SHARP, evaluate, save_hues

ROTATE, MIRROR = "geometry/rotate", "geometry/mirror"
SETTINGS = (
    *("--suite", "geometry", "--corruption", "rotate", "--corruption", "mirror"),
    *("--bins", 20, "--min-per-bin", 3, "--n-bootstrap", 20),
)


class Histograms:
    """How many pixels differ in gray level, wherever they are: content may move."""

    name, version, limits, raw_name = "histograms", 1, "Ignores where pixels are.", "Δv"
    summary = "Differences of histograms."
    smallest_side = full_side = 1

    def __init__(self, images=None):
        self.images = images

    def __len__(self):
        return len(self.images)

    n_scales = 1

    @property
    def measurable(self):
        return torch.ones(len(self), dtype=torch.bool)

    def select(self, indices):
        return Histograms(self.images[indices])

    def describe(self, clean):
        return Histograms(clean)

    def compare(self, description, corrupted):
        one, two = (
            images.flatten(1).double().sort(dim=1).values
            for images in (description.images, corrupted)
        )
        return (one - two).abs().mean(dim=1) / 255

    def raw(self, delta_v):
        return delta_v


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_hues(tmp_path_factory.mktemp("geometry") / "hues", each=3)


@pytest.fixture(scope="module")
def measured(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RULERS, "_items", {**RULERS._items, "histograms": Histograms()})
        patch.setattr(registry, "MEASURE_GEOMETRY", ("histograms",))
        options = (*SETTINGS, "--ruler", "histograms")
        return evaluate(
            folder, folder.with_name("measured"), *options, models=(SHARP,), small=AT_LEVELS
        )


@pytest.fixture(scope="module")
def by_vif(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RULERS, "_items", {**RULERS._items, "histograms": Histograms()})
        patch.setattr(registry, "MEASURE_GEOMETRY", ("histograms",))
        return evaluate(
            folder, folder.with_name("vif"), *SETTINGS, models=(SHARP,), small=AT_LEVELS
        )


def test_a_rotation_has_an_area_over_the_range_that_it_reaches(measured):
    results = ec.load(measured)
    rotated = results[SHARP].spaces["native"].corruptions[ROTATE]
    for scored in (rotated.accuracy, rotated.consistency):
        end = scored.observed[-1][1]
        assert 0 < end < 0.5
        assert scored.bounds[0] <= scored.robustness.value <= scored.bounds[1]
        places, values = np.array(scored.curve.delta_v), np.array(scored.curve.values)
        inside = np.linspace(0, end, 2000)
        expected = np.interp(inside, places, values).mean()
        assert scored.robustness.value == pytest.approx(expected, abs=0.02)
        assert scored.break_point is not None
    (sentence,) = [text for text in results.warnings if text.startswith("Areas of geometric")]
    assert f"{ROTATE} {rotated.accuracy.observed[-1][1]:.2f}" in sentence
    assert not any("extrapolated" in text for text in results.warnings)


def test_under_vif_a_sentence_says_which_rulers_can_measure_it(by_vif):
    results = ec.load(by_vif)
    scored = results[SHARP].spaces["native"].corruptions[ROTATE].accuracy
    assert scored.note == MOVED and scored.robustness is None
    assert "The ruler vif cannot measure geometric corruptions; with --ruler histograms they" in (
        " ".join(results.warnings)
    )


def test_quarter_turns_and_the_mirror_are_points_beside_humans(measured):
    spaces = ec.load(measured)[SHARP].spaces
    mirrored = spaces["native"].corruptions[MIRROR]
    (point,) = mirrored.conditions
    assert (point.condition, point.n_samples) == ("mirror", 24)
    assert mirrored.accuracy.note == SINGLE
    assert point.accuracy.value == pytest.approx(mirrored.accuracy.rate.value)
    table = pq.read_table(measured / "predictions" / "geometry-rotate.parquet").to_pandas()
    angles = [dict(values)["degrees"] * dict(values)["clockwise"] for values in table.parameters]
    humans = {"90°": 0.84, "180°": 0.80, "270°": 0.85}
    for space, known in (("native", {}), ("entry16", humans)):
        points = {point.condition: point for point in spaces[space].corruptions[ROTATE].conditions}
        assert list(points) == list(humans)
        assert {name: point.human_accuracy for name, point in points.items()} == {
            name: known.get(name) for name in humans
        }
    for name, point in points.items():
        chosen = np.array(angles) % 360 == int(name[:-1])
        assert point.n_samples == chosen.sum() > 0
    native = {point.condition: point for point in spaces["native"].corruptions[ROTATE].conditions}
    clean = pq.read_table(measured / "predictions" / "clean.parquet").to_pandas()
    before = clean.set_index("image").prediction
    chosen = table[np.array(angles) % 360 == 270]
    agree = (chosen.prediction.to_numpy() == before[chosen.image].to_numpy()).mean()
    assert native["270°"].consistency.value == pytest.approx(agree)


def test_the_report_has_the_points_in_a_table(measured):
    page = render_report(make_report([read_run(measured)]))
    assert "Accuracy (%) at single conditions of" in page
    assert "Humans (Geirhos et al. 2021)" in page and "<th" in page and "270°" in page


def test_a_curve_needs_a_strength_and_a_ruler_that_can_measure_it(monkeypatch):
    monkeypatch.setattr(registry, "MEASURE_GEOMETRY", ("sheikh2006",))
    plans = [Plan(suite="geometry", ruler=ruler) for ruler in ("vif", "sheikh2006")]
    rotate, *_, mirror = plans[0].entries()
    assert [plan.why_no_curve(rotate) for plan in plans] == [MOVED, ""]
    assert [plan.why_no_curve(mirror) for plan in plans] == [MOVED, SINGLE]
