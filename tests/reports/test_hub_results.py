"""Evaluation results for the Hub: its own parser reads them, and the scores are those of results.

The parser is that of huggingface_hub; where it is not installed, the documented fields are checked
(https://huggingface.co/docs/hub/eval-results).
"""

import json
import re
from datetime import datetime

import pytest
import yaml

from commands import assert_rejected
from eyechart.reports.series.report import load_report
from eyechart.reports.terminal.hub_results import FILE, write_eval_results
from nonempty import at_least_one
from report_runs import MODELS, SHARP, evaluate, human_run, levels_run, make_once

DATASET, SOURCE = "our-team/robustness", "https://example.org/report.html"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {
        "vcr": make_once(tmp_path_factory, human_run),
        "imagenet-c": make_once(tmp_path_factory, levels_run),
    }


@pytest.fixture(scope="module")
def entries(folders, tmp_path_factory):
    """The entries of each model's file, by the model's folder."""
    home = tmp_path_factory.mktemp("hub")
    report = load_report(list(folders.values()))
    paths = write_eval_results(report, home, DATASET, SOURCE)
    assert all(path.match(f"*/{FILE}") for path in paths)
    return {path.parents[1].name: yaml.safe_load(path.read_text()) for path in paths}


def test_every_model_has_a_file(entries):
    assert set(entries) == {name.replace(":", "_") for name in MODELS}


def test_values_are_the_scores_of_results(entries, folders):
    count = 0
    for name in MODELS:
        values = {
            entry["dataset"]["task_id"]: entry["value"] for entry in entries[name.replace(":", "_")]
        }
        expected = {}
        for suite, folder in folders.items():
            models = json.loads((folder / "results.json").read_text())["models"]
            spaces = next(own["spaces"] for own in models if own["name"] == name)
            for space, scores in spaces.items():
                known = {**scores["means"], "clean_accuracy": scores["clean_accuracy"]}
                errors = scores["corruption_error"] or {}
                known |= {key: errors[key] for key in ("mce", "relative_mce") if errors.get(key)}
                expected |= {
                    f"{suite}_{space}_{score}": estimate["value"]
                    for score, estimate in known.items()
                    if estimate["value"] is not None
                }
        assert values == expected
        count += len(values)
    assert count > 3 * 15


def test_entries_have_the_documented_fields(entries):
    for entry in at_least_one(own for each in entries.values() for own in each):
        assert set(entry) == {"dataset", "value", "date", "source", "notes"}
        assert set(entry["dataset"]) == {"id", "task_id"}
        assert entry["dataset"]["id"] == DATASET
        assert isinstance(entry["value"], float)
        assert datetime.fromisoformat(entry["date"]).tzinfo is not None
        assert entry["source"] == {"url": SOURCE, "name": "eyechart report"}
        assert "eyechart" in entry["notes"] and "\n" not in entry["notes"]
        assert re.fullmatch(r"[\w.-]+", entry["dataset"]["task_id"])


def test_the_hub_reads_what_was_written(entries):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    for each in at_least_one(entries.values()):
        parsed = hub.parse_eval_result_entries(each)
        assert [entry.value for entry in parsed] == [entry["value"] for entry in each]
        # nothing was ignored: it writes the same
        assert hub.eval_result_entries_to_yaml(parsed) == each


def test_the_hub_reads_the_index_of_the_card(folders, run, tmp_path):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    out = tmp_path / "README.md"
    assert run("report", folders["vcr"], "--out", out).status == 0
    text = out.read_text()
    parsed = hub.ModelCard(text, ignore_metadata_errors=False).data.eval_results
    index = yaml.safe_load(text.split("---\n")[1])["model-index"]
    results = [result for model in index for result in model["results"]]
    metrics = [metric for result in results for metric in result["metrics"]]
    assert [own.metric_value for own in parsed] == [metric["value"] for metric in metrics]
    assert [own.metric_type for own in parsed] == [metric["type"] for metric in metrics]
    assert len(parsed) > 3 * 10


def test_the_command_writes_a_folder_for_each_of_several_models(folders, run, tmp_path):
    out = tmp_path / "README.md"
    result = run("report", folders["vcr"], "--out", out, "--hub-dataset", DATASET)
    assert result.status == 0, result.err
    written = sorted(tmp_path.glob(f"*/{FILE}"))
    assert {path.parents[1].name for path in written} == {name.replace(":", "_") for name in MODELS}
    assert all(str(path) in result.out for path in written)
    assert "source" not in yaml.safe_load(written[0].read_text())[0]


def test_the_file_of_a_single_model_is_beside_its_card(folders, tmp_path):
    few = ("--n", 40, "--corruption", "brightness", "--humans", "none")
    single = evaluate(folders["vcr"].parent / "photos", tmp_path / "run", *few, models=(SHARP,))
    assert write_eval_results(load_report([single]), tmp_path, DATASET) == [tmp_path / FILE]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--format", "md", "--hub-dataset", "robustness"), "OWNER/NAME"),
        (("--format", "md", "--hub-dataset", DATASET, "--source-url", "here"), "https://"),
        (("--format", "md", "--source-url", SOURCE), "needs --hub-dataset"),
        (("--hub-dataset", DATASET), "add --format md"),
        (("--serve", "--hub-dataset", DATASET), "add --format md"),
    ],
)
def test_what_the_hub_would_reject_is_one_sentence(folders, run, words, sentence):
    assert_rejected(run("report", folders["vcr"], *words), sentence)
