"""The model card: metadata that other tools read, and tables that say what results.json says."""

import json
import re
import shutil
from html import unescape
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from changing import replace
from eyechart.core.errors import UsageError
from eyechart.reports.series.report import TestSection as Section
from eyechart.reports.series.report import load_report
from eyechart.reports.terminal.markdown import block, code, escape, one_line
from eyechart.reports.terminal.model_card import card_of, is_card, write_card
from eyechart.reports.titles import corruption_title, space_title
from nonempty import at_least_one
from report_runs import (
    BLIND,
    CORRUPTIONS,
    DULL,
    HOSTILE,
    MODELS,
    hostile_run,
    human_run,
    levels_run,
    make_once,
)

FRONT = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)
TITLES = {"vcr": "VCR-Bench", "imagenet-c": "ImageNet-C"}
NATIVE, CATEGORIES = space_title("native"), space_title("entry16")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {
        "vcr": make_once(tmp_path_factory, human_run),
        "imagenet-c": make_once(tmp_path_factory, levels_run),
    }


@pytest.fixture(scope="module")
def report(folders):
    return load_report(list(folders.values()))


@pytest.fixture(scope="module")
def card(report):
    return card_of(report)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return card_of(load_report([make_once(tmp_path_factory, hostile_run)]))


def front(card):
    """What stands in the YAML on top, read without anything of eyechart's."""
    return yaml.safe_load(FRONT.match(card)[1])


def saved(folder, model):
    """A model as results.json has it."""
    found = json.loads((folder / "results.json").read_text())
    return next(own for own in found["models"] if own["name"] == model)


def rows_below(card, heading):
    """The rows of the first table below a heading, as lists of cells by column."""
    lines = card[card.index(f"\n### {heading}") :].splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    head, _, *rows = table
    assert all(len(row) == len(head) for row in rows)
    return [dict(zip(head, row, strict=True)) for row in rows]


def rounded(number, percent=False):
    scale, decimals = (100, 1) if percent else (1, 3)
    value, low, high = (
        f"{own * scale:.{decimals}f}" for own in (number["value"], *number["interval95"])
    )
    return f"{value} ({low}–{high})"


def test_every_model_is_in_the_index_with_every_test(card):
    index = front(card)["model-index"]
    assert [entry["name"] for entry in index] == list(MODELS)
    for entry in index:
        tests = [(own["dataset"]["type"], own["dataset"]["config"]) for own in entry["results"]]
        assert tests == [("vcr", "native"), ("vcr", "entry16"), ("imagenet-c", "native")]


def test_the_index_has_the_fields_of_the_format(card):
    for entry in at_least_one(front(card)["model-index"]):
        assert set(entry) == {"name", "results"}
        for result in entry["results"]:
            assert set(result) == {"task", "dataset", "metrics"}
            assert result["task"]["type"] == "image-classification"
            known = {"name", "type", "config", "split", "revision", "args"}
            assert set(result["dataset"]) == known
            for metric in result["metrics"]:
                assert set(metric) == {"type", "value", "name", "args"}
                assert isinstance(metric["value"], float)


def test_every_number_of_the_index_is_that_of_results(card, folders):
    count = 0
    for entry in front(card)["model-index"]:
        for result in entry["results"]:
            suite, space = result["dataset"]["type"], result["dataset"]["config"]
            own = saved(folders[suite], entry["name"])["spaces"][space]
            for metric in result["metrics"]:
                kind = metric["type"]
                number = own["clean_accuracy"] if kind == "clean_accuracy" else own["means"][kind]
                assert metric["value"] == number["value"]
                assert metric["args"]["interval95"] == number["interval95"]
                count += 1
            kinds = {metric["type"] for metric in result["metrics"]}
            assert kinds == {"clean_accuracy", *own["means"]}
            assert result["dataset"]["args"]["n_images"] == own["n_images"]
    # three models: clean accuracy, R_a, R_p, error, top-5 and ECE thrice, HMRI_a and MRSI_a once
    assert count == 3 * (3 * 6 + 2)


def test_the_index_names_the_images_by_their_digest(card, folders):
    images = json.loads((folders["vcr"] / "results.json").read_text())["images"]
    for entry in at_least_one(front(card)["model-index"]):
        assert {own["dataset"]["revision"] for own in entry["results"]} == {images["digest"]}


def test_a_mean_says_over_how_many_corruptions_it_is(card, folders):
    spaces = saved(folders["vcr"], DULL)["spaces"]
    compared = [
        name
        for name, own in spaces["entry16"]["corruptions"].items()
        if own["accuracy"]["humans"] is not None
    ]
    entry = next(own for own in front(card)["model-index"] if own["name"] == DULL)
    metrics = {own["type"]: own["args"] for own in entry["results"][1]["metrics"]}
    assert metrics["hmri_a"]["mean_over"] == len(compared) == 2
    assert metrics["r_a"]["mean_over"] == len(CORRUPTIONS["vcr"])
    assert "mean_over" not in metrics["clean_accuracy"]


