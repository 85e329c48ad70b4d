"""Charts of a report: their numbers are those of results.json, their words are true of them."""

import json
import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.color import rgb2lab

import report_runs
from changing import replace
from chart_values import shown_values, wanted_values
from eyechart.core.errors import UsageError
from eyechart.reports.html.charts.chart import labels, slug
from eyechart.reports.html.report_page import charts_of
from eyechart.reports.series.curves import crossings, gaps
from eyechart.reports.series.overlap import OverlapPanel, clustered, read_overlap
from eyechart.reports.series.palette import CATEGORY_COLORS, CATEGORY_PATTERNS, COLORS
from eyechart.reports.series.report import load_report
from eyechart.results.runs import Leaderboard
from eyechart.results.study_models import CATEGORIES
from eyechart.stats.ranking import Swap
from nonempty import at_least_one
from report_shelf import Shelf

HALF_A_DIGIT = 5.001e-7
"""Of six decimals."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Runs of VCR with people, and of ImageNet-C."""
    made = (report_runs.human_run, report_runs.levels_run)
    return [report_runs.make_once(tmp_path_factory, each) for each in made]


@pytest.fixture(scope="module")
def report(folders):
    return load_report(folders)


@pytest.fixture(scope="module")
def found(folders):
    """What the runs' results.json hold, read without anything of eyechart's."""
    return [json.loads((folder / "results.json").read_text()) for folder in folders]


@pytest.fixture(scope="module")
def charts(report):
    return charts_of(report)


def of_kind(charts, kind):
    return [chart for chart in charts if chart.kind == kind]


def record(found, chart, model):
    """What results.json says of a model under a chart's corruption, by the chart's property."""
    (own,) = [own for own in found[chart.section]["models"] if own["name"] == model]
    corruption = own["spaces"][chart.space]["corruptions"][chart.corruption]
    return corruption[{"a": "accuracy", "p": "consistency"}[chart.property]]


def traces(charts):
    return [(chart, trace) for chart in charts for trace in chart.spec["data"]]


def test_there_is_a_chart_of_every_kind_under_an_id_of_its_own(charts):
    kinds = {chart.kind for chart in charts}
    assert kinds == {
        "curves", "human-index", "areas", "histogram", "coverage", "ranks", "humans", "severity",
        "main-score",
    }  # fmt: skip
    ids = [chart.id for chart in charts]
    assert len(set(ids)) == len(ids) and all(re.fullmatch("[a-z0-9-]+", own) for own in ids)
    assert all(chart.title and chart.alt.endswith(".") for chart in charts)


def test_specs_are_plain_json(charts):
    for chart in at_least_one(charts):
        assert json.loads(json.dumps(chart.spec, allow_nan=False)) == chart.spec


def test_numbers_are_those_of_the_results(charts, report):
    shelf, compared = Shelf(report), 0
    for chart, trace in traces(charts):
        values = wanted_values(shelf, chart, trace)
        if values is None:
            assert chart.kind == "ranks" or trace.get("hoverinfo") == "name"
            continue
        assert shown_values(chart, trace) == pytest.approx(values, abs=HALF_A_DIGIT)
        compared += 1
    assert compared > 100


def test_bands_and_rates_are_those_of_the_results_to_a_thousandth(charts, found, report):
    compared = 0
    for chart in of_kind(charts, "curves"):
        for trace in chart.spec["data"]:
            own = trace["meta"].get("bands")
            if own is None:
                continue
            name = trace["meta"]["model"]
            own_record = record(found, chart, report.models[0].name if name == "humans" else name)
            curve = own_record["humans"]["line"] if name == "humans" else own_record["curve"]
            for level in ("95", "83"):
                for name, ends in zip(("low", "high"), own[level], strict=True):
                    wanted = curve[f"{name}{level}"][:: own["thin"]]
                    assert np.array(ends) / own["scale"] == pytest.approx(wanted, abs=5.1e-4)
            grid = trace["x0"] + trace["dx"] * np.arange(len(trace["y"]))
            assert grid == pytest.approx(curve["delta_v"])
            if "rates" in trace["meta"]:
                shares = [None if n is None else n / own["scale"] for n in trace["meta"]["rates"]]
                for share, rate in zip(shares, curve["bin_rates"], strict=True):
                    assert share == (None if rate is None else pytest.approx(rate, abs=5.1e-4))
            compared += 1
    assert compared > 30


