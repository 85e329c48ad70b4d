"""What users do with results in Python: scores as attributes, figures, tables, the report."""

import copy
import csv
import json
import pickle
import sys
from dataclasses import asdict

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.compute as pc
import pytest
from IPython.core.formatters import DisplayFormatter

import eyechart as ec
from eyechart.core.errors import UsageError
from eyechart.results.model_results import CorruptionResults, ModelResults, SpaceResults
from eyechart.scores.registry import DECLARED, OVERALL, SCORES
from report_runs import SHARP, human_run, levels_run, make_once

NOT_IN_RUNS = {"hmri_p", "mrsi_p", "mce", "relative_mce"}
"""The humans of these runs have no consistency, and two corruptions are no whole suite."""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return ec.load(make_once(tmp_path_factory, human_run))


@pytest.fixture(scope="module")
def with_baseline(tmp_path_factory):
    return ec.load(make_once(tmp_path_factory, levels_run))


def test_every_score_of_a_corruption_is_an_attribute(results, with_baseline):
    humans, errors = results[SHARP].space("entry16"), with_baseline.models[0]
    names = set()
    for record in (humans["gaussian_noise"], errors["gaussian_noise"]):
        for name, estimate in record.scores.items():
            assert getattr(record, name) == estimate
            assert name in dir(record)
            names.add(name)
    assert names == {score.name for score in DECLARED if not score.of_test} - NOT_IN_RUNS


def test_every_score_of_the_whole_test_is_an_attribute_of_model_and_label_space(
    results, with_baseline
):
    names = set()
    for model in (results[SHARP], with_baseline.models[0]):
        for space in model.spaces.values():
            for name, estimate in space.scores.items():
                assert getattr(space, name) == estimate
                names.add(name)
        assert model.scores == model.primary.scores and model.r_a == model.primary.r_a
    assert names == {score.name for score in OVERALL} - NOT_IN_RUNS


def test_a_score_is_a_number_with_its_interval_and_replicates(results):
    score = results[SHARP]["gaussian_noise"].r_a
    assert score == results[SHARP]["vcr/gaussian_noise"].accuracy.robustness
    assert float(score) == score.value and f"{score:.2f}" == f"{score.value:.2f}"
    low, high = score.interval(0.95)
    assert low <= float(score) <= high
    assert len(score.replicates) == 40 and np.isfinite(score.replicates).all()


def test_ce_is_the_error_divided_by_that_of_the_baseline(with_baseline):
    model = with_baseline.models[1]
    base = with_baseline[model.primary.corruption_error.baseline]
    ratio = model["gaussian_noise"].error.value / base["gaussian_noise"].error.value
    assert float(model["gaussian_noise"].ce) == pytest.approx(ratio)
    # the records themselves hold it once, by baseline
    assert "ce" not in model.primary.corruptions["gaussian_noise"].scores


def test_a_misspelt_score_names_the_nearest(results):
    with pytest.raises(AttributeError, match=r"'hrmi_a'. Did you mean 'hmri_a'"):
        _ = results[SHARP]["gaussian_noise"].hrmi_a
    with pytest.raises(AttributeError, match=r"Did you mean 'accuracy'"):
        _ = results[SHARP]["gaussian_noise"].acuracy
    with pytest.raises(AttributeError, match=r"Did you mean 'r_a'"):
        _ = results[SHARP].r_aa


def test_a_score_that_is_missing_says_why(results):
    with pytest.raises(AttributeError, match="no hmri_a here: humans responded in 16 categories"):
        _ = results[SHARP]["gaussian_noise"].hmri_a
    with pytest.raises(AttributeError, match="no mce here: it needs baseline, labels"):
        _ = results[SHARP].mce
    assert not hasattr(results[SHARP]["gaussian_noise"], "ce")


