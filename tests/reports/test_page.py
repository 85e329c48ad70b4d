"""The report's page, read without a browser: structure, traces, hostile text, what may run.

Its numbers are looked at in test_report_numbers.py, its verdicts in test_report_verdict.py.
"""

import re
import shutil
from base64 import b64decode, b64encode
from collections import Counter
from hashlib import sha256
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image

from changing import replace
from chart_values import shown_values, wanted_values
from eyechart.core.errors import UsageError
from eyechart.reports.html.html_table import chance, count, delta, hundredths, percent, style_of
from eyechart.reports.html.page import is_page
from eyechart.reports.html.report_page import charts_of, render_report, write_report
from eyechart.reports.series.palette import COLORS
from eyechart.reports.series.report import Report, load_report
from eyechart.reports.series.report import TestSection as Section
from eyechart.reports.series.run_sentences import energy_text, time_text
from eyechart.reports.titles import corruption_title, corruption_words, groups_of, title_below
from eyechart.results.runs import Leaderboard
from eyechart.results.standings import rank_models
from eyechart.scores.registry import SCORES
from nonempty import at_least_one
from report_pages import OWN_SUITE, Page, with_results
from report_runs import HOSTILE, MODELS
from report_shelf import Shelf

# Numbers


def test_every_trace_holds_the_values_of_results_json(any_page):
    report, page = any_page
    shelf = Shelf(report)
    compared = 0
    for chart in charts_of(report):
        for trace in page.specs[chart.id]["data"]:
            values = wanted_values(shelf, chart, trace)
            if values is not None:
                assert shown_values(chart, trace) == pytest.approx(values, abs=1e-6)
                compared += 1
    assert compared >= 2


def test_numbers_round_as_they_are_read():
    area, mce = SCORES["r_a"], SCORES["mce"]
    assert style_of(area)(0.12345) == "0.123" and style_of(area, is_short=True)(0.12345) == "0.12"
    assert style_of(mce)(-0.12345) == "−12.3" and style_of(mce)(-0.0001) == "0.0"
    assert delta(-0.5) == "−0.50" and delta(-0.001) == "0.00"
    assert percent(0.955) in ("95\u00a0%", "96\u00a0%") and hundredths(0.7669) == "76.7"
    assert count(6400) == "6,400" and count(1.5) == "1.5"
    assert chance(0.0004) == "<\u00a00.001" and chance(0.04) == "0.040"


# What is there


def test_all_models_and_corruptions_are_there(any_page):
    report, page = any_page
    for shown in at_least_one(report.models):
        assert (shown.name in page.all("data-model-toggle")) == (len(report.models) > 1)
        assert shown.short in page.text
    for place, part in at_least_one(enumerate(report.sections)):
        assert page.all("data-verdict").count(part.models[0].name) >= 1
        options = [own for own in page.all("value") if own.startswith(f"corruption-{place}-")]
        assert len(options) == len(part.corruptions)
        titles = [text.strip() for tag, text in page.headings if tag == "h4"]
        for name in part.corruptions:
            assert any(corruption_title(name) in title for title in titles)


def test_every_chart_has_one_place_and_words(any_page):
    report, page = any_page
    charts = charts_of(report)
    assert sorted(page.all("data-chart")) == sorted(page.specs) == sorted(c.id for c in charts)
    for _, own in page.tags:
        if "data-chart" in own:
            assert own["role"] == "img" and len(own["aria-label"]) > 20


def test_ids_are_unique_and_what_is_referred_to_is_there(any_page):
    _, page = any_page
    ids = Counter(page.all("id"))
    assert max(ids.values()) == 1
    for name in ("for", "aria-labelledby", "data-of"):
        assert set(page.all(name)) <= set(ids)
    anchors = {own[1:] for own in page.all("href")}
    assert anchors <= set(ids)
    picked = set(page.all("data-picks"))
    assert {own for own in page.all("data-picked") if own not in picked} <= {
        own for own in page.all("data-picked") if page.all("data-picked").count(own) == 1
    }


