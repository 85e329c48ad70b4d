"""The first screen of the report: a sentence on each model, one chart, one table, no rank noise."""

import re

import pytest

from changing import replace
from eyechart.reports.html.leaderboard_tables import summarize
from eyechart.reports.html.report_page import charts_of
from eyechart.reports.html.verdict import about_humans, verdict_on
from eyechart.reports.series.model_scores import main_score
from eyechart.scores.registry import SCORES
from nonempty import at_least_one
from report_pages import Page, at, files_of, with_results
from report_shelf import UNDER, Shelf, called

SINGLE = ("unlabeled", "native", "entry16")
"""The kinds of pages on one model."""


def answers_on(report, place=0):
    """Each model of a part with the text of its answer, read as a page."""
    part = report.sections[place]
    return [(model, Page(str(summarize(report, part, model).text)).root) for model in part.models]


def test_the_first_section_has_a_sentence_per_model_a_table_and_a_chart(any_page):
    report, page = any_page
    first = page.by_id("good")
    assert next(node for node in page.nodes if node.tag == "section") is first
    assert [own.own["data-summary"] for own in first.all("li", kind="summary")] == [
        model.name for part in report.sections for model in part.models
    ]
    parts = [str(place) for place in range(len(report.sections))]
    assert [own.own["id"] for own in first.all("table")] == [f"summary-{own}" for own in parts]
    shown = [own.own["data-chart"] for own in first.all("div") if "data-chart" in own.own]
    by_id = {chart.id: chart for chart in charts_of(report)}
    assert [by_id[own].kind for own in shown] == ["main-score"] * len(parts)
    # what is long stands below
    for part in report.sections:
        assert about_humans(part) not in first.text and about_humans(part) in page.text


def test_an_answer_goes_from_clean_images_to_the_worst_corruption(any_page):
    report, _ = any_page
    shelf = Shelf(report)
    for place, part in at_least_one(enumerate(report.sections)):
        for model, text in answers_on(report, place):
            home = shelf.space(place, model.name, main_score(part).space)
            clean = shelf.values(*shelf.estimate(f"{home}/clean_accuracy"))
            values = text.values
            after = values[begin_of(values, clean) + len(clean) :]
            means = [own["value"] for own in shelf.get(f"{home}/means").values()]
            errors = shelf.get(f"{home}/corruption_error") or {}
            means += [errors[name]["value"] for name in ("mce", "relative_mce") if errors.get(name)]
            assert after[0] in means
            # the corruption under which the model breaks first is not named twice
            if len(shelf.get(f"{home}/corruptions")) > 1:
                n_named = 0 if shelf.get(f"{home}/verdict") else 1
                assert len(text.all("b") or text.all("strong")) == n_named


def begin_of(values, wanted):
    """The place at which some values begin in others."""
    places = range(len(values) - len(wanted) + 1)
    return next(place for place in places if values[place : place + len(wanted)] == wanted)


@pytest.mark.parametrize("kind", ["humans", "levels", "own suite", "two runs"])
def test_the_worst_corruption_is_that_with_the_worst_score(made, kind):
    report, _ = made(kind)
    shelf, part = Shelf(report), report.sections[0]
    main = main_score(part)
    record = UNDER[{"r_a": "Rₐ", "r_p": "Rₚ", "error": "Error"}[main.score.name]]
    for model, text in at_least_one(answers_on(report)):
        (name,) = [own.text for own in text.all("b") or text.all("strong")]
        home = shelf.space(0, model.name, main.space)
        values = {
            called(key): at([own], f"0/{record}/value")
            for key, own in shelf.get(f"{home}/corruptions").items()
        }
        worst = (max if record == "error" else min)(values.values())
        assert values[name.lower()] == worst, model.name
        assert not text.all("b") or worst in text.values


@pytest.mark.parametrize("kind", ["humans", "two runs", "own suite"])
def test_an_answer_begins_with_the_corruption_under_which_the_model_breaks_first(made, kind):
    report, _ = made(kind)
    shelf, space = Shelf(report), main_score(report.sections[0]).space
    for model, text in at_least_one(answers_on(report)):
        corruptions = shelf.get(f"{shelf.space(0, model.name, space)}/corruptions")
        points = {key: own["accuracy"]["break_point"] for key, own in corruptions.items()}
        reached = [own["value"] for own in points.values() if own["value"] is not None]
        first = text.values[0]
        if reached:
            assert first == min(reached)
            (named,) = [own.text.lower() for own in text.all("strong")]
            under = [key for key, own in points.items() if own["value"] == first]
            assert named in map(called, under)
            humans = any(corruptions[key]["accuracy"]["humans"] for key in under)
            assert ("; humans at" in text.text) == humans
        else:
            # the number of corruptions stands before the limit
            assert text.values[:2] == [
                len(points), min(own["limit"] for own in points.values())
            ]  # fmt: skip
            assert "does not break under any of" in text.text and "; humans at" not in text.text


def test_a_summary_names_the_corruption_with_the_lowest_hmri(made):
    report, _ = made("humans")
    shelf = Shelf(report)
    for model, text in at_least_one(answers_on(report)):
        corruptions = shelf.get(f"{shelf.space(0, model.name, 'entry16')}/corruptions")
        values = {
            called(name): own["accuracy"]["humans"]["hmri"]["value"]
            for name, own in corruptions.items()
            if own["accuracy"]["humans"]
        }
        named = re.search(r"lowest under (.+?), ", text.text)[1].lower()
        assert len(values) > 1 and values[named] == min(values.values()) == text.values[-1]