@pytest.mark.parametrize("record", [CorruptionResults, SpaceResults, ModelResults])
def test_no_field_hides_a_score(record):
    """A field of a score's name must be that score."""
    fields = set(record.model_fields) & set(SCORES)
    assert fields <= {"error", "clean_accuracy"}


def test_a_corruption_is_found_without_its_suite_if_it_is_the_only_one(results):
    space = results[SHARP].primary
    assert space["brightness"] is space["vcr/brightness"]
    both = space.model_copy(
        update={"corruptions": {**space.corruptions, "noc/brightness": space["brightness"]}}
    )
    with pytest.raises(UsageError, match="Unknown corruption 'brightness'"):
        both["brightness"]


def test_a_plot_of_one_corruption_is_axes(results):
    axes = results.plot("gaussian_noise")
    assert axes.get_title() == "vcr/gaussian_noise"
    assert len(axes.lines) >= 2 * len(results.models)
    assert axes.figure.axes == [axes]
    with pytest.raises(UsageError, match="Unknown corruption 'gausian_noise'"):
        results.plot("gausian_noise")


def test_a_plot_of_several_corruptions_is_a_figure_with_a_panel_each(results, tmp_path):
    whole = results.plot(space="entry16")
    shown = [axes.get_title() for axes in whole.axes if axes.get_title()]
    assert shown == list(results[SHARP].primary.corruptions)
    whole.savefig(tmp_path / "curves.png")
    pair = results.plot("gaussian_noise", "brightness")
    assert [axes.get_title() for axes in pair.axes] == ["vcr/gaussian_noise", "vcr/brightness"]


def test_a_plot_is_drawn_into_axes_that_are_given(results):
    figure, (left, right) = plt.subplots(1, 2)
    assert results.plot("gaussian_noise", ax=left) is left
    alone = results.plot("gaussian_noise")
    assert len(left.lines) == len(alone.lines) > 5
    for line, same in zip(left.lines, alone.lines, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), same.get_ydata())
    assert left.get_legend() is not None and not right.lines
    with pytest.raises(UsageError, match="ax is for one corruption, got 2: name one"):
        results.plot("gaussian_noise", "brightness", ax=right)
    with pytest.raises(UsageError, match="ax must be matplotlib axes, got Figure"):
        results.plot("gaussian_noise", ax=figure)
    plt.close(figure)


@pytest.mark.parametrize("corruptions", [["gaussian_noise"], []])
def test_a_plot_is_displayed_by_a_notebook_that_has_set_up_no_backend(results, corruptions):
    # what a new kernel applies to the last value of a cell
    shown, _ = DisplayFormatter().format(results.plot(*corruptions))
    assert shown["image/png"].startswith(b"\x89PNG")
    assert shown["text/plain"].startswith("<Curve")


def test_the_report_is_that_of_the_command(results, tmp_path, run):
    run("report", results.folder, "--out", tmp_path / "command.html")
    page = results.report(tmp_path / "method.html")
    assert page.read_text("utf-8") == (tmp_path / "command.html").read_text("utf-8")


def test_a_report_replaces_no_file_of_others(results, tmp_path):
    (tmp_path / "mine.html").write_text("<p>mine</p>")
    with pytest.raises(UsageError, match="not an eyechart report"):
        results.report(tmp_path / "mine.html")
    with pytest.raises(UsageError, match=r"must end in \.html"):
        results.report(tmp_path / "report.pdf")


def test_results_without_a_folder_have_a_report_without_example_images(results, tmp_path):
    unsaved = results.model_copy()
    unsaved._folder = None
    page = unsaved.report(tmp_path / "report.html").read_text("utf-8")
    assert "data:image/jpeg" not in page
    assert "data:image/jpeg" in results.report(tmp_path / "report.html").read_text("utf-8")


def test_results_without_replicates_have_no_report(results, tmp_path):
    results.save(tmp_path)
    (tmp_path / "scores.parquet").unlink()
    with pytest.raises(UsageError, match="lack bootstrap replicates"):
        ec.load(tmp_path).report(tmp_path / "report.html")