def test_leaderboards_show_the_numbers_of_results(card, folders):
    titles = {"R_a": "r_a", "R_p": "r_p", "error": "error", "HMRI_a (2 of 3 corruptions)": "hmri_a"}
    seen = 0
    for suite, space, heading in (
        ("vcr", "native", f"VCR-Bench, {NATIVE}, 48 images"),
        ("vcr", "entry16", f"VCR-Bench, {CATEGORIES}, 48 images"),
        ("imagenet-c", "native", f"ImageNet-C, {NATIVE}, 48 images"),
    ):
        rows = rows_below(card, heading)
        assert {row["model"] for row in rows} == {escape(name) for name in MODELS}
        for row in rows:
            model = next(name for name in MODELS if escape(name) == row["model"])
            own = saved(folders[suite], model)["spaces"][space]
            assert row["clean accuracy"] == rounded(own["clean_accuracy"])
            for title, name in titles.items():
                if title in row:
                    assert row[title] == rounded(own["means"][name])
                    seen += 1
    assert seen == 3 * (3 * 3 + 1)


def test_models_stand_in_the_order_of_the_standings(report, card):
    rows = rows_below(card, f"ImageNet-C, {NATIVE}")
    assert [row["model"] for row in rows] == [
        escape(own.short) for own in report.sections[1].models
    ]
    assert [row["#"] for row in rows] == ["1", "2", "3"]


@pytest.mark.parametrize("suite", TITLES)
def test_each_corruption_shows_the_numbers_of_results(card, folders, suite):
    own = saved(folders[suite], DULL)["spaces"]["native"]
    rows = rows_below(card, f"{escape(DULL)}, {TITLES[suite]}, {NATIVE}")
    by_title = {corruption_title(name): name for name in own["corruptions"]}
    assert [row["corruption"] for row in rows] == list(by_title)
    for row in rows:
        found = own["corruptions"][by_title[row["corruption"]]]
        assert row["R_a"] == rounded(found["accuracy"]["robustness"])
        assert row["R_p"] == rounded(found["consistency"]["robustness"])
        assert row["error"] == rounded(found["error"])
        errors = (own["corruption_error"] or {"ce": {}})["ce"]
        name = by_title[row["corruption"]]
        if name in errors:
            assert row["CE in %"] == rounded(errors[name], percent=True)
        else:
            assert row.get("CE in %", "–") == "–"
    assert ("CE in %" in rows[0]) == (suite == "imagenet-c")


def test_humans_are_named_where_models_are_compared_with_them(card, folders):
    humans = json.loads((folders["vcr"] / "results.json").read_text())["humans"]
    assert humans
    for experiment in humans:
        assert escape(experiment["title"]) in card
        assert escape(experiment["size"]) in card


def test_without_humans_the_card_says_so(folders):
    card = card_of(load_report([folders["imagenet-c"]]))
    assert "Humans: no comparison." in card
    assert "HMRI" not in card and "hmri" not in card


def test_limits_are_those_of_the_runs(card, folders):
    limits = card[card.index("## Limits") : card.index("## How to reproduce it")]
    warnings = json.loads((folders["imagenet-c"] / "results.json").read_text())["warnings"]
    assert warnings and all(escape(own) in limits for own in warnings)
    rows = rows_below(limits, f"VCR-Bench, {NATIVE}, 48 images: unobserved visual changes")
    own = saved(folders["vcr"], DULL)["spaces"]["native"]["corruptions"]
    noise = own["vcr/gaussian_noise"]["accuracy"]["observed"]
    cell = next(row for row in rows if row["corruption"] == "Gaussian noise")
    ends = [float(end) for end in re.findall(r"\d\.\d\d", cell["Δv without enough images"])]
    # what was seen and what was not make up the whole
    seen = sum(high - low for low, high in noise)
    missing = sum(high - low for low, high in zip(ends[::2], ends[1::2], strict=True))
    assert seen + missing == pytest.approx(1, abs=0.02)


def test_the_card_says_how_to_do_it_again(card, folders):
    tail = card[card.index("## How to reproduce it") :]
    for folder in at_least_one(folders.values()):
        found = json.loads((folder / "results.json").read_text())
        assert found["images"]["digest"] in tail
        for name, version in found["run"]["versions"].items():
            assert f"`{name} {version}`" in tail
        for model in found["models"]:
            assert model["identity"] in tail


def test_mce_is_a_share_in_the_index_and_in_percent_in_tables(folders, tmp_path):
    """mCE is the mean over a whole suite, which a small run has not; so a number stands in."""
    for name in ("results.json", "scores.parquet"):
        shutil.copy(folders["imagenet-c"] / name, tmp_path)
    found = json.loads((tmp_path / "results.json").read_text())
    for model in found["models"]:
        errors = model["spaces"]["native"]["corruption_error"]
        errors["mce"] = {"value": 0.4321, "interval95": [0.4, 0.5], "interval83": [0.41, 0.49]}
    (tmp_path / "results.json").write_text(json.dumps(found))
    card = card_of(load_report([tmp_path]))
    for entry in at_least_one(front(card)["model-index"]):
        metrics = {own["type"]: own for own in entry["results"][0]["metrics"]}
        assert metrics["mce"]["value"] == 0.4321
        assert metrics["mce"]["args"]["baseline"] == BLIND
    for row in at_least_one(rows_below(card, f"ImageNet-C, {NATIVE}")):
        assert row["mCE in %"] == "43.2 (40.0–50.0)"