def test_a_summary_says_who_is_ahead_as_the_verdict_does(made):
    words = {
        "ahead": "it is ahead of humans",
        "behind": "it is behind humans",
        "mixed": "Mixed results compared with humans",
        "even": "No significant difference from humans",
    }
    seen = set()
    for kind in ("humans", "two runs", "chance"):
        report, _ = made(kind)
        part = report.sections[0]
        for model, text in answers_on(report):
            verdict, summary = verdict_on(part, model), summarize(report, part, model)
            assert (summary.tone, summary.badge) == (verdict.tone, verdict.badge)
            assert [tone for tone, said in words.items() if said in text.text] == [summary.tone]
            hmri = model.results.spaces["entry16"].means["hmri_a"]
            assert begin_of(text.values, [hmri.value, *hmri.interval95]) > 0
            seen.add(summary.tone)
    assert len(seen) > 1


@pytest.mark.parametrize("kind", ["levels", "native", "files", "unlabeled"])
def test_without_humans_an_answer_says_why(made, kind):
    report, _ = made(kind)
    for model, text in at_least_one(answers_on(report)):
        space = model.space(main_score(report.sections[0]).space)
        said = "Insufficient data: " if space.verdict else "Not compared with humans"
        assert said in text.text


def few_images(report, verdict):
    results = report.runs[0].results
    space = results.models[0].spaces["entry16"]
    few = replace(space, verdict=verdict, n_images=5, classes=3)
    model = replace(results.models[0], spaces={"entry16": few})
    return with_results(report, replace(results, models=(model,)))


def test_insufficient_data_are_counted_beside_what_is_needed(made):
    """What is needed is what the evaluation says, here with numbers that it never has."""
    report, _ = made("entry16")
    few = few_images(report, "insufficient data (at least 77 images in 9 categories; have 5 in 3)")
    ((_, text),) = answers_on(few)
    assert (
        "Insufficient data: 5 images in 3 categories; at least 77 images in 9 categories are"
        " needed." in text.text
    )
    page = Page(str(verdict_on(few.sections[0], few.sections[0].models[0]).text))
    assert "5 images in 3 categories; at least 77 images in 9 categories are needed" in page.text


# The chart


def main_charts(report):
    return [chart for chart in charts_of(report) if chart.kind == "main-score"]


def test_the_chart_is_sorted_worst_first(any_page):
    report, _ = any_page
    for chart, part in at_least_one(zip(main_charts(report), report.sections, strict=True)):
        main = main_score(part)
        by_row = {}
        for trace in chart.spec["data"]:
            if trace["meta"]["model"] != "humans":
                for title, value in zip(trace["y"], trace["x"], strict=True):
                    by_row.setdefault(title, []).append(value)
        means = [sum(by_row[title]) / len(by_row[title]) for title in dict.fromkeys(by_row)]
        # with insufficient data no corruption is the worst
        if not main.lacks_data:
            assert means == sorted(means, reverse=not main.score.higher_is_better)
        assert ("worst first" in chart.title) != main.lacks_data
        assert len(by_row) == len(part.corruptions)


def test_humans_are_marked_where_their_area_is_known(made):
    report, _ = made("humans")
    files = files_of(report)
    (chart,) = main_charts(report)
    (humans,) = [own for own in chart.spec["data"] if own["meta"]["model"] == "humans"]
    assert humans["name"] == "Humans" and chart.space == "entry16"
    corruptions = files[0]["models"][0]["spaces"]["entry16"]["corruptions"]
    areas = {
        called(name): own["accuracy"]["humans"]["areas"]["human"]
        for name, own in corruptions.items()
        if own["accuracy"]["humans"]
    }
    shown = dict(zip(map(str.lower, humans["y"]), humans["x"], strict=True))
    assert shown == pytest.approx(areas, abs=1e-6) and "Humans" in chart.alt


@pytest.mark.parametrize("kind", ["levels", "chance"])
def test_humans_are_not_marked_on_another_scale(made, kind):
    """There are none, or their areas are corrected for chance and R_a is not."""
    report, _ = made(kind)
    (chart,) = main_charts(report)
    assert "humans" not in {own["meta"]["model"] for own in chart.spec["data"]}


# One model


@pytest.mark.parametrize("kind", SINGLE)
def test_one_model_is_not_ranked(made, kind):
    report, page = made(kind)
    (model,) = report.models
    assert page.headings[0] == ("h1", f"How robust is {model.short}?")
    said = " ".join([page.text, *page.all("aria-label"), *page.all("title")])
    assert not re.search(r"\brank", said, re.IGNORECASE)
    assert not re.search(r"models in charts|predictions of\b", said, re.IGNORECASE)
    assert not page.all("data-model-toggle") and "predictions" not in page.all("id")
    heads = {head for table in page.tables for head in table.heads}
    assert not heads & {"Rank", "Significantly ahead of"}


def test_several_models_are_ranked(made):
    _, page = made("humans")
    assert page.headings[0] == ("h1", "How robust are 3 models?")
    assert "Rank" in page.table("leaderboard-0").heads and page.all("data-model-toggle")


# Words


def test_humans_are_called_humans(any_page):
    report, page = any_page
    said = " ".join([page.text, *page.all("aria-label"), *page.all("title")])
    charts = str([chart.spec for chart in charts_of(report)])
    for text in (said, charts):
        assert not re.search(r"\bpeople|share of humans reached", text, re.IGNORECASE)
    for chart in charts_of(report):
        for trace in chart.spec["data"]:
            if trace["meta"]["model"] == "humans" and chart.kind != "humans":
                assert trace["name"] == "Humans"


def test_the_axis_of_every_main_score_has_a_title(any_page):
    report, _ = any_page
    for chart, part in at_least_one(zip(main_charts(report), report.sections, strict=True)):
        title = chart.spec["layout"]["xaxis"]["title"]["text"]
        assert title != main_score(part).score.symbol and main_score(part).score in SCORES.values()