def test_headings_are_in_order_and_ask_the_questions(any_page):
    report, page = any_page
    levels = [int(tag[1]) for tag, _ in page.headings]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later - own <= 1 for own, later in pairwise(levels))
    assert [text for tag, text in page.headings if tag == "h2"] == [
        "Is it robust enough?" if len(report.models) == 1 else "Are they robust enough?",
        "What are the scores in detail?",
        "Where does it break?",
        "How certain are the results?",
        "How can it be reproduced?",
    ]
    assert page.is_balanced


def test_the_page_says_how_it_was_made(any_page):
    report, page = any_page
    for run in at_least_one(report.runs):
        made = run.results.run
        assert made.command in page.text and made.versions["torch"] in page.text
        assert time_text(made) in page.text and energy_text(made) in page.text
        assert run.results.images.digest in page.text
        assert str(run.folder / "results.json") in page.text
        for model in run.results.models:
            assert model.identity in page.text
        for warning in run.results.warnings:
            assert warning.partition(": ")[2] in page.text


def test_examples_are_shown_along_visual_change(made):
    report, page = made("humans")
    images = [own for tag, own in page.tags if tag == "img" and "src" in own]
    assert images and all(own["src"].startswith("data:image/jpeg;base64,") for own in images)
    for own in images[:5]:
        with Image.open(BytesIO(b64decode(own["src"].partition(",")[2]))) as image:
            assert max(image.size) <= 224
    examples = report.runs[0].results.examples
    lines = [line.values for line in page.root.all("p", kind="prediction")]
    for example in examples:
        for name in MODELS:
            is_shown = [example.predictions[name].confidence] in lines
            assert is_shown or example.corruption == "clean"
    assert "first failure" in page.text and "✗" in page.text and "✓" in page.text


def test_a_run_whose_images_are_gone_says_so(made, tmp_path):
    report, _ = made("humans")
    shutil.copytree(report.runs[0].folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "examples")
    page = Page(render_report(load_report([tmp_path / "run"])))
    assert "no longer next to results.json" in page.text
    assert not [own for tag, own in page.tags if tag == "img" and "src" in own]


def test_a_file_that_is_no_image_is_a_gap_in_its_strip(made, tmp_path):
    report, whole = made("humans")
    shutil.copytree(report.runs[0].folder, tmp_path / "run")
    used = report.runs[0].results.examples[-1].file
    (tmp_path / "run" / "examples" / used).write_text("no picture")
    page = Page(render_report(load_report([tmp_path / "run"])))
    assert page.text.count("the file is missing") == 1
    assert len(page.all("src")) == len(whole.all("src")) - 1


def test_corruption_errors_are_grouped_as_papers_print_them(made):
    report, page = made("levels")
    space = report.sections[0].models[0].space("native")
    assert space.corruption_error is not None
    groups = [own for tag, own in page.tags if tag == "th" and own.get("scope") == "colgroup"]
    assert {own["colspan"] for own in groups} >= {"1"}
    assert " Noise " in page.text
    for score_name in ("ce", "relative_ce"):
        scores = getattr(space.corruption_error, score_name)
        table = page.table(f"{score_name.replace('_', '-')}-0-native")
        assert scores and len(table.rows) == len(MODELS)
        for row in table.rows:
            assert len([cell for cell in row.cells[3:] if cell.values]) == len(scores)


def test_the_groups_of_corruptions_stand_together(tmp_path):
    names = ["snow", "gaussian_noise", "pixelate", "shot_noise"]
    assert groups_of("imagenet-c", names) == [
        ("noise", ["gaussian_noise", "shot_noise"]),
        ("weather", ["snow"]),
        ("digital", ["pixelate"]),
    ]
    assert groups_of("vcr", ["vcr/frost"]) == [("weather", ["vcr/frost"])]
    assert groups_of("no/such.yaml", ["b", "a"]) == [("", ["b", "a"])]
    own = tmp_path / "own.yaml"
    own.write_text(OWN_SUITE)
    groups = groups_of(str(own), ["soft_lens", "film_noise"])
    assert groups == [("noise", ["film_noise"]), ("lens", ["soft_lens"])]