def test_a_notebook_shows_a_table_of_models_and_scores(results):
    table = results._repr_html_()
    assert table.count("<tr>") == 1 + len(results.models)
    score = results[SHARP].r_a
    low, high = score.interval(0.95)
    bar = f"{100 * score.value:.0f}%, transparent {100 * score.value:.0f}%)"
    assert f'{bar}">{score:.3f} ({low:.3f}–{high:.3f})</td>' in table
    of_model = results[SHARP]._repr_html_()
    assert of_model.count("<tr>") == 1 + len(results[SHARP])
    assert f">{results[SHARP]['brightness'].r_a:.3f} (" in of_model
    assert repr(results[SHARP]).startswith(f"<ModelResults of {SHARP} under vcr/gaussian_noise, ")


def test_results_are_a_mapping_of_mappings(results):
    names = [model.name for model in results.models]
    assert list(results) == list(results.keys()) == names and len(results) == 3
    assert list(results.values()) == list(results.models)
    assert dict(results) == dict(results.items()) == dict(zip(names, results.models, strict=True))
    assert SHARP in results and "resnet50" not in results and 3 not in results
    assert results.get("resnet50") is None and results.get(SHARP) is results[SHARP]
    for record in (results[SHARP], results[SHARP].space("entry16")):
        assert list(record) == ["vcr/gaussian_noise", "vcr/gaussian_blur", "vcr/brightness"]
        assert "brightness" in record and "vcr/brightness" in record and "fog" not in record
        assert record.get("fog", 0) == 0
        assert all(found is record[name] for name, found in record.items())


def test_names_in_python_are_those_of_the_file(results):
    """Every name in results.json is an attribute of the record at that place, with that value."""
    written = json.loads((results.folder / "results.json").read_text("utf-8"))
    # pydantic's records already have a method of this name
    written["schema_version"] = written.pop("schema")
    n_names = 0

    def walk(content, value):
        nonlocal n_names
        if isinstance(content, dict):
            is_mapping = hasattr(value, "items") and not hasattr(type(value), "model_fields")
            for name, part in content.items():
                walk(part, value[name] if is_mapping else getattr(value, name))
                n_names += 1
        elif isinstance(content, list):
            assert len(content) == len(value)
            for part, found in zip(content, value, strict=True):
                walk(part, found)
        elif content is None:
            assert value is None or np.isnan(value)
        else:
            assert content == value

    config, fit = written.pop("config"), results.config.written()
    walk(written, results)
    assert json.loads(json.dumps(fit)) == config
    assert n_names > 1000


def test_a_table_has_a_row_for_every_score_of_every_corruption(results, with_baseline):
    for run in (results, with_baseline):
        table = run.to_arrow().to_pylist()
        expected = {
            (model.name, name, corruption, score): (found, record, space)
            for model in run.models
            for name, space in model.spaces.items()
            for corruption, record in space.items()
            for score, found in record.scores.items()
        }
        assert len(table) == len(expected) > 40
        for row in table:
            key = (row["model"], row["space"], row["corruption"], row["score"])
            found, record, space = expected[key]
            ends = (row["low95"], row["high95"])
            assert [found.value, *found.interval95] == pytest.approx(
                [np.nan if number is None else number for number in (row["value"], *ends)],
                nan_ok=True,
            )
            assert row["n_images"] == space.n_images
            letter = SCORES[row["score"]].letter or "a"
            assert row["n_samples"] == record.properties[letter].n_samples
    # CE is among them, although the file stores it by baseline
    assert pc.any(pc.equal(with_baseline.to_arrow()["score"], "ce")).as_py()


def test_a_data_frame_is_the_table(results):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = results.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == results.to_arrow().num_rows
    native = frame[(frame["space"] == "native") & (frame["score"] == "r_a")]
    wide = native.pivot(index="corruption", columns="model", values="value")
    assert wide.loc["vcr/brightness", SHARP] == results[SHARP]["brightness"].r_a.value


