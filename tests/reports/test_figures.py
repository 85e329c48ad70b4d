"""Figures for papers: what they show is what was found, in files that look alike everywhere."""

import re
import subprocess
import xml.etree.ElementTree as ET
import zlib
from base64 import b64decode
from functools import partial
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from matplotlib.text import Text
from PIL import Image

from changing import replace
from eyechart.core.errors import UsageError
from eyechart.core.storage.files import MACHINE
from eyechart.reports import latex
from eyechart.reports.figures import (
    curve_figures,
    error_figure,
    overlap_figure,
    score_figures,
    testset_figures,
)
from eyechart.reports.figures.figure_files import (
    is_ours,
    plan_figures,
    save,
    write_drawings,
)
from eyechart.reports.figures.paper_style import (
    COLUMN,
    PAGE,
    SMALL,
    Drawing,
    columns_for,
    drawable,
    file_stems,
    model_styles,
    paper_style,
    safe_name,
    split_planned,
)
from eyechart.reports.series.curves import area_panels_of, best_space
from eyechart.reports.series.image_strips import has_failed, image_strip
from eyechart.reports.series.model_errors import errors_of
from eyechart.reports.series.model_scores import main_score, rank_panel
from eyechart.reports.series.overlap import OverlapPanel
from eyechart.reports.series.palette import COLORS
from eyechart.reports.series.report import load_report
from eyechart.reports.series.visual_change import spread_grids
from eyechart.reports.titles import groups_of
from eyechart.results.model_results import NormalizedErrors
from eyechart.results.study_models import CATEGORIES
from eyechart.stats.estimate import Estimate
from eyechart.stats.ranking import Swap
from nonempty import at_least_one
from report_runs import human_run, levels_run, make_once

NOISE, BLUR, BRIGHT = "vcr/gaussian_noise", "vcr/gaussian_blur", "vcr/brightness"
STRANGE = "模型😀 a/b\\..\\$x_{1}$ & 100% <b>#~^"