def test_every_trace_says_whose_it_is(charts, report):
    names = {model.name for model in report.models}
    for _, trace in at_least_one(traces(charts)):
        assert trace["meta"]["model"] in {*names, "humans", ""}
    for kind in ("curves", "human-index", "areas", "severity", "ranks"):
        own = {trace["meta"]["model"] for _, trace in traces(of_kind(charts, kind))}
        assert names <= own


def test_models_differ_in_color_and_in_dashes(charts):
    for chart in at_least_one(of_kind(charts, "curves")):
        own = [t["line"] for t in chart.spec["data"] if t["meta"].get("observed")]
        for key in ("color", "dash"):
            assert len({line[key] for line in own}) == len(own)


def test_the_best_curve_is_named(charts, found):
    for chart in at_least_one(of_kind(charts, "curves")):
        name = {"a": "accuracy", "p": "consistency"}[chart.property]
        areas = {
            model["name"]: model["spaces"][chart.space]["corruptions"][chart.corruption][name][
                "robustness"
            ]["value"]
            for model in found[chart.section]["models"]
        }
        best, worst = max(areas, key=areas.get), min(areas, key=areas.get)
        if areas[best] > areas[worst]:
            assert f"{best} has the largest area under its curve, {areas[best]:.3f}" in chart.alt
            assert f"{worst} the smallest, {areas[worst]:.3f}" in chart.alt


def test_humans_are_drawn_where_they_are_compared_with(charts, found):
    drawn = 0
    for chart in of_kind(charts, "curves"):
        models = found[chart.section]["models"]
        name = {"a": "accuracy", "p": "consistency"}[chart.property]
        own = models[0]["spaces"][chart.space]["corruptions"][chart.corruption][name]["humans"]
        there = [t for t in chart.spec["data"] if t["meta"]["model"] == "humans"]
        assert len(there) == (own is not None)
        drawn += len(there)
    assert drawn


def test_humans_corrected_for_chance_are_not_on_the_axes_of_plain_rates(report):
    (part, *_) = report.sections
    models = []
    for shown in part.models:
        space = shown.results.spaces["entry16"]
        scores = {}
        for name, own in space.corruptions.items():
            humans = own.accuracy.humans
            corrected = humans and replace(humans, corrected_for_chance=True)
            scores[name] = replace(own, accuracy=replace(own.accuracy, humans=corrected))
        spaces = {**shown.results.spaces, "entry16": replace(space, corruptions=scores)}
        models.append(replace(shown, results=replace(shown.results, spaces=spaces)))
    charts = charts_of(replace(report, sections=(replace(part, models=tuple(models)),)))
    curves = of_kind(charts, "curves")
    assert not [t for _, t in traces(curves) if t["meta"]["model"] == "humans"]
    assert any("different scale" in chart.alt for chart in curves)
    layouts = [chart.spec["layout"] for chart in of_kind(charts, "areas")]
    assert layouts and all(
        "corrected for chance" in own["yaxis"]["title"]["text"] for own in layouts
    )


def test_what_was_not_observed_is_shaded_and_said(charts, found):
    shaded = 0
    for chart in of_kind(charts, "curves"):
        layout = chart.spec["layout"]
        empty = [(own["x0"], own["x1"]) for own in layout["shapes"] if own["type"] == "rect"]
        observed = record(found, chart, chart.spec["data"][0]["meta"]["model"])["observed"]
        assert sum(end - start for start, end in [*empty, *observed]) == pytest.approx(1)
        for start, end in empty:
            assert f"{start:.2f}–{end:.2f}" in chart.alt
            assert not any(low < (start + end) / 2 < high for low, high in observed)
        shaded += len(empty)
    assert shaded