@pytest.mark.parametrize(
    "group, name, title",
    [
        ("blur", "defocus_blur", "Defocus"),
        ("digital", "elastic_transform", "Elastic"),
        ("digital", "jpeg_compression", "JPEG"),
        ("Noise", "vcr/gaussian_noise", "Gaussian"),
        ("weather", "gaussian_noise", "Gaussian noise"),
        ("noise", "noise", "Noise"),
        ("blur", "noc/blur", "Blur"),
        ("", "blur_of_mine", "Blur of mine"),
    ],
)
def test_titles_below_a_group_are_short(group, name, title):
    assert title_below(group, name) == title


def test_two_tests_are_compared_by_their_ranks(made):
    report, page = made("both")
    assert report.discrete is not None
    assert page.table("ranks-discrete").rows
    heads = [text for tag, text in page.headings if tag == "h3"]
    assert any("ranking of models" in text for text in heads)


# What may run, what may not


def test_the_policy_lets_the_pages_own_scripts_run_and_nothing_else(any_page):
    _, page = any_page
    (policy,) = [own["content"] for tag, own in page.tags if own.get("http-equiv")]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    hashes = [
        f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
        for own, text in page.scripts
        if own.get("type") != "application/json"
    ]
    assert rules["script-src"].split() == sorted(hashes, key=rules["script-src"].index)
    assert len(hashes) == 4


def test_nothing_is_fetched_and_no_handler_is_inline(any_page):
    _, page = any_page
    for tag, own in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        assert not [name for name in own if name.startswith("on")]
        assert own.get("src", "data:").startswith("data:")
        assert own.get("href", "#").startswith("#")
    styles = " ".join(page.all("style"))
    assert "url(" not in styles


def test_hostile_text_stays_text(made):
    _, page = made("hostile")
    assert HOSTILE in page.text and f"red {HOSTILE}" in page.text
    tags = Counter(tag for tag, _ in page.tags)
    images = [own for tag, own in page.tags if tag == "img"]
    assert not [own for own in images if "onerror" in own or own.get("src") == "x"]
    assert tags["script"] == 5


@pytest.mark.parametrize(
    "name", ["</script><script>alert(1)</script>", "\"'><b>&amp;", "{{ 7*7 }}"]
)
def test_hostile_names_of_models_and_classes_stay_text(made, name):
    report, _ = made("humans")
    results = report.runs[0].results
    old = results.models[0].name
    space = results.models[0].spaces["native"]
    classes = tuple(replace(own, name=name, instead=name) for own in space.by_class)
    spaces = {**results.models[0].spaces, "native": replace(space, by_class=classes)}
    model = replace(results.models[0], name=name, spaces=spaces)
    examples = tuple(
        replace(
            own,
            truth=name,
            image=name,
            predictions={
                name if key == old else key: each for key, each in own.predictions.items()
            },
        )
        for own in results.examples
    )
    changed = replace(results, models=(model, *results.models[1:]), examples=examples)
    renamed = rename(with_results(report, changed), old, name)
    page = Page(render_report(renamed))
    assert page.is_balanced and name in page.text
    assert Counter(tag for tag, _ in page.tags)["script"] == 5
    assert name in page.all("data-model-toggle")
    assert any(name == trace.get("meta", {}).get("model") for spec in page.specs.values()
               for trace in spec["data"])  # fmt: skip


def rename(report: Report, old: str, new: str) -> Report:
    """The report with a model's name changed in scores and order too."""
    run = report.runs[0]
    scores = {(new if key[0] == old else key[0], *key[1:]): own for key, own in run.scores.items()}
    run = replace(run, scores=scores)
    board = Leaderboard((run,))
    shown = {own.name: own for own in report.sections[0].models}
    standings = rank_models(board)
    models = []
    for name in standings.order:
        own = shown[old if name == new else name]
        short = new if name == new else own.short
        models.append(replace(own, name=name, short=short, results=run.results.models[own.index]))
    return replace(report, runs=(run,), sections=(Section(standings, tuple(models), (run,)),))


# Files


