"""Intervals of balance and of direct tests, against a bootstrap written out picture by picture."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eyechart.overlap.accuracy_table import write_accuracies
from eyechart.overlap.benchmarks import (
    balance_of,
    direct_intervals,
    direct_test,
    resample_errors,
    spread_intervals,
)
from overlap_cases import make_table

NAMES = ("fog", "rain", "hue")
MODELS = ("standard", *NAMES, "all:mine")
RATES = np.array(
    [
        [0.90, 0.50, 0.55, 0.60],
        [0.88, 0.80, 0.60, 0.58],
        [0.89, 0.55, 0.82, 0.61],
        [0.90, 0.50, 0.56, 0.80],
        [0.86, 0.75, 0.78, 0.77],
    ]
)
IMAGES = 400


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A folder with single answers, its table, and the answers (models, tests, pictures)."""
    folder = tmp_path_factory.mktemp("study")
    hits = np.random.default_rng(3).random((*RATES.shape, IMAGES)) < RATES[..., None]
    (folder / "tests" / "0").mkdir(parents=True)
    for place, name in enumerate(("clean", *NAMES)):
        columns = {model: hits[row, place] for row, model in enumerate(MODELS)}
        pq.write_table(pa.table(columns), folder / "tests" / "0" / f"{name}.parquet")
    table = make_table(NAMES, MODELS, hits.mean(axis=2))
    write_accuracies(table, folder / "accuracies.csv")
    return folder, table, hits


def errors_by_hand(hits, relative):
    """Corruption errors (models, corruptions) of some pictures, divided by the standard model's."""
    errors = 1 - hits.mean(axis=2)
    own = errors[:, 1:] - (errors[:, :1] if relative else 0)
    return own / own[0]


def bootstrap_by_hand(hits, relative, count=1500):
    numbers = np.random.default_rng(11)
    for _ in range(count):
        yield errors_by_hand(hits[..., numbers.integers(0, IMAGES, IMAGES)], relative)


def near(ends, drawn):
    """Whether an interval is that of these replicates, to a tenth of its width."""
    low, high = np.quantile(drawn, (0.025, 0.975))
    return np.allclose(ends, (low, high), atol=0.1 * (high - low))


@pytest.mark.parametrize("relative", [False, True])
def test_deviation_and_range_have_the_intervals_of_a_bootstrap_by_hand(study, relative):
    folder, table, hits = study
    drawn = resample_errors(folder, table, n_bootstrap=1500)
    found = spread_intervals(drawn, balance_of(table, NAMES, relative=relative))
    means = np.array([each[1:4].mean(axis=1) for each in bootstrap_by_hand(hits, relative)])
    assert near(found[0], means.std(axis=1)) and near(found[1], np.ptp(means, axis=1))


@pytest.mark.parametrize("relative", [False, True])
def test_a_direct_test_has_the_intervals_of_a_bootstrap_by_hand(study, relative):
    folder, table, hits = study
    drawn = resample_errors(folder, table, n_bootstrap=1500)
    test = direct_test(table, "mine", NAMES, relative=relative)
    found = direct_intervals(drawn, test)
    own = np.array([each[4] for each in bootstrap_by_hand(hits, relative)])
    assert list(found) == [*NAMES, "mean"]
    assert all(near(found[name], own[:, place]) for place, name in enumerate(NAMES))
    assert near(found["mean"], own.mean(axis=1))
    assert found["fog"][0] < test.errors["fog"] < found["fog"][1]


def test_without_single_predictions_there_are_no_intervals(study, tmp_path):
    folder, table, _ = study
    assert resample_errors(folder / "accuracies.csv", table) is None
    assert resample_errors(tmp_path, table) is None


def test_balance_prints_the_intervals_of_a_study_and_none_of_a_table(study, run):
    folder, _, _ = study
    of_folder = run("overlap", "balance", folder)
    of_table = run("overlap", "balance", folder / "accuracies.csv")
    assert of_folder.status == of_table.status == 0
    said = [line for line in of_folder.out.splitlines() if "standard deviation" in line]
    assert said and all("(" in line.split("range")[1].split(",")[0] for line in said)
    plain = [line for line in of_table.out.splitlines() if "standard deviation" in line]
    assert plain and all("–" not in line for line in plain)
