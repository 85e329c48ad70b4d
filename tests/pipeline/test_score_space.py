"""Scores of a run: the same with any number of threads, and all of them from one resampling."""

import numpy as np
import pytest

from benchmarks.scoring import synthetic_run
from eyechart.core.progress import NO_PROGRESS
from eyechart.pipeline.scoring import score_space
from eyechart.pipeline.scoring.score import score_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two models on 1,000 images, one of each class of ImageNet, compared with humans."""
    names = ("vcr/gaussian_noise", "vcr/uniform_noise", "vcr/brightness")
    settings = {"corruptions": names, "n_bootstrap": 30}
    return synthetic_run(tmp_path_factory.mktemp("run"), 150, 1000, 2, **settings)


def test_results_do_not_depend_on_the_number_of_threads(run, monkeypatch):
    texts = []
    for count in (1, 7):
        monkeypatch.setattr(score_space, "n_threads", lambda count=count: count)
        results = score_run(run, NO_PROGRESS)
        texts.append(results.model_dump_json(exclude={"run"}))
    assert texts[0] == texts[1]
    # similar corruptions share one human curve, also if two threads ask for it at once
    space = results.models[0].spaces["entry16"]
    first, second = (space[name].accuracy.humans for name in ("gaussian_noise", "uniform_noise"))
    assert first.line.fitted is second.line.fitted


def test_few_threads_score_on_many_cores(monkeypatch):
    for n_cores, expected in ((1, 1), (6, 6), (64, 6)):
        monkeypatch.setattr(score_space, "n_cores", lambda n_cores=n_cores: n_cores)
        assert score_space.n_threads() == expected


def test_accuracy_is_that_of_a_plain_count_of_the_recorded_predictions(run):
    results = score_run(run, NO_PROGRESS)
    model = run.task.models[1]
    (native, _) = run.spaces(model)
    predictions = run.reader(native).outcomes(model.name, "vcr/brightness")
    table = run.reader(native)._read("vcr/brightness", model.name)
    labels = dict(zip((image.name for image in run.task.images.listed), native.labels, strict=True))
    right = [
        labels[name] == predicted
        for name, predicted in zip(
            table["image"].to_pylist(), table["prediction"].to_pylist(), strict=True
        )
    ]
    assert len(right) == 150 and 0 < np.mean(right) < 1
    np.testing.assert_array_equal(predictions.correct, right)
    rate = results.models[1].spaces["native"].corruptions["vcr/brightness"].accuracy.rate
    assert rate.value == pytest.approx(np.mean(right), abs=1e-12)