def test_without_pandas_only_data_frames_are_missing(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="to_pandas needs pandas: pip install pandas, or use to_a"):
        results.to_pandas()
    assert results.to_arrow().num_rows and results.predictions().num_rows


@pytest.mark.parametrize("space", ["native", "entry16"])
def test_predictions_give_the_rates_and_counts_of_the_results(results, space):
    table = results.predictions(space)
    assert table.column_names[:3] == ["model", "space", "corruption"]
    for model in results.values():
        for corruption, record in model.space(space).items():
            at = pc.and_(
                pc.equal(table["model"], model.name), pc.equal(table["corruption"], corruption)
            )
            rows = table.filter(at)
            for column, found in (("correct", record.accuracy), ("consistent", record.consistency)):
                assert len(rows) == found.n_samples
                if space == "native":  # the categories are weighted
                    assert pc.mean(rows[column]).as_py() == pytest.approx(found.rate.value)
            is_correct = pc.equal(rows["label"], rows["prediction"])
            assert is_correct.to_pylist() == rows["correct"].to_pylist()


def test_predictions_are_the_examples_of_the_results(results):
    """Example images are stored with each prediction; the table has the same values."""
    table = results.predictions().to_pylist()
    by_row = {(row["row"], row["model"]): row for row in table}
    examples = [example for example in results.examples if example.corruption != "clean"]
    assert len(examples) > 10
    for example in examples:
        for model, stored in example.predictions.items():
            row = by_row[example.row, model]
            assert (row["corruption"], row["image"]) == (example.corruption, example.image)
            assert (row["label"], row["prediction"]) == (example.truth, stored.prediction)
            assert (row["correct"], row["consistent"]) == (stored.correct, stored.consistent)
            assert row["delta_v"] == example.delta_v
            assert dict(row["parameters"]) == example.parameters


def test_predictions_that_are_gone_are_one_sentence(results, tmp_path):
    results.save(tmp_path / "copy")
    with pytest.raises(UsageError, match="copy has no folder predictions: use the whole folder"):
        ec.load(tmp_path / "copy").predictions()
    unsaved = results.model_copy()
    unsaved._folder = None
    with pytest.raises(UsageError, match="no predictions: call evaluate with out=FOLDER"):
        unsaved.predictions()
    with pytest.raises(UsageError, match="Unknown label space 'entry61'"):
        results.predictions("entry61")


def test_a_folder_of_evaluate_is_loaded_as_it_was_returned(tmp_path):
    few = {"max_images": 2, "n": 12, "corruptions": ["frost"], "labels": "none", "bins": 4,
           "min_per_bin": 2, "n_bootstrap": 10}  # fmt: skip

    def mean_color(images):
        return images.mean(dim=(2, 3))

    results = ec.evaluate(mean_color, out=tmp_path / "run", **few)
    loaded = ec.load(tmp_path / "run")
    assert loaded == results and loaded.examples
    score, again = (own["mean_color"]["frost"].r_p for own in (results, loaded))
    assert len(again.replicates) == 10 and np.array_equal(score.replicates, again.replicates)
    assert loaded.predictions().equals(results.predictions())
    assert ec.compare(tmp_path / "run").order == ["mean_color"]
    assert loaded.report(tmp_path / "report.html").is_file()
    # results that do not reach a limit were computed all the same
    with pytest.raises(ec.CheckFailed) as failure:
        ec.evaluate(mean_color, out=tmp_path / "failed", fail_under=["r_p=1"], **few)
    assert ec.load(tmp_path / "failed") == failure.value.results


