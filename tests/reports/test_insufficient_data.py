"""Below the minimum of data, nothing that a user reads claims anything: numbers, and why."""

import csv
import json
import re
from dataclasses import dataclass

import pytest

import eyechart as ec
from eyechart.reports.html.report_page import charts_of
from eyechart.reports.series.report import load_report
from report_pages import Page
from report_runs import AT_LEVELS, DULL, SHARP, SMALL, save_hues

CLAIM = re.compile(
    r"signific|\bahead\b|\bbehind\b|\bbreaks? at|does not break|\bworst|\bbetter\b|\bfarthest"
    r"|\bclosest|\blargest area|\blowest error|\branked by|\branks?\b|\bmixed\b|inconclusive",
    re.IGNORECASE,
)
"""Words that say which of two is better, where something fails, or that a test says so."""

DEFINITIONS = (
    "never behind humans",
    "never ahead",
    "lower is better",
    "the more it is ahead of humans",
    "ahead of the reference may not be ahead of those participants",
    "Ranks, tests of pairs and counts were computed",
    "Rankings by imagenet-c and vcr are not compared",
)
"""Sentences about what a score or a note means, which say nothing of a model."""

NOTE = re.compile(r"insufficient data", re.IGNORECASE)


@dataclass(frozen=True)
class Read:
    """What users read of runs: texts by name, and the folders that they are from."""

    texts: dict[str, str]
    vcr: object
    compared: object


@pytest.fixture
def read(run, tmp_path):
    """Return what makes two models' runs on so many images of each of 8 classes, and reads them."""

    def make(each: int) -> Read:
        images, outs = save_hues(tmp_path / "images", each=each), {}
        texts = {"terminal": ""}
        for suite, small, names in (
            ("vcr", SMALL, ("gaussian_noise", "shot_noise")),
            ("imagenet-c", AT_LEVELS, ("gaussian_noise",)),
        ):
            outs[suite] = tmp_path / suite
            chosen = [word for name in names for word in ("--corruption", name)]
            options = ("--suite", suite, "--n", 40, *chosen, *small, "--out", outs[suite])
            done = run("evaluate", SHARP, DULL, "--images", images, *options)
            assert done.status == 0, done.err
            texts["terminal"] += done.out
        files = {kind: tmp_path / f"report.{kind}" for kind in ("html", "md", "tex")}
        compared = tmp_path / "compared"
        both = tuple(outs.values())
        texts["compare"] = run("compare", *both, "--out", compared, "--latex", files["tex"]).out
        for kind in ("html", "md"):
            assert run("report", *both, "--out", files[kind]).status == 0
        texts["model card"], texts["LaTeX"] = (
            files[kind].read_text("utf-8") for kind in ("md", "tex")
        )
        page = Page(files["html"].read_text("utf-8"))
        charts = [f"{chart.title} {chart.alt}" for chart in charts_of(load_report(both))]
        said = [page.text, *page.all("aria-label"), *page.all("title"), *charts]
        texts["page"] = "\n".join(said)
        return Read(texts, outs["vcr"], compared)

    return make


def claims_in(text):
    for definition in DEFINITIONS:
        text = text.replace(definition, "")
    return [match[0] for match in CLAIM.finditer(text)]


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_few_images_give_numbers_and_no_claim(read):
    few = read(1)
    for name, text in few.texts.items():
        assert claims_in(text) == [], name
        assert NOTE.search(text) and "R" in text, name
    # files for other programs
    results = json.loads((few.vcr / "results.json").read_text("utf-8"))
    assert results["paired"] == []
    compared = 0
    for model in results["models"]:
        for space in model["spaces"].values():
            assert space["verdict"].startswith("insufficient data (at least ")
            assert space["similar"] == []
            for record in space["corruptions"].values():
                humans = record["accuracy"]["humans"]
                if humans is not None:
                    compared += 1
                    assert humans["hmri"]["value"] > 0
                    assert humans["scenario"] == space["verdict"] and humans["needed"] == ""
                    assert humans["leads"] == humans["significant"] == humans["tested"] == []
                    assert humans["p_humans"] is None and humans["p_model"] is None
    assert compared
    scenarios = {row["scenario"] for row in rows_of(few.vcr / "results.csv")}
    assert all(NOTE.match(scenario) for scenario in scenarios - {""})
    for row in rows_of(few.compared / "leaderboard.csv"):
        assert row["rank"] == row["rank_low95"] == row["rank_high95"] == "" and row["r_a"]
    assert rows_of(few.compared / "pairs.csv") == []
    assert "p_value" in (few.compared / "pairs.csv").read_text("utf-8")
    rankings = json.loads((few.compared / "rankings.json").read_text("utf-8"))
    assert rankings["corruptions"] == [] and rankings["coverage"]
    # in Python
    loaded = ec.load(few.vcr)
    standings = loaded.compare()
    assert standings.ranks is None and standings.pairs == ()
    assert sorted(standings.order) == [DULL, SHARP]
    assert [standings.worse_than(name) for name in standings.order] == [[], []]
    for table in (loaded, loaded[SHARP], standings):
        html = table._repr_html_()
        assert NOTE.search(html) and claims_in(html) == []


@pytest.mark.parametrize("kind", ["unlabeled", "native", "files"])
def test_pages_on_few_images_claim_nothing(made, kind):
    report, page = made(kind)
    charts = [f"{chart.title} {chart.alt}" for chart in charts_of(report)]
    said = "\n".join([page.text, *page.all("aria-label"), *page.all("title"), *charts])
    assert claims_in(said) == [] and NOTE.search(said)


def test_the_words_of_claims_are_those_that_enough_images_bring(read):
    enough = read(5)
    for name, text in enough.texts.items():
        assert claims_in(text), name
    results = json.loads((enough.vcr / "results.json").read_text("utf-8"))
    assert results["paired"]
    similar = [own["spaces"]["entry16"]["similar"] for own in results["models"]]
    assert all(similar)
    (row, _) = rows_of(enough.compared / "leaderboard.csv")[:2]
    assert row["rank"] and len(rows_of(enough.compared / "pairs.csv")) == 2
    loaded = ec.load(enough.vcr)
    assert loaded.compare().ranks is not None and not NOTE.search(loaded._repr_html_())