@pytest.fixture(scope="module")
def vcr(tmp_path_factory):
    return load_report([make_once(tmp_path_factory, human_run)])


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Runs of VCR, next to people, and of ImageNet-C."""
    folders = [make_once(tmp_path_factory, make) for make in (human_run, levels_run)]
    return load_report(folders)


@pytest.fixture(autouse=True)
def as_in_papers():
    with paper_style():
        yield


def renamed(report, name):
    """The report with its first model called something else."""
    parts = [
        replace(part, models=(replace(part.models[0], short=name), *part.models[1:]))
        for part in report.sections
    ]
    return replace(report, sections=tuple(parts))


def multiplied(part, count):
    """A part with so many models, copies of its own, in all categories."""
    models = [
        replace(
            part.models[place % len(part.models)],
            name=f"model {place}",
            short=f"model {place}",
            color=COLORS[place % len(COLORS)],
            category=(*CATEGORIES, "")[place % 6],
        )
        for place in range(count)
    ]
    return replace(part, models=tuple(models))


def texts(figure):
    return [own for own in figure.findobj(Text) if own.get_text() and own.get_visible()]


def bars(axes):
    """The lengths of all bars of a panel, from the first."""
    return [
        [patch.get_width() for patch in own]
        for own in axes.containers
        if isinstance(own, BarContainer)
    ]


def in_title(figure, word):
    return next(axes for axes in figure.axes if word in axes.get_title(loc="left"))


def values(line):
    return np.array([np.nan if own is None else own for own in line], dtype=float)


def area_of(collection):
    """The area of a filled shape, by the shoelace formula."""
    found = 0.0
    for path in collection.get_paths():
        x, y = path.vertices[:-1].T
        found += abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
    return found


# What they show


def test_bars_compared_with_humans_are_the_scores_of_the_results(vcr):
    (part,) = vcr.sections
    figure = score_figures.draw_human_index(part, "entry16", NOISE)
    own = [model.space("entry16").corruptions[NOISE].accuracy.humans for model in part.models]
    assert bars(in_title(figure, "HMRI"))[0] == [each.hmri.value for each in own]
    assert bars(in_title(figure, "MRSI"))[0] == [each.mrsi.value for each in own]
    said = {text.get_text() for text in texts(figure)}
    assert {f"{each.hmri.value:.3f}" for each in own} <= said
    ticks = [label.get_text() for label in in_title(figure, "HMRI").get_yticklabels()]
    assert ticks == [model.short for model in part.models]


def test_curves_go_through_the_points_of_the_results_pale_where_nothing_was_observed(vcr):
    (part,) = vcr.sections
    figure = score_figures.draw_human_index(part, "entry16", NOISE)
    drawn = [line.get_ydata() for line in in_title(figure, "accuracy").lines]
    scores = [model.space("entry16").corruptions[NOISE].accuracy for model in part.models]
    humans_line, *lines = drawn
    assert np.array_equal(humans_line, values(scores[0].humans.line.values))
    for place, score in enumerate(scores):
        pale, full = lines[2 * place : 2 * place + 2]
        line = score.humans.model_line
        assert np.array_equal(pale, values(line.values))
        change = values(line.delta_v)
        seen = np.any([(a <= change) & (change <= b) for a, b in score.observed], axis=0)
        assert not seen.all() and np.array_equal(np.isfinite(full), seen)
        assert np.array_equal(full[seen], pale[seen])


def test_without_humans_the_bars_are_robustness(vcr):
    (part,) = vcr.sections
    assert best_space(part, BRIGHT) == "native"
    figure = score_figures.draw_human_index(part, "native", BRIGHT)
    for letter in ("a", "p"):
        found = [
            model.space("native").corruptions[BRIGHT].properties[letter].robustness.value
            for model in part.models
        ]
        assert bars(in_title(figure, f"_{letter}"))[0] == found


def test_bars_have_the_color_and_the_hatch_of_their_category(vcr):
    part = multiplied(vcr.sections[0], 12)
    figure = score_figures.draw_human_index(part, "entry16", NOISE)
    (container,) = [own for own in in_title(figure, "HMRI").containers]
    looks = {(patch.get_facecolor(), patch.get_hatch()) for patch in container}
    assert len(looks) == len({color for color, _ in looks}) == len({hatch for _, hatch in looks})
    assert len(looks) == 6
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said[:2] == ["Vision transformer", "Supervised"] and len(said) == 6 + 3


def test_the_overview_has_a_panel_for_each_corruption_and_bands_of_83_percent(vcr):
    (part,) = vcr.sections
    figure = curve_figures.draw_overview(part, "native", ("a", "p"))
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "Gaussian noise", "Gaussian blur", "Brightness",
    ]  # fmt: skip
    score = part.models[0].space("native").corruptions[NOISE].accuracy
    (band,) = figure.axes[0].collections[0].get_paths()
    heights = set(np.round(band.vertices[:, 1], 9))
    assert set(np.round(values(score.curve.low83), 9)) <= heights
    assert set(np.round(values(score.curve.high83), 9)) <= heights
    assert any(
        np.array_equal(line.get_ydata(), values(score.curve.values))
        for line in figure.axes[0].lines
    )


def test_many_models_get_a_figure_for_each_property(vcr):
    many = replace(vcr, sections=(multiplied(vcr.sections[0], 10),))
    found = file_stems(split_planned(curve_figures.plan_curves(many))[0])
    assert found == [
        "curves-accuracy", "curves-consistency", "curves-entry16-accuracy",
        "curves-entry16-consistency",
    ]  # fmt: skip
    assert file_stems(split_planned(curve_figures.plan_curves(vcr))[0]) == [
        "curves",
        "curves-entry16",
    ]


def test_shaded_areas_are_as_large_as_the_results_say(vcr):
    (part,) = vcr.sections
    for model in at_least_one(part.models):
        series = area_panels_of(part, model)
        figure = curve_figures.draw_areas(series)
        assert series
        for axes, panel in zip(figure.axes, series, strict=False):
            own = panel.comparison
            filled = [each for each in axes.collections if isinstance(each, PolyCollection)]
            both, theirs, models = map(area_of, filled)
            assert theirs == pytest.approx(own.areas.human_ahead, abs=2e-3)
            assert models == pytest.approx(own.areas.model_ahead, abs=2e-3)
            assert both + theirs == pytest.approx(own.areas.human, abs=2e-3)
            assert both + models == pytest.approx(own.areas.model, abs=2e-3)
            said = "\n".join(text.get_text() for text in axes.texts)
            assert f"{own.areas.human_ahead:.3f}" in said and f"{own.hmri.value:.3f}" in said


def test_histograms_are_the_shares_of_the_test_set(report):
    plan = split_planned(testset_figures.plan_visual_change(report))[0][0]
    figure = plan.make()
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Gaussian noise", "Brightness"]
    runs = {run.config.suite: run for run in report.runs}
    found = [own.get_data() for own in figure.axes[0].patches if isinstance(own, StepPatch)]
    expected = []
    for suite, name in (("imagenet-c", "gaussian_noise"), ("vcr", NOISE)):
        counts = np.array(runs[suite].coverage[name].histogram)
        expected += 2 * [100 * counts / counts.sum()]
    assert len(found) == len(expected) == 4
    for own, shares in zip(found, expected, strict=True):
        assert np.allclose(own.values, shares) and len(own.edges) == 40
        assert own.values.sum() == pytest.approx(100)


def test_coverage_bars_are_the_shares_of_covered_bins(report):
    found = {
        plan.words: plan for plan in split_planned(testset_figures.plan_visual_change(report))[0]
    }
    assert {"delta_v", "coverage", "coverage-table"} == {words[0] for words in found}
    figure = found["coverage", "vcr"].make()
    run = next(run for run in report.runs if run.config.suite == "vcr")
    shares = [100 * run.coverage[name].paper for name in (NOISE, BLUR, BRIGHT)]
    assert [width for own in bars(figure.axes[0]) for width in own] == shares


def test_ranks_have_three_bars_a_model_and_triangles_where_places_change(report):
    rankings = report.discrete.corruptions[0]
    figure = score_figures.draw_ranks(rank_panel(report, rankings))
    first = rankings.ranks["ImageNet-C accuracy"].ranks
    names = sorted(first, key=first.get)
    for axes, scores in zip(figure.axes, rankings.scores.values(), strict=True):
        assert bars(axes)[0] == [scores[name].value for name in names]
    marked = {
        names[int(place)]
        for line in figure.axes[0].lines
        if line.get_marker() == "^"
        for place in line.get_ydata()
    }
    assert marked == {name for *_, own in rankings.swaps for name in (own.first, own.second)}


def test_triangles_are_full_only_where_the_change_is_sure(report):
    rankings = report.discrete.corruptions[0]
    one, two, *_ = rankings.ranks["R_a"].ranks
    for p_value, face in ((0.01, "full"), (0.2, "open")):
        swap = Swap(one, two, (p_value, p_value))
        own = replace(rankings, swaps=(("ImageNet-C accuracy", "R_a", swap),))
        figure = score_figures.draw_ranks(rank_panel(report, own))
        (line,) = [each for each in figure.axes[0].lines if each.get_marker() == "^"]
        assert len(line.get_ydata()) == 2
        assert (line.get_markerfacecolor() != "white") == (face == "full")


def test_peoples_curves_are_grouped_by_what_looks_alike(vcr):
    plan, *more = split_planned(curve_figures.plan_humans(vcr))[0]
    assert not more and plan.words == ("humans", "accuracy")
    figure = plan.make()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["(a) similar: noise", "(b) similar: blur", "(c) untested"]
    experiment = next(own for own in vcr.runs[0].results.humans if own.kind == "noise")
    line, *points = figure.axes[0].lines
    assert np.array_equal(line.get_ydata(), values(experiment.accuracy.line.values))
    dots = [own for own in points if own.get_marker() == "o"]
    assert [own.get_ydata()[0] for own in dots] == [
        point.rate for point in experiment.accuracy.points
    ]


def test_errors_by_severity_are_those_of_the_results(report):
    plan = next(
        p for p in split_planned(error_figure.plan_errors(report))[0] if p.words[0] == "severity"
    )
    figure = plan.make()
    part = next(part for part in report.sections if part.suite == "imagenet-c")
    for axes, name in at_least_one(zip(figure.axes, part.corruptions, strict=True)):
        for line, model in zip(axes.lines, part.models, strict=True):
            own = model.space("native").corruptions[name].error_by_severity
            assert list(line.get_xdata()) == [1, 2, 3, 4, 5]
            expected = [100 * own[level] for level in sorted(own)]
            assert list(line.get_ydata()) == pytest.approx(expected)


def whole_errors(report, mce=0.767):
    """The ImageNet-C part, with the means that a run of all its corruptions would have."""
    part = next(part for part in report.sections if part.suite == "imagenet-c")

    def number(value):
        return Estimate(
            value=value,
            interval95=(value - 0.1, value + 0.1),
            interval83=(value - 0.05, value + 0.05),
        )

    def with_errors(model, by):
        names = ("gaussian_noise", "fog", "defocus_blur", "jpeg_compression")
        own = NormalizedErrors(
            baseline="alexnet",
            ce={name: number(by + place / 10) for place, name in enumerate(names)},
            mce=number(by),
            relative_ce={name: number(by + 1) for name in names},
            relative_mce=number(by + 0.3),
            note="",
        )
        space = replace(model.results.spaces["native"], corruption_error=own)
        return replace(model, results=replace(model.results, spaces={"native": space}))

    models = [with_errors(own, mce + place / 10) for place, own in enumerate(part.models)]
    return replace(part, models=tuple(models))


def test_mce_stands_over_clean_error(report):
    part = whole_errors(report)
    figure = error_figure.draw_mce(errors_of(part))
    axes = figure.axes[0]
    marks = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
    for place, model in enumerate(part.models):
        full, hollow = marks[2 * place : 2 * place + 2]
        clean = 100 * (1 - model.space("native").clean_accuracy.value)
        assert full.get_xdata()[0] == hollow.get_xdata()[0] == pytest.approx(clean)
        assert full.get_ydata()[0] == pytest.approx(76.7 + 10 * place)
        assert hollow.get_ydata()[0] == pytest.approx(106.7 + 10 * place)
        assert full.get_markerfacecolor() != hollow.get_markerfacecolor() == "white"
    low, high = axes.get_ylim()
    assert low < 66.7 and high > 126.7 + 10


def test_error_bars_are_the_ce_of_every_model_and_their_mean(report):
    part = whole_errors(report)
    figure = error_figure.draw_error_bars("imagenet-c", errors_of(part))
    axes = figure.axes[0]
    # in the groups of the suite: noise, blur, weather, digital, and mCE last
    titles = [label.get_text() for label in axes.get_xticklabels()]
    assert titles == ["Gaussian", "Defocus", "Fog", "JPEG", "mCE"]
    heights = [bar.patches[0].get_height() for bar in axes.containers]
    assert len(heights) == 5 * len(part.models)
    for place in range(len(part.models)):
        expected = [76.7 + 10 * place + more for more in (0, 20, 10, 30, 0)]
        assert heights[5 * place : 5 * place + 5] == pytest.approx(expected)
    kinds = {bar.patches[0].get_hatch() for bar in axes.containers}
    assert len(kinds) == len(part.models)


def coverage_tables(report):
    drawings = split_planned(testset_figures.plan_visual_change(report))[0]
    tables = {plan.words: plan for plan in drawings if plan.words[0] == "coverage-table"}
    assert all(plan.endings == (".tex",) for plan in tables.values())
    return tables


def test_the_coverage_table_holds_the_shares_of_the_results(report):
    text = coverage_tables(report)["coverage-table",].make()
    heads, body = text.split(r"\midrule")
    assert r" & \multicolumn{2}{c}{ImageNet-C} & \multicolumn{2}{c}{VCR-Bench} \\" in heads
    assert " & 39 bins & 40 bins & 39 bins & 40 bins " in heads
    spread = spread_grids(report)[0]
    assert spread.suites == ("ImageNet-C", "VCR-Bench") and spread.corruptions
    for place, own in enumerate(spread.corruptions.values()):
        cells = body.strip().splitlines()[place].removesuffix(r" \\").split(" & ")
        coverages = [own[title].coverage for title in spread.suites]
        shares = [share for found in coverages for share in (found.paper, found.equal)]
        assert cells[1:] == [f"{share:.3f}" for share in shares]


def test_the_coverage_table_says_what_it_counts(report):
    caption = coverage_tables(report)["coverage-table", "vcr"].caption
    run = next(run for run in report.runs if run.config.suite == "vcr")
    (samples,) = {coverage.rows for coverage in run.coverage.values()}
    images = len(run.results.images.digests)
    assert caption.endswith(
        f" VCR-Bench: at least 3 samples in a covered bin, {samples} samples per corruption,"
        f" {images} images."
    )


def test_the_overlap_map_shows_every_score(tmp_path):
    scores = ((1.0, 0.25, 0.0), (0.25, 1.0, 0.5), (0.0, 0.5, 1.0))
    found = overlap_figure.plan_overlap(
        OverlapPanel(("hue", "rain", "blur"), scores, ("hue", "blur"))
    )
    figure = next(found).make()
    assert np.array_equal(figure.axes[0].images[0].get_array(), scores)
    assert [text.get_text() for text in figure.axes[0].texts] == [
        f"{100 * score:.0f}" for row in scores for score in row
    ]
    weights = [label.get_fontweight() for label in figure.axes[0].get_xticklabels()]
    assert weights == ["bold", "normal", "bold"]


def test_the_overlap_map_hatches_what_is_undetermined():
    nan = float("nan")
    scores = ((1.0, 1.25, nan), (1.25, 1.0, nan), (nan, nan, nan))
    (plan,) = overlap_figure.plan_overlap(OverlapPanel(("hue", "rain", "blur"), scores))
    assert "Hatched: undetermined" in plan.caption
    axes = plan.make().axes[0]
    hatched = {patch.get_xy() for patch in axes.patches if patch.get_hatch()}
    assert hatched == {(1.5, -0.5), (1.5, 0.5), (-0.5, 1.5), (0.5, 1.5), (1.5, 1.5)}
    assert [text.get_text() for text in axes.texts] == [*("100", "125", "–"), *("125", "100", "–"),
                                                        *"–––"]  # fmt: skip


def test_examples_frame_each_models_first_wrong_prediction(vcr):
    (part,) = vcr.sections
    strip = image_strip(vcr, part, NOISE).spread_over(testset_figures.MOST)
    changes = [image.example.delta_v for image in strip.images]
    assert 2 < len(changes) <= testset_figures.MOST and changes == sorted(changes)
    figure = testset_figures.draw_examples(part.models, strip)
    assert len(figure.axes[0].images) == len(changes)
    frames = [patch for patch in figure.axes[0].patches]
    first = [
        next(
            (
                place
                for place, image in enumerate(strip.images)
                if not image.example.predictions[model.name].correct
            ),
            None,
        )
        for model in part.models
    ]
    places = [
        round((p.get_x() - testset_figures.NAMES) / (testset_figures.SIDE + testset_figures.GAP))
        for p in frames
    ]
    assert places == [place for place in first if place is not None] != []


def test_a_prediction_fails_by_the_label_or_by_the_clean_image_where_there_is_none(vcr):
    strip = image_strip(vcr, vcr.sections[0], NOISE)
    shown = next(iter(strip.images[-1].predictions.values()))
    for correct, consistent, failed in (
        (True, False, False), (False, True, True), (None, False, True), (None, True, False),
        (None, None, False),
    ):  # fmt: skip
        prediction = replace(shown, correct=correct, consistent=consistent)
        assert has_failed(prediction) is failed


# How they look


def one_of_each(report):
    """The first plan of every kind."""
    kept = {}
    for plan in plan_figures(report)[0]:
        kept.setdefault(plan.words[0], plan)
    return kept


def test_no_text_is_too_small_and_all_widths_are_those_of_papers(report):
    for plan in at_least_one(one_of_each(report).values()):
        figure = plan.make()
        if isinstance(figure, Figure):
            assert min(text.get_fontsize() for text in texts(figure)) >= SMALL
            assert figure.get_figwidth() in (COLUMN, PAGE)
            assert figure.get_figheight() < 9.5


def test_names_with_strange_letters_are_drawn_without_a_warning(report, tmp_path):
    kinds = one_of_each(renamed(report, STRANGE))
    for name in ("curves", "ranks", "examples"):
        kinds[name].make().draw_without_rendering()
    figure = kinds["areas"].make()
    assert any(drawable(STRANGE) == text.get_text() for text in texts(figure))
    for kind in ("svg", "pdf"):
        save(figure, tmp_path / f"strange.{kind}", kind, kinds["areas"].caption)
    title = ET.parse(tmp_path / "strange.svg").getroot().find("{*}title").text
    assert title.startswith("□□😀 a/b")


@given(st.text())
def test_any_text_becomes_one_line_that_is_no_mathematics(text):
    found = drawable(text)
    assert len(found.replace(r"\$", "$")) <= 26 and "\n" not in found
    assert found.count("$") == found.count(r"\$")
    assert found.isprintable()


def test_letters_that_the_font_lacks_become_boxes():
    assert drawable("ΔR·模型") == "ΔR·□□"
    assert drawable("cost $5 & $6") == r"cost \$5 & \$6"
    assert drawable("a" * 20 + "b" * 20) == "a" * 13 + "…" + "b" * 12


def test_models_are_told_apart_without_color(vcr):
    for count in (10, 25):
        models = multiplied(vcr.sections[0], count).models
        looks = list(model_styles(models).values())
        assert len({(look.color, str(look.dash)) for look in looks}) == count
        assert len({(look.color, look.marker) for look in looks}) == count
        assert len({str(look.dash) for look in looks[:10]}) == 10


def test_curves_of_one_category_differ_by_their_dashes(vcr):
    models = multiplied(vcr.sections[0], 30).models
    looks = model_styles(models, by_category=True).values()
    assert len({(look.color, str(look.dash)) for look in looks}) == 30


def test_a_scale_corrected_for_chance_is_named(vcr):
    (part,) = vcr.sections
    model = part.models[0]
    space = model.results.spaces["entry16"]
    score = space.corruptions[NOISE]
    own = replace(score.accuracy.humans, corrected_for_chance=True)
    score = replace(score, accuracy=replace(score.accuracy, humans=own))
    space = replace(space, corruptions={**space.corruptions, NOISE: score})
    model = replace(model, results=replace(model.results, spaces={"entry16": space}))
    for models, said in (((model,), True), (part.models, False)):
        figure = score_figures.draw_human_index(replace(part, models=models), "entry16", NOISE)
        assert ("chance-corrected" in in_title(figure, "accuracy").get_title(loc="left")) is said


def test_long_names_stay_different(vcr):
    part = multiplied(vcr.sections[0], 2)
    twins = [replace(own, short="x" * 40 + str(n) + "y" * 40) for n, own in enumerate(part.models)]
    names = [look.name for look in model_styles(tuple(twins)).values()]
    assert len(set(names)) == 2


@pytest.mark.parametrize(
    "count, columns", [(1, 1), (5, 5), (6, 3), (9, 3), (14, 5), (15, 5), (21, 4)]
)
def test_panels_fill_their_rows(count, columns):
    assert columns_for(count) == columns


# Tables


def test_tables_are_grouped_as_published_and_hold_the_scores(report):
    part = whole_errors(report)
    text = error_figure.error_table("imagenet-c", errors_of(part), False)
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    groups, head, *body = rows
    assert re.findall(r"\{c\}\{(\w+)\}", groups) == ["Noise", "Blur", "Weather", "Digital"]
    assert re.findall(r"\}\{([A-Za-z ]+)\}", head) == [
        "Gaussian", "Defocus", "Fog", "JPEG",
    ]  # fmt: skip
    width = len(re.search(r"begin\{tabular\}\{([lr ]+)\}", text)[1].replace(" ", ""))
    assert all(row.count(" & ") == width - 1 for row in (head, *body))
    clean = 100 * (1 - part.models[0].space("native").clean_accuracy.value)
    cells = body[0].removesuffix(r" \\").split(" & ")
    assert cells[1:] == [f"{clean:.1f}", "76.7", "77", "97", "87", "107"]
    relative = error_figure.error_table("imagenet-c", errors_of(part), True)
    assert "Rel. mCE" in relative and "106.7" in relative


def test_names_are_escaped_for_latex(report):
    part = whole_errors(report)
    strange = replace(part.models[0], short=STRANGE)
    own = errors_of(replace(part, models=(strange, *part.models[1:])))
    row = next(
        line
        for line in error_figure.error_table("imagenet-c", own, False).splitlines()
        if "100" in line
    )
    assert row.startswith(
        r"??? a/b\textbackslash{}..\textbackslash{}\$x\_\{1\}\$ \& 100\% \textless{}b\textgreater{}"
        r"\#\textasciitilde{}\textasciicircum{} & "
    )


@given(st.text())
def test_no_text_ends_a_cell_or_a_comment(text):
    found = latex.tex(text)
    bare = re.sub(r"\\(?:text[a-z]+\{\}|[\\{}$&#%_])", "", found)
    assert not set(bare.replace("-{}", "")) & set("\\{}$&#%_~^\n\r")
    assert "\n" not in latex.plain(text)


def test_corruptions_without_a_known_group_are_in_one_table_without_groups():
    assert groups_of("somebody's", ["b", "a"]) == [("", ["b", "a"])]
    assert error_figure._group_lines([("", 2)]) == []


# Files


@pytest.fixture(scope="module")
def some(report):
    """A few figures and a table: writing all would take long."""
    kept = one_of_each(report)
    names = ("curves", "delta_v", "ranks", "examples", "corruption-errors")
    return [kept[name] for name in names]


@pytest.fixture
def writing(some):
    """Write some of a report's figures."""
    return partial(write_drawings, some)