def test_few_images_are_noted_at_every_number(made):
    report, _ = made("unlabeled")
    few = card_of(report)
    for entry in front(few)["model-index"]:
        for result in entry["results"]:
            for metric in result["metrics"]:
                assert metric["args"]["note"].startswith("insufficient data")
    assert "insufficient data" in few[few.index("## Limits") :]


def test_hostile_names_are_shown_and_mean_nothing(hostile):
    assert front(hostile)["model-index"][0]["name"] in (HOSTILE, "small_models:colors")
    body = hostile[FRONT.match(hostile).end() :]
    outside = re.sub(r"(?s)```+sh\n.*?\n```+", "", body)
    assert "<img" not in outside and "&lt;img src=x" in outside
    rows_below(hostile, f"VCR-Bench, {NATIVE}")


def test_hostile_names_do_not_run_where_markdown_becomes_html(hostile):
    markdown = pytest.importorskip("markdown")
    body = hostile[FRONT.match(hostile).end() :]
    html = markdown.markdown(body, extensions=["tables", "fenced_code"])
    assert "<img" not in html and "&lt;img" in html


WEIRD = st.text(max_size=30) | st.sampled_from(
    [
        "a|b",
        "[x](javascript:alert(1))",
        "# x",
        "1. x",
        "- x",
        "*b*",
        "__init__",
        "`",
        "a\n---\nb",
        "=x",
        ".5",
        "(a) [b] [c]: d",
    ]
)


@given(WEIRD)
def test_escaped_text_is_read_as_it_was(text):
    markdown = pytest.importorskip("markdown")
    html = markdown.markdown(f"- {escape(text)} word")
    shown = unescape(re.sub(r"</?(?:ul|li)>", "", html))
    assert " ".join(shown.split()) == one_line(f"{text} word")


TROUBLE = ("", "\n---\n", "\r---\r", "\x85---\x85", ": {", "'", "| |", "\udcff", "# - [x]")


@pytest.mark.parametrize("trouble", TROUBLE)
def test_no_name_breaks_the_metadata_or_a_table(report, trouble):
    part = report.sections[1]
    names = [f"{trouble}{place}{trouble}" for place in range(len(part.models))]
    shown = [replace(own, short=name) for own, name in zip(part.models, names, strict=True)]
    card = card_of(replace(report, sections=(Section(part.standings, tuple(shown), part.runs),)))
    found = [entry["name"] for entry in front(card)["model-index"]]
    assert found == [one_line(name) for name in names]
    rows = rows_below(card, f"ImageNet-C, {NATIVE}")
    assert [row["model"] for row in rows] == [escape(name) for name in names]


@given(st.text(alphabet="`a \n", max_size=12))
def test_nothing_within_ends_a_block_of_code(text):
    first, *inner, last = block(text).split("\n")
    assert first == last and first.startswith("```")
    assert not any(line.strip().startswith(first) for line in inner)
    assert "\n" not in code(text)


def test_writing_makes_the_folder_and_gives_the_path(report, card, tmp_path):
    path = write_card(report, tmp_path / "new" / "card.md")
    assert path.read_text(encoding="utf-8") == card
    assert [own.name for own in path.parent.iterdir()] == ["card.md"]


def test_a_card_is_known_again(report, tmp_path):
    assert is_card(write_card(report, tmp_path / "card.md"))
    for name, text in {"own.md": b"# My model\n", "bytes": b"---\n\xff", "empty": b""}.items():
        (tmp_path / name).write_bytes(text)
        assert not is_card(tmp_path / name)
    assert not is_card(tmp_path / "none.md") and not is_card(tmp_path)


def test_a_card_that_cannot_be_written_is_a_sentence(report, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"Cannot write .*card\.md"):
        write_card(report, tmp_path / "file" / "card.md")


def test_the_hub_reads_every_result(card, folders):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    from huggingface_hub.repocard_data import model_index_to_eval_results

    # its reader of whole cards takes a card for one of a single model
    results = hub.ModelCard(card).data.eval_results
    # three models; six scores of three runs, and clean accuracy in two label spaces
    assert len(results) == 3 * (3 * 6 + 2)
    for entry in front(card)["model-index"]:
        name, own = model_index_to_eval_results([entry])
        assert name == entry["name"]
        for each in own:
            space = saved(folders[each.dataset_type], name)["spaces"][each.dataset_config]
            kind = each.metric_type
            number = space["clean_accuracy"] if kind == "clean_accuracy" else space["means"][kind]
            assert each.metric_value == number["value"]
            assert each.metric_args["interval95"] == number["interval95"]
            assert each.task_type == "image-classification"


def test_the_hub_reads_hostile_names(hostile):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    found = hub.ModelCard(hostile)
    assert found.data.model_name in (HOSTILE, "small_models:colors")
    assert Path(HOSTILE).name in str(found.data.to_dict())
