"""A few cells of the simulations in docs/concepts/statistics.md; `make validate` runs all."""

import numpy as np
import pytest

from benchmarks.statistics import (
    CORRELATION,
    SHAPES,
    TRUTHS,
    Cell,
    draw_samples,
    run_cell,
    run_verdicts,
)


@pytest.mark.parametrize(
    "cell",
    [
        Cell("step", 60, 150, "pilot"),
        Cell("flat", 60, 150, "uniform"),
        Cell("linear", 200, 600, "pilot"),
    ],
    ids=str,
)
def test_areas_are_unbiased_and_covered(cell):
    found = run_cell(cell, 60)
    assert abs(found.bias) < 0.01 + 3 * found.bias_error
    # 60 runs: a coverage of 92 % is below 83 % in one of 200 cases
    assert found.coverage >= 0.83
    assert found.break_coverage is None or found.break_coverage >= 0.83


def test_a_break_that_is_not_reached_is_said_to_be_beyond():
    found = run_cell(Cell("flat", 60, 150, "pilot"), 40)
    assert found.is_censored_right >= 0.95 and found.break_bias is None


def test_bounds_contain_the_area_where_the_papers_sampling_leaves_gaps():
    assert run_cell(Cell("middle", 200, 600, "parameters"), 40).bounded >= 0.9


def test_simulated_samples_have_the_true_rates_and_the_correlation():
    numbers = np.random.default_rng(0)
    delta_v, hits, clean, image = draw_samples(numbers, SHAPES["flat"], 4000, 40_000, "uniform")
    assert hits.mean() == pytest.approx(0.8, abs=0.01)
    assert clean.mean() == pytest.approx(0.8, abs=0.02)
    assert delta_v.max() <= 0.95
    # hits of one image agree more often than those of two images
    by_image = np.bincount(image, hits) / np.bincount(image)
    independent = np.var(np.random.default_rng(1).binomial(10, 0.8, 4000) / 10)
    assert by_image.var() > 4 * independent and 0 < CORRELATION < 1


def test_curves_that_cross_have_no_side_ahead():
    found = run_verdicts("crossing", 60, 300, 8)
    assert found["opposite"] == 0 and found["wrong"] <= 1 / 8
    assert set(TRUTHS) == {"equal", "humans ahead", "model ahead", "crossing"}