@pytest.fixture(scope="module")
def written(some, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "new" / "figures"
    return write_drawings(some, folder)


def test_every_figure_is_there_as_svg_and_pdf(written, some):
    stems = file_stems(some)
    names = {path.name for path in written}
    for plan, stem in zip(some, stems, strict=True):
        assert {f"{stem}{ending}" for ending in plan.endings} <= names
    assert {path.parent for path in written} == {written[0].parent}
    assert sorted(written[0].parent.iterdir()) == sorted(written)
    assert all(path.stat().st_size > 200 and is_ours(path) for path in written)
    assert {"curves-vcr", "delta_v", "ranks-gaussian_noise"} <= set(stems)


def test_figures_that_a_killed_process_left_half_written_are_removed(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = tmp_path / f".curves.svg.{MACHINE}.{gone.pid}.tmp"
    left.write_text("half")
    drawings = [Drawing(("curves",), "Curves", Figure)]
    assert sorted(write_drawings(drawings, tmp_path)) == sorted(tmp_path.iterdir())


def test_svg_files_are_whole_and_their_text_needs_no_font(written):
    for path in at_least_one(written):
        if path.suffix == ".svg":
            root = ET.parse(path).getroot()
            assert root.tag.endswith("svg") and root.find("{*}title").text
            assert not list(root.iter("{http://www.w3.org/2000/svg}text"))
            assert b"<dc:date>" not in path.read_bytes()


def test_images_keep_all_their_pixels(written, some):
    (path,) = [each for each in written if each.name.startswith("examples") and "svg" in each.name]
    images = ET.parse(path).getroot().iter("{http://www.w3.org/2000/svg}image")
    sides = []
    for own in images:
        content = b64decode(own.get("{http://www.w3.org/1999/xlink}href").partition(",")[2])
        sides.append(Image.open(BytesIO(content)).size)
    assert len(sides) > 2 and set(sides) == {(80, 80)}


def test_pdf_files_embed_the_fonts_that_they_use(written):
    for path in at_least_one(written):
        if path.suffix != ".pdf":
            continue
        content = path.read_bytes()
        fonts = set(re.findall(rb"/FontName /([A-Z]{6}\+[\w-]+)", content))
        used = set(re.findall(rb"/BaseFont /([\w+-]+)", content))
        assert fonts and used == fonts
        assert b"/Subtype /Type3" not in content and b"/Subtype /Type1" not in content
        descriptors = re.findall(rb"/Type /FontDescriptor.*?>>", content, re.DOTALL)
        assert all(b"/FontFile2" in own for own in descriptors)
        assert b"/CreationDate" not in content and b"/Creator (eyechart)" in content


def test_delta_is_in_the_embedded_font(written):
    (path,) = [each for each in written if each.name == "delta_v.pdf"]
    content = path.read_bytes()
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL)
    maps = [text for own in streams if b"beginbfchar" in (text := inflated(own))
            or b"beginbfrange" in text]  # fmt: skip
    assert any(b"0394" in own for own in maps)


def inflated(stream):
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return stream


def test_the_same_report_gives_the_same_bytes_at_any_time(written, writing, tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    again = writing(tmp_path)
    assert [path.name for path in again] == [path.name for path in written]
    for one, two in zip(written, again, strict=True):
        assert one.read_bytes() == two.read_bytes(), one.name


def test_files_of_ours_are_replaced(some, tmp_path):
    (path,) = write_drawings(some[-1:], tmp_path)
    whole = path.read_text("utf-8")
    path.write_text(whole.splitlines()[0], "utf-8")
    write_drawings(some[-1:], tmp_path)
    assert path.read_text("utf-8") == whole


def test_files_of_others_are_kept_and_nothing_is_written_beside_them(writing, tmp_path):
    for name in ("delta_v.svg", "ranks-gaussian_noise.pdf"):
        folder = tmp_path / name.replace(".", "")
        folder.mkdir()
        (folder / name).write_text("mine")
        with pytest.raises(UsageError, match=r"not written by eyechart.*\.$"):
            writing(folder)
        assert [path.name for path in folder.iterdir()] == [name]
        assert (folder / name).read_text() == "mine"


def test_a_folder_in_the_place_of_a_figure_is_kept(writing, tmp_path):
    (tmp_path / "delta_v.svg").mkdir()
    with pytest.raises(UsageError, match="not written by eyechart"):
        writing(tmp_path)


def test_a_file_where_the_folder_should_be_is_one_sentence(writing, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is a file"):
        writing(tmp_path / "file")
    with pytest.raises(UsageError, match=r"Cannot write into .*\.$"):
        writing(tmp_path / "file" / "below")


def test_names_cannot_leave_the_folder(report):
    for name in ("../../x", "/etc/passwd", "a\\..\\b", "..", "", "\0", "con", STRANGE, "é" * 300):
        drawings = plan_figures(renamed(report, name))[0]
        stems = file_stems(drawings)
        assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", stem) for stem in stems)
        assert all(".." not in stem.strip(".") or "/" not in stem for stem in stems)
        assert len({stem.lower() for stem in stems}) == len(drawings)
        assert max(map(len, stems)) <= 90


@given(st.lists(st.text(max_size=5), min_size=1, max_size=12))
def test_names_of_files_are_safe_and_different(words):
    stems = file_stems([Drawing(("curves", word), "", str) for word in words])
    assert len({stem.lower() for stem in stems}) == len(words)
    assert all(re.fullmatch(r"curves[A-Za-z0-9._-]*", stem) for stem in stems)
    assert safe_name("/..") == "figure"


def test_what_cannot_be_drawn_is_said(vcr, report):
    notes = plan_figures(vcr)[1]
    assert all(note.endswith(".") for note in notes)
    for word in ("ranks", "human consistency", "mCE", "severity", "brightness"):
        assert any(word in note for note in notes), word
    assert not any("ranks" in note for note in plan_figures(report)[1])


def test_settings_of_the_user_change_nothing_and_stay(vcr):
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "text.color": "red", "lines.linewidth": 9}):
        with paper_style():
            figure = next(curve_figures.plan_humans(vcr)).make()
        assert max(text.get_fontsize() for text in texts(figure)) < 10
        assert matplotlib.rcParams["font.size"] == 30


# The main score by corruption


def test_main_scores_are_drawn_worst_first_with_humans(report):
    for part in at_least_one(report.sections):
        main = main_score(part)
        (axes,) = score_figures.draw_main_scores(main).axes
        titles = [own.get_text().lower() for own in axes.get_yticklabels()]
        assert titles == [name.rsplit("/", 1)[-1].replace("_", " ") for name in main.corruptions]
        points = [line for line in axes.lines if line.get_marker() != "|"]
        assert len(points) == len(part.models)
        for model, line in zip(part.models, points, strict=True):
            rows = [titles[round(float(place))] for place in line.get_ydata()]
            shown = dict(zip(rows, line.get_xdata(), strict=True))
            scores = {name: number.value for name, number in main.of(model).items()}
            by_title = dict(zip(titles, main.corruptions, strict=True))
            assert shown == {row: scores[by_title[row]] for row in titles}
        marks = [line for line in axes.lines if line.get_marker() == "|"]
        assert [mark.get_xdata()[0] for mark in marks] == list(main.humans.values())
    assert main_score(report.sections[0]).humans
