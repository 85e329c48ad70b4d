"""What is drawn is chosen once: the same series for curves.png, the report and the figures."""

import numpy as np
import pytest

from eyechart.reports.html.report_page import charts_of
from eyechart.reports.series.curves import area_panels, curve_panel, run_panels
from eyechart.reports.series.human_curves import human_experiments, human_panels
from eyechart.reports.series.report import models_of
from eyechart.reports.series.visual_change import histogram_of, spread_grids

NOISE = "vcr/gaussian_noise"


def test_under_matched_choices_curves_have_humans_on_the_scale_of_the_areas(made):
    report, _ = made("chance")
    (part,) = report.sections
    models = models_of(report.runs[0].results)
    accuracy, consistency = run_panels(models, "entry16", NOISE)
    assert accuracy.is_corrected and accuracy.humans is not None
    by_model = {panel.model.name: panel for panel in area_panels(part, "entry16", NOISE, "a")}
    assert set(by_model) == {model.name for model in models} != set()
    for own in accuracy.curves:
        assert own.line == by_model[own.model.name].comparison.model_line
        assert accuracy.humans.line == by_model[own.model.name].comparison.line
    assert consistency.humans is None and not consistency.is_corrected
    # another label space has another scale, on which humans cannot stand
    native, _ = run_panels(models, "native", NOISE)
    assert native.humans is None and native.curves


def test_curves_of_own_classes_borrow_humans_on_the_same_scale(made):
    report, _ = made("humans")
    models = models_of(report.runs[0].results)
    native, entry16 = (run_panels(models, space, NOISE)[0] for space in ("native", "entry16"))
    assert native.humans is not None and entry16.humans is not None
    assert native.humans.line == entry16.humans.line
    # the report puts them beside models of the same label space alone
    assert curve_panel(models, "native", NOISE, "a").humans is None


def test_rates_are_those_of_bins_with_the_minimum_count(made):
    report, _ = made("humans")
    (own, *_) = curve_panel(report.sections[0].models, "native", NOISE, "a").curves
    counts = np.array(own.curve.bin_counts)
    assert 0 < len(own.rates(3)) == (counts >= 3).sum() < len(counts)
    middles = [middle for middle, _ in own.rates(0.5)]
    assert all(any(low <= x <= high for low, high in own.score.observed) for x, _ in own.rates(3))
    assert middles == sorted(middles)


def test_classes_of_similar_corruptions_come_before_what_is_in_none(made):
    report, _ = made("humans")
    panels = human_panels(*human_experiments(report).values(), "a")
    assert [panel.short_title for panel in panels] == [
        "similar: noise", "similar: blur", "untested"
    ]  # fmt: skip
    charts = [chart for chart in charts_of(report) if chart.kind == "humans"]
    assert [chart.alt for chart in charts] == [panel.in_words() for panel in panels]


@pytest.mark.parametrize("kind", ["both", "native"])
def test_histograms_show_percentages_of_all_samples(made, kind):
    report, _ = made(kind)
    (grid, *_) = spread_grids(report)
    assert grid.corruptions
    for spreads in grid.corruptions.values():
        for spread in spreads.values():
            measured = sum(spread.coverage.histogram) / spread.coverage.rows
            assert sum(spread.percentages) == pytest.approx(100 * measured)
    place = next(n for n, part in enumerate(report.sections) if part.suite == "vcr")
    (first, *_) = report.sections[place].corruptions
    shown = histogram_of(report, place, first)
    assert [each.suite for each in shown] == (["imagenet-c", "vcr"] if kind == "both" else ["vcr"])