def test_the_page_is_written_whole_and_known_again(made, tmp_path):
    report, _ = made("native")
    path = write_report(report, tmp_path / "report.html")
    assert path.read_text("utf-8").startswith('<!doctype html>\n<html lang="en">')
    assert is_page(path) and list(tmp_path.iterdir()) == [path]
    other = tmp_path / "other.html"
    other.write_text("<!doctype html><title>mine</title>")
    assert not is_page(other) and not is_page(tmp_path / "none.html")


def test_a_place_that_cannot_be_written_is_said_in_a_sentence(made, tmp_path):
    report, _ = made("native")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"^Cannot write .*\.$"):
        write_report(report, tmp_path / "file" / "report.html")


def multiplied(report: Report, models: int, corruptions: int, home: Path) -> Report:
    """A report on as many models and corruptions, each a copy of a real one under its own name."""
    run = report.runs[0]
    results, scores = run.results, {}
    names = [f"vcr/corruption_{number:02}" for number in range(corruptions)]
    real = list(results.config.corruptions)
    source = {name: real[place % len(real)] for place, name in enumerate(names)}
    copies = []
    for number in range(models):
        base = results.models[number % len(results.models)]
        name = f"zoo:a_model_with_quite_a_long_name_{number}"
        spaces = {
            key: replace(
                space, corruptions={each: space.corruptions[source[each]] for each in names}
            )
            for key, space in base.spaces.items()
        }
        copies.append(replace(base, name=name, spaces=spaces))
        for (model, space, corruption, score_name), own in run.scores.items():
            for each in [own_name for own_name in names if source[own_name] == corruption] or [""]:
                if model == base.name and (each or not corruption):
                    scores[name, space, each, score_name] = own
    examples = [own for own in results.examples if own.corruption == "clean"]
    for name in names:
        for own in results.examples:
            if own.corruption == source[name]:
                examples.append(replace(own, corruption=name))
    said = [
        replace(
            own,
            predictions={
                copy.name: own.predictions[results.models[place % len(results.models)].name]
                for place, copy in enumerate(copies)
            },
        )
        for own in examples
    ]
    config = replace(results.config, corruptions=tuple(names), means_over=tuple(names))
    coverage = {name: results.coverage[source[name]] for name in names}
    results = replace(results, config=config, models=tuple(copies), examples=tuple(said),
                      coverage=coverage)  # fmt: skip
    run = replace(run, results=results, scores=scores, folder=home)
    standings = rank_models(Leaderboard((run,)))
    template = report.sections[0].models[0]
    shown = []
    for name in standings.order:
        place = run.models.index(name)
        shown.append(
            replace(
                template,
                name=name,
                short=name,
                color=COLORS[place % len(COLORS)],
                index=place,
                results=results.models[place],
            )
        )
    part = Section(standings, tuple(shown), (run,))
    return replace(report, runs=(run,), sections=(part,))


def noisy_images(report: Report, home: Path) -> None:
    """Write an example picture of 320 px for each that the report has, as hard as they come."""
    import numpy as np

    (home / "examples").mkdir()
    drawn = np.random.default_rng(0)
    for own in {example.file for example in report.runs[0].results.examples}:
        noise = drawn.integers(0, 256, (320, 320, 3), dtype=np.uint8)
        Image.fromarray(noise).save(home / "examples" / own, quality=90)


def test_ten_models_and_fourteen_corruptions_fit_into_eight_megabytes(made, tmp_path):
    report, _ = made("humans")
    large = multiplied(report, 10, 14, tmp_path)
    noisy_images(large, tmp_path)
    text = render_report(large)
    assert len(text.encode()) < 8_000_000
    page = Page(text)
    assert page.is_balanced and len(page.all("data-model-toggle")) == 10
    assert len([own for own in page.all("id") if re.fullmatch(r"corruption-0-\d+", own)]) == 14
    assert page.all("src")


# Words


def test_corruptions_are_called_as_humans_call_them():
    assert corruption_title("vcr/gaussian_noise") == "Gaussian noise"
    assert corruption_title("jpeg_compression") == "JPEG compression"
    assert corruption_words("vcr/motion_blur") == "motion blur"
    assert corruption_words("vcr/gaussian_blur") == "Gaussian blur"
    assert corruption_words("jpeg_compression") == "JPEG compression"
