"""What users do with results in Python: scores as attributes, figures, tables, the report."""

import numpy as np
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


def test_a_plot_has_a_panel_for_each_corruption(results, tmp_path):
    figure = results.plot("gaussian_noise")
    assert [axes.get_title() for axes in figure.axes] == ["vcr/gaussian_noise"]
    assert len(figure.axes[0].lines) >= 2 * len(results.models)
    whole = results.plot(space="entry16")
    shown = [axes.get_title() for axes in whole.axes if axes.get_title()]
    assert shown == list(results[SHARP].primary.corruptions)
    whole.savefig(tmp_path / "curves.png")
    with pytest.raises(UsageError, match="Unknown corruption 'gausian_noise'"):
        results.plot("gausian_noise")


def test_a_plot_is_displayed_by_a_notebook_that_has_set_up_no_backend(results):
    figure = results.plot("gaussian_noise")
    # what a new kernel applies to the last value of a cell
    shown, _ = DisplayFormatter().format(figure)
    assert shown["image/png"].startswith(b"\x89PNG")
    assert shown["text/plain"].startswith("<CurveFigure size ")


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
    assert f"<td>{score:.3f} ({low:.3f}–{high:.3f})</td>" in table