edges = st.lists(st.integers(0, 100), min_size=2, max_size=12, unique=True)


@given(edges)
def test_a_place_is_in_a_gap_unless_it_was_observed(drawn):
    ends = sorted(drawn)[: len(drawn) // 2 * 2]
    observed = [(a / 100, b / 100) for a, b in zip(ends[::2], ends[1::2], strict=True)]
    empty = gaps(observed)
    assert all(start < end for start, end in empty)
    for place in np.arange(0.005, 1, 0.01):
        is_seen = any(start < place < end for start, end in observed)
        assert is_seen != any(start < place < end for start, end in empty)


@given(st.floats(0.05, 0.95), st.floats(-3, 3).filter(lambda slope: abs(slope) > 0.01))
def test_straight_lines_cross_where_they_meet(place, slope):
    grid = tuple(np.linspace(0, 1, 101))
    line = tuple(0.5 + slope * (x - place) for x in grid)
    assert crossings(grid, line, (0.5,) * 101) == pytest.approx([place], abs=1e-6)


def test_curves_that_only_touch_do_not_cross():
    grid = tuple(np.linspace(0, 1, 101))
    parabola = tuple(0.5 + (x - 0.5) ** 2 for x in grid)
    assert crossings(grid, parabola, (0.5,) * 101) == []


def test_bars_compared_with_humans_are_sorted_and_have_their_intervals(charts, found):
    for chart in at_least_one(of_kind(charts, "human-index")):
        bars = [t for t in chart.spec["data"] if "xaxis" not in t]
        heights = [bar["x"][0] for bar in bars]
        assert heights == sorted(heights, reverse=True)
        assert bars[0]["meta"]["model"] in chart.alt.split("; ")[0]
        for trace in chart.spec["data"]:
            name = "mrsi" if "xaxis" in trace else "hmri"
            if chart.corruption:
                own = record(found, chart, trace["meta"]["model"])["humans"][name]
            else:
                models = {model["name"]: model for model in found[chart.section]["models"]}
                means = models[trace["meta"]["model"]]["spaces"][chart.space]["means"]
                own = means[f"{name}_{chart.property}"]
            low, high = own["interval95"]
            bar = trace["error_x"]
            assert own["value"] + bar["array"][0] == pytest.approx(high, abs=2e-6)
            assert own["value"] - bar["arrayminus"][0] == pytest.approx(low, abs=2e-6)


def test_models_of_a_known_kind_have_its_color_hatch_and_name(folders, charts):
    kinds = dict(zip(report_runs.MODELS, ("ViT", "CLIP", ""), strict=True))
    for chart in of_kind(charts_of(load_report(folders, kinds)), "human-index"):
        for trace in chart.spec["data"]:
            kind = kinds[trace["meta"]["model"]]
            look = (trace["name"], trace["marker"]["color"])
            assert look == CATEGORY_COLORS[kind]
            assert trace["marker"]["pattern"]["shape"] == CATEGORY_PATTERNS[kind]
        assert chart.spec["layout"]["showlegend"]
    plain = [t["marker"]["color"] for _, t in traces(of_kind(charts, "human-index"))]
    assert set(plain) <= set(COLORS)


def test_areas_are_said_as_they_are(charts, found):
    for chart in at_least_one(of_kind(charts, "areas")):
        texts = [own["text"] for own in chart.spec["layout"]["annotations"]]
        for trace in chart.spec["data"]:
            if "against" not in trace["meta"]:
                continue
            own = record(found, chart, trace["meta"]["model"])["humans"]["areas"]
            human, model = own["human"], own["model"]
            wanted = f"human area {human:.3f}<br>model area {model:.3f}"
            assert any(text.startswith(wanted) for text in texts)
            line = chart.spec["data"][trace["meta"]["against"]]
            assert line["meta"]["model"] == "humans"
            y = np.array(trace["y"], dtype=float)
            area = float(np.sum((y[1:] + y[:-1]) / 2) / 100)
            assert area == pytest.approx(model, abs=0.005)


def test_of_many_models_the_first_four_have_their_areas_shown(report):
    (chart, *_) = of_kind(charts_of(many(report, 10, 3)), "areas")
    own = [t["meta"]["model"] for t in chart.spec["data"] if "against" in t["meta"]]
    assert own == [f"model {number}" for number in range(4)]
    assert "the first 4 of 10 models" in chart.title


def test_shared_corruptions_have_the_histograms_of_both_test_sets_once(charts):
    both = [chart for chart in of_kind(charts, "histogram") if len(chart.spec["data"]) == 2]
    assert len(both) == 2


def test_ranks_are_those_of_the_comparison(charts, report):
    own = of_kind(charts, "ranks")
    assert [chart.corruption for chart in own] == [r.subject for r in report.discrete.corruptions]
    for chart, rankings in zip(own, report.discrete.corruptions, strict=True):
        bars = [t for t in chart.spec["data"] if t["type"] == "bar"]
        assert len(bars) == 3 * 3
        for bar in bars:
            way, name = bar["legendgroup"], bar["meta"]["model"]
            ranking = rankings.ranks[way]
            rank, (low, high) = ranking.ranks[name], ranking.intervals[name]
            interval = "" if low == high == rank else f" ({low:g}–{high:g})"
            assert bar["text"] == [f"{rank:g}{interval}"]
            score = rankings.scores[way][name]
            assert bar["x"] == pytest.approx([score.value], abs=HALF_A_DIGIT)


@pytest.mark.parametrize("p_value, marked", [(0.01, 2), (0.2, 0)])
def test_only_models_that_change_places_by_more_than_chance_are_marked(report, p_value, marked):
    first, second, _ = report_runs.MODELS
    swap = ("ImageNet-C accuracy", "R_a", Swap(first, second, (p_value, 0.01)))
    rankings = replace(report.discrete.corruptions[0], swaps=(swap,))
    discrete = replace(report.discrete, corruptions=(rankings,))
    (chart,) = of_kind(charts_of(replace(report, discrete=discrete)), "ranks")
    triangles = [t["meta"]["model"] for t in chart.spec["data"] if t["type"] == "scatter"]
    assert sorted(triangles) == sorted((first, second))[:marked]
    assert ("no two models change ranks" in chart.alt) == (marked == 0)


def test_errors_by_severity_rise_from_level_to_level_in_order(charts):
    for _, trace in at_least_one(traces(of_kind(charts, "severity"))):
        assert trace["x"] == [1, 2, 3, 4, 5]


def test_mean_errors_stand_over_clean_ones_with_intervals_both_ways(report):
    part = report.sections[1]
    models = []
    for shown in part.models:
        own = shown.results.spaces["native"]
        # what the run has of 2 of 15 corruptions is no mean over all: any of its numbers will do
        number = own.corruptions["gaussian_noise"].error
        errors = replace(own.corruption_error, mce=number, relative_mce=None)
        spaces = {"native": replace(own, corruption_error=errors)}
        models.append(replace(shown, results=replace(shown.results, spaces=spaces)))
    parts = (report.sections[0], replace(part, models=tuple(models)))
    (chart,) = of_kind(charts_of(replace(report, sections=parts)), "mce")
    scores = {}
    for trace, shown in zip(chart.spec["data"], models, strict=True):
        own = shown.results.spaces["native"]
        number, clean = own.corruption_error.mce, own.clean_accuracy
        scores[shown.short] = number.value
        assert trace["y"] == pytest.approx([number.value], abs=HALF_A_DIGIT)
        assert trace["x"] == pytest.approx([1 - clean.value], abs=HALF_A_DIGIT)
        for bar, middle, ends in (
            (trace["error_y"], number.value, number.interval95),
            (trace["error_x"], 1 - clean.value, [1 - end for end in reversed(clean.interval95)]),
        ):
            found = (middle - bar["arrayminus"][0], middle + bar["array"][0])
            assert found == pytest.approx(tuple(ends), abs=2e-6)
    best = min(scores, key=scores.get)
    assert f"{best} has the lowest mCE, {100 * scores[best]:.1f} %" in chart.alt


def many(report, count, corruptions):
    """The first part with so many models and corruptions, all with curves of 39 bins."""
    (part, *_) = report.sections
    names = [f"vcr/made_up_corruption_{number}" for number in range(corruptions)]
    model = part.models[0].results
    spaces = {}
    for key, space in model.spaces.items():
        own = _wide(space.corruptions["vcr/gaussian_noise"])
        spaces[key] = replace(space, corruptions=dict.fromkeys(names, own))
    models = tuple(replace(model, name=f"model {number}", spaces=spaces) for number in range(count))
    run = part.runs[0]
    config = replace(run.config, corruptions=tuple(names))
    run = replace(run, results=replace(run.results, models=models, config=config))
    shown = tuple(
        replace(part.models[0], name=own.name, short=own.name, index=place, results=own, run=0)
        for place, own in enumerate(models)
    )
    standings = replace(part.standings, board=Leaderboard((run,)))
    parts = (replace(part, standings=standings, models=shown, runs=(run,)),)
    return replace(report, runs=(run,), sections=parts, discrete=None)


def _wide(score):
    """A corruption's scores with 39 bins, whose rates are as long as numbers get."""

    def wide(own):
        curve = replace(
            own.curve,
            bin_edges=tuple(np.linspace(0, 1, 40)),
            bin_counts=(1234.0,) * 39,
            bin_rates=tuple(np.linspace(0.98765, 0.0123, 39)),
        )  # fmt: skip
        return replace(own, curve=curve)

    return replace(score, accuracy=wide(score.accuracy), consistency=wide(score.consistency))


def test_ten_models_under_fourteen_corruptions_stay_small(report):
    charts = charts_of(many(report, 10, 14))
    curves = of_kind(charts, "curves")
    assert len(curves) == 2 * 2 * 14
    own = [t for _, t in traces(curves) if t["meta"]["model"].startswith("model ")]
    assert len(own) == 10 * len(curves) and all("bands" in t["meta"] for t in own)
    text = json.dumps({chart.id: chart.spec for chart in charts}, separators=(",", ":"))
    assert len(text) < 1_600_000


def strings(value):
    """All texts that plotly may show."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, own in value.items():
            if key != "meta":
                yield from strings(own)
    elif isinstance(value, list):
        for own in value:
            yield from strings(own)


def test_hostile_names_are_shown_as_they_are(tmp_path_factory):
    folder = report_runs.make_once(tmp_path_factory, report_runs.hostile_run)
    charts = charts_of(load_report([folder]))
    assert charts
    shown = [text for chart in charts for text in strings(chart.spec)]
    for text in shown:
        assert not re.search(r"<(?!/?(b|br|extra)>)", text), text
    assert any("&lt;img" in text for text in shown)


def test_long_names_are_shortened_and_stay_apart(report):
    shown = report.models[0]
    names = [f"{'a' * 30}{middle}{'z' * 30}" for middle in "xy"]
    own = labels([replace(shown, name=name, short=name) for name in (*names, "short")])
    assert own["short"] == "short"
    assert len(set(own.values())) == 3 and all(len(text) < 32 for text in own.values())


def test_ids_are_safe_whatever_a_name_holds():
    assert slug("curves", 0, "vcr/gaussian_noise", "a") == "curves-0-vcr-gaussian-noise-a"
    assert slug("Ümlaut </script>") == "mlaut-script"
    assert slug("///") == "chart"


# ---- colors ----

SIMULATED = {
    "usual": np.eye(3),
    "no red cones": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no green cones": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no blue cones": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
"""What is left of linear red, green and blue (Machado, Oliveira and Fernandes, 2009)."""


@pytest.mark.parametrize("sight", SIMULATED)
def test_kinds_of_models_are_told_apart_with_any_color_vision(sight):
    levels = np.array(
        [[int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
         for _, color in CATEGORY_COLORS.values()]
    )  # fmt: skip
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    left = np.clip(linear @ np.array(SIMULATED[sight]).T, 0, 1)
    seen = np.where(left <= 0.0031308, left * 12.92, 1.055 * left ** (1 / 2.4) - 0.055)
    lab = rgb2lab(seen[None])[0]
    for (one, first), (two, second) in at_least_one(
        combinations(zip(CATEGORY_COLORS, lab, strict=True), 2)
    ):
        apart = float(np.linalg.norm(first - second))
        assert apart > 10, (one, two)


def test_every_kind_of_model_has_a_color_and_transformers_are_purple():
    assert set(CATEGORY_COLORS) == set(CATEGORY_PATTERNS) == {"humans", *CATEGORIES, ""}
    red, green, blue = (int(CATEGORY_COLORS["ViT"][1][at : at + 2], 16) for at in (1, 3, 5))
    assert green < min(red, blue) / 2


# ---- overlap ----

GOOD = "name,fog,rain,blur,selected\nfog,1,0.25,0.5,yes\nrain,0.25,1,0,no\nblur,0.5,0,1,yes\n"


def write(folder, text):
    path = folder / "overlap.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_overlaps_are_read_and_drawn(tmp_path, report):
    own = read_overlap(write(tmp_path, GOOD))
    assert own.names == ("fog", "rain", "blur") and own.selected == ("fog", "blur")
    assert own.scores == ((1, 0.25, 0.5), (0.25, 1, 0), (0.5, 0, 1))
    (chart,) = of_kind(charts_of(report, own), "overlap")
    (heat,) = chart.spec["data"]
    assert heat["z"] == [[1, 0.25, 0.5], [0.25, 1, 0], [0.5, 0, 1]]
    assert heat["x"] == heat["y"] == ["<b>✓ fog</b>", "rain", "<b>✓ blur</b>"]
    assert "fog and blur overlap most, 0.50" in chart.alt
    assert "the selected ones are fog and blur, which overlap by at most 0.50" in chart.alt


def test_the_column_of_the_selected_may_be_missing(tmp_path):
    text = re.sub(",(selected|yes|no)$", "", GOOD, flags=re.MULTILINE)
    assert read_overlap(write(tmp_path, text)).selected == ()


def test_the_highest_overlap_of_random_scores_is_said(report):
    drawn = np.random.default_rng(3).uniform(size=(6, 6))
    scores = np.round((drawn + drawn.T) / 2, 3)
    names = tuple("abcdef")
    own = OverlapPanel(names, tuple(map(tuple, scores.tolist())), ("a", "c"), 0.1)
    (chart,) = of_kind(charts_of(report, own), "overlap")
    off = scores - np.eye(6)
    one, two = sorted(np.unravel_index(off.argmax(), off.shape))
    assert f"{names[one]} and {names[two]} overlap most, {off.max():.2f}" in chart.alt
    assert "(threshold 0.1)" in chart.alt


def test_empty_cells_are_undetermined_and_scores_may_exceed_one(tmp_path, report):
    text = "name,fog,rain,blur\nfog,1,1.25,\nrain,1.25,1,\nblur,,,\n"
    own = read_overlap(write(tmp_path, text))
    assert own.scores[0][:2] == (1, 1.25) and np.isnan(own.scores[2]).all()
    (chart,) = of_kind(charts_of(report, own), "overlap")
    heat, unknown = chart.spec["data"]
    assert heat["z"] == [[1, 1.25, None], [1.25, 1, None], [None] * 3] and heat["zmax"] == 1
    assert not heat["hoverongaps"] and not unknown["hoverongaps"]
    assert unknown["z"] == [[None, None, 1], [None, None, 1], [1, 1, 1]]
    assert unknown["text"] == [["", "", "–"], ["", "", "–"], ["–", "–", "–"]]
    assert unknown["texttemplate"] == "%{text}" and "undetermined" in unknown["hovertemplate"]
    assert "fog and rain overlap most, 1.25; gray cells are undetermined" in chart.alt
    none = OverlapPanel(("fog", "rain"), ((np.nan, np.nan), (np.nan, np.nan)), ("fog", "rain"))
    (chart,) = of_kind(charts_of(report, none), "overlap")
    assert "all scores are undetermined" in chart.alt


def test_clustering_puts_corruptions_that_overlap_beside_each_other():
    names = ("noise", "blur", "none", "grain", "defocus")
    scores = np.eye(5)
    for one, two, score in ((0, 3, 0.9), (1, 4, 0.8), (0, 1, 0.1)):
        scores[one, two] = scores[two, one] = score
    scores[2] = scores[:, 2] = np.nan
    own = clustered(OverlapPanel(names, tuple(map(tuple, scores.tolist())), ("blur",)))
    order = own.names
    assert sorted(order) == sorted(names) and order[-1] == "none" and own.selected == ("blur",)
    for one, two in (("noise", "grain"), ("blur", "defocus")):
        assert abs(order.index(one) - order.index(two)) == 1
    shown = np.array(own.scores)
    at = [names.index(name) for name in order]
    assert np.array_equal(shown, scores[np.ix_(at, at)], equal_nan=True)


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "at least two corruptions"),
        ("name,fog\nfog,1\n", "at least two corruptions"),
        (GOOD.replace("fog,1,0.25", "snow,1,0.25"), "fog across and snow down"),
        (GOOD.removesuffix("blur,0.5,0,1,yes\n"), "3 names across and 2 down"),
        (GOOD.replace("0.25,0.5,yes", "0.25,yes"), "5 cells in every row, got 4"),
        (GOOD.replace("0.25,1,0,no", "0.25,1,much,no"), "of at least 0, or empty cells"),
        (GOOD.replace("0.25,1,0,no", "0.25,1,-0.5,no"), "got '-0.5' in the row of rain"),
        (GOOD.replace("0.25,1,0,no", "0.25,1,inf,no"), "got 'inf' in the row of rain"),
        (GOOD.replace("0.25,1,0,no", "0.25,1,1.5,no"), "must be symmetric, got 1.5 for rain and"),
        (GOOD.replace("rain,0.25,1,0", "rain,0.25,0.9,0"), "1 on the diagonal"),
        (GOOD.replace("0.25,1,0,no", "0.25,1,nan,no"), "got 'nan'"),
        (GOOD.replace(",no", ",perhaps"), "yes or no"),
        (GOOD.replace("rain", "fog"), "got fog twice"),
        (GOOD.replace("name,fog", "name,"), "must name every corruption"),
    ],
)
def test_bad_overlaps_are_rejected_in_one_sentence(tmp_path, text, words):
    with pytest.raises(UsageError) as error:
        read_overlap(write(tmp_path, text))
    said = str(error.value)
    assert words in said and said.endswith(".") and "\n" not in said


def test_files_that_are_no_text_are_rejected(tmp_path):
    path = tmp_path / "overlap.csv"
    with pytest.raises(UsageError, match="cannot be read"):
        read_overlap(path)
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UsageError, match="UTF-8"):
        read_overlap(path)