def test_results_without_a_folder_keep_their_predictions_as_long_as_they_exist():
    few = {"max_images": 2, "bins": 4, "min_per_bin": 2, "n_bootstrap": 10}
    results = ec.evaluate(
        lambda images: images.mean(dim=(2, 3)), n=12, corruptions=["frost"], labels="none", **few
    )
    assert results.folder is None
    path = results.predictions_folder
    copies = [results.model_copy(), copy.deepcopy(results), results.with_command("x")]
    pickled = pickle.dumps(results)
    table = results.predictions()
    assert table.num_rows == 12 and table["correct"].null_count == 12
    del results
    assert all(found.predictions() == table for found in copies)
    del copies
    assert not path.exists()
    with pytest.raises(UsageError, match="has no folder predictions"):
        pickle.loads(pickled).predictions()


def test_compare_has_the_numbers_of_the_command(results, tmp_path, run):
    run("compare", results.folder, "--out", tmp_path, "--by", "r_p")
    standings = results.compare(by="r_p")
    with (tmp_path / "leaderboard.csv").open() as file:
        lines = list(csv.DictReader(file))
    rows = standings.to_arrow().to_pylist()
    assert [line["model"] for line in lines] == standings.order and len(lines) == 3
    for line, row in zip(lines, rows, strict=True):
        assert list(line) == list(row)
        for name, value in row.items():
            text = "" if value is None else value
            if isinstance(value, float):
                assert float(line[name]) == pytest.approx(value, abs=1e-6)
            else:
                assert line[name] == str(text)
    with (tmp_path / "pairs.csv").open() as file:
        pairs = list(csv.DictReader(file))
    for line, pair in zip(pairs, standings.pairs, strict=True):
        assert (line["first"], line["second"]) == (pair.first, pair.second)
        for name in ("difference", "p_value", "corrected"):
            assert float(line[name]) == pytest.approx(asdict(pair)[name])
    assert standings._repr_html_().count("<tr>") == 4


def test_compare_takes_results_and_folders_of_the_same_test(results, with_baseline):
    """A run cut into models and compared again is the run itself."""
    parts = [results.model_copy(update={"models": (model,)}) for model in results.models]
    again = ec.compare(*parts, by="r_a")
    whole = ec.compare(results.folder, by="r_a")
    assert again.order == whole.order and again.pairs == whole.pairs
    with pytest.raises(UsageError, match="one suite, got runs on vcr and imagenet-c"):
        results.compare(with_baseline)
    with pytest.raises(UsageError, match="run must be results or the path of a run folder, got 3"):
        ec.compare(3)
    with pytest.raises(UsageError, match="at least one run"):
        ec.compare()
    with pytest.raises(UsageError, match="Unknown score 'ra'"):
        results.compare(by="ra")


def test_a_latex_table_has_every_corruption_and_model(results, with_baseline):
    lines = results.to_latex("r_a").splitlines()
    rows = [line for line in lines if line.endswith(r"\\")]
    assert len(rows) == 1 + 3 + 1
    cells = rows[1].removesuffix(r" \\").split(" & ")
    assert cells[0] == "Gaussian noise" and len(cells) == 4
    for cell, model in zip(cells[1:], results.values(), strict=True):
        score = model["gaussian_noise"].r_a
        low, high = score.interval95
        assert cell == f"{score:.3f} ({low:.2f}--{high:.2f})"
    assert rows[-1].startswith(f"Mean & {results[SHARP].r_a:.3f} (")
    assert "hues" in rows[0] and "_" not in rows[0].replace(r"\_", "")
    ce = with_baseline.to_latex("ce").splitlines()
    score = with_baseline.models[0]["gaussian_noise"].ce
    assert any(f"& {100 * score.value:.1f} (" in line for line in ce)


def test_a_latex_table_of_a_missing_score_is_one_sentence(results):
    with pytest.raises(UsageError, match="Unknown score of a corruption 'mce'"):
        results.to_latex("mce")
    with pytest.raises(UsageError, match="no ce in the label space native: it needs baseline, lab"):
        results.to_latex("ce")
