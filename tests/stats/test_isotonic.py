"""The default estimator: isotonic regression over all samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

import eyechart as ec
from eyechart.stats.bins import Bins, bin_edges, count_bins
from eyechart.stats.curve_settings import ESTIMATORS
from eyechart.stats.estimators import isotonic_curves

EDGES = bin_edges("paper", 40)
CENTERS = (EDGES[1:] + EDGES[:-1]) / 2


def many_bins(n_rows, n_samples, seed, highest=1.0):
    numbers = np.random.default_rng(seed)
    rows = []
    for _ in range(n_rows):
        change = numbers.uniform(0, highest, n_samples)
        hits = (numbers.random(n_samples) < 0.9 - 0.7 * change).astype(float)
        rows.append(count_bins(change, hits, EDGES))
    return Bins(EDGES, np.stack([row.counts for row in rows]), np.stack([row.hits for row in rows]))


def test_rates_are_those_of_scipys_isotonic_regression():
    bins = many_bins(20, 300, 1)
    curves = isotonic_curves(bins, np.ones(39, dtype=bool), None, None)
    for row in range(20):
        known = bins.counts[row] > 0
        rates = bins.hits[row, known] / bins.counts[row, known]
        found = isotonic_regression(rates, weights=bins.counts[row, known], increasing=False).x
        np.testing.assert_allclose(curves(CENTERS[known])[:, row], found, atol=1e-12)


def test_the_left_anchor_counts_as_one_average_bin():
    bins = many_bins(5, 200, 2)
    left = np.full(5, 0.8)
    curves = isotonic_curves(bins, np.ones(39, dtype=bool), left, None)
    for row in range(5):
        known = bins.counts[row] > 0
        weights = np.r_[bins.counts[row].sum() / 39, bins.counts[row, known]]
        rates = np.r_[0.8, bins.hits[row, known] / bins.counts[row, known]]
        found = isotonic_regression(rates, weights=weights, increasing=False).x
        places = np.r_[0.0, CENTERS[known]]
        np.testing.assert_allclose(curves(places)[:, row], found, atol=1e-12)


def test_beyond_the_observed_range_a_curve_is_the_middle_of_its_bounds():
    change = np.linspace(0, 0.7, 500)
    curve = ec.fit_curve(change, np.ones(500), anchor=1.0, n_bootstrap=20)
    end = curve.observed[-1][1]
    assert curve.area == pytest.approx(end + (1 - end) / 2, abs=1e-9)
    # the bounds include sampling error
    assert curve.bounds == pytest.approx((end, 1.0), abs=0.01) and curve.bounds[0] <= end
    with_anchor = ec.fit_curve(change, np.ones(500), right_anchor=0.2, n_bootstrap=20)
    assert with_anchor(1.0) == pytest.approx(0.2)
    assert with_anchor.area == pytest.approx(end + (1 - end) * 0.6, abs=1e-9)


@given(
    seed=st.integers(0, 10_000),
    n_samples=st.integers(3, 120),
    highest=st.floats(0.1, 1),
    anchored=st.booleans(),
    flipped=st.integers(0, 10_000),
)
@settings(max_examples=300, deadline=None)
def test_one_more_hit_always_raises_the_area(seed, n_samples, highest, anchored, flipped):
    numbers = np.random.default_rng(seed)
    change = numbers.uniform(0, highest, n_samples)
    hits = (numbers.random(n_samples) < numbers.random() - 0.5 * change).astype(float)
    clean = (numbers.random(n_samples) < 0.8).astype(float)
    misses = np.flatnonzero(hits == 0)
    if not len(misses):
        return
    more = hits.copy()
    more[misses[flipped % len(misses)]] = 1
    options = {"anchor": clean if anchored else None, "n_bootstrap": 1}
    before = ec.fit_curve(change, hits, **options)
    after = ec.fit_curve(change, more, **options)
    places = np.linspace(0, 1, 201)
    assert (after(places) >= before(places) - 1e-12).all()
    assert after.area > before.area


def test_models_that_differ_in_one_thin_bin_differ_in_area():
    change = np.append(np.linspace(0, 0.5, 60), 0.9)
    one, two = (np.append(np.ones(60), last) for last in (0.0, 1.0))
    areas = [ec.fit_curve(change, hits, n_bootstrap=5).area for hits in (one, two)]
    assert areas[1] - areas[0] > 0.1


def test_a_curve_does_not_fall_where_all_predictions_are_correct():
    # the splines of the paper's estimator fell to 0.4 at Δv where 6 of 6 were correct
    change = np.linspace(0.05, 0.6, 62)
    curve = ec.fit_curve(change, np.ones(62), anchor=1.0, n_bootstrap=5)
    assert curve(0.6) == pytest.approx(1)


@pytest.mark.parametrize("shape", [lambda v: 0.9 - 0.7 * v, lambda v: 0.85 / (1 + (v / 0.6) ** 6)])
def test_the_estimators_agree_on_many_samples(shape):
    numbers = np.random.default_rng(4)
    change = numbers.uniform(0, 1, 50_000)
    hits = (numbers.random(50_000) < shape(change)).astype(float)
    clean = (numbers.random(50_000) < shape(0.0)).astype(float)
    areas = {
        name: ec.fit_curve(change, hits, anchor=clean, estimator=name, n_bootstrap=1).area
        for name in ("isotonic", "spline")
    }
    assert areas["isotonic"] == pytest.approx(areas["spline"], abs=0.003)
    assert list(ESTIMATORS)[:2] == list(areas)
