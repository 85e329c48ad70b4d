"""Falling curves over visual change: exact where truth is simple, honest where it is not seen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eyechart as ec
from eyechart.curves.bins import Bins, bin_edges, count_bins
from eyechart.curves.methods import METHODS
from eyechart.curves.spline import choose_smoothing, fit_spline, to_polynomials

GRID = np.linspace(0, 1, 501)


def falling(v):
    """A curve like those of models: flat, then steep, then near nothing."""
    return 0.85 / (1 + np.exp((v - 0.65) * 9)) * (1 + np.exp(-0.65 * 9))


TRUE_AREA = np.trapezoid(falling(np.linspace(0, 1, 100_001)), dx=1e-5)


def answers(count, seed, lowest=0.0):
    numbers = np.random.default_rng(seed)
    change = lowest + (1 - lowest) * numbers.random(count)
    clean = (numbers.random(count) < falling(0.0)).astype(float)
    return change, (numbers.random(count) < falling(change)).astype(float), clean


def exact_bins(truth, each=500.0, binning="paper", bins=40):
    """Bins whose rates are the truth's own means."""
    edges = bin_edges(binning, bins)
    fine = np.linspace(edges[:-1], edges[1:], 2001)
    rates = np.trapezoid(truth(fine), fine, axis=0) / np.diff(edges)
    counts = np.full(len(rates), each)
    return Bins(edges, counts, counts * rates)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "truth", [lambda v: 0.6 + 0 * v, lambda v: 0.9 - 0.7 * v], ids=["constant", "line"]
)
def test_constants_and_straight_lines_come_out_exactly(truth, method):
    bins = exact_bins(truth)
    curve = METHODS[method](bins, 20, 0.1, float(truth(0.0)), float(truth(1.0)))
    np.testing.assert_allclose(curve(GRID), truth(GRID), atol=1e-6)
    assert curve.integrate(0, 1) == pytest.approx(truth(0.5), abs=1e-7)


@pytest.mark.parametrize("method", METHODS)
@given(
    counts=st.lists(st.integers(0, 60), min_size=39, max_size=39),
    seed=st.integers(0, 1000),
    left=st.none() | st.floats(0.3, 1),
    right=st.none() | st.floats(0, 0.2),
)
@settings(max_examples=25, deadline=None)
def test_a_curve_never_rises_and_keeps_to_its_anchors(method, counts, seed, left, right):
    edges = bin_edges("paper", 40)
    counts = np.array(counts, dtype=float) + np.eye(39)[5] * 40 + np.eye(39)[30] * 40
    hits = np.random.default_rng(seed).binomial(counts.astype(int), 0.5).astype(float)
    curve = METHODS[method](Bins(edges, counts, hits), 20, 0.1, left, right)
    values = curve(GRID)
    assert np.diff(values).max() <= 1e-9
    assert values.min() >= -1e-9 and values.max() <= 1 + 1e-6
    if left is not None:
        assert curve(0) == pytest.approx(left, abs=1e-6)
    if right is not None:
        assert curve(1) == pytest.approx(right, abs=1e-6)


def test_the_papers_bins_are_39_and_1_falls_into_the_last():
    edges = bin_edges("paper", 40)
    assert len(edges) == 40
    bins = count_bins(np.array([0, 1 / 39 - 1e-9, 1 / 39, 0.999998, 1.0]), np.ones(5), edges)
    assert list(bins.counts[[0, 1, 38]]) == [2, 1, 2]
    assert len(bin_edges("equal", 40)) == 41


def test_coverage_is_the_share_of_bins_with_enough_answers():
    change = np.repeat((np.arange(23) + 0.5) / 39, 20)
    bins = count_bins(change, np.ones(len(change)), bin_edges("paper", 40))
    assert bins.coverage(20) == 23 / 39
    assert bins.coverage(21) == 0


def test_bins_without_answers_change_nothing():
    full = exact_bins(falling)
    some = np.arange(39) % 3 != 1
    empty = Bins(full.edges, full.counts * some, full.hits * some)
    few = Bins(full.edges, np.where(some, full.counts, 19), np.where(some, full.hits, 0))
    one, two = (to_polynomials(fit_spline(each, 20, 0.1, 0.85, None)) for each in (empty, few))
    np.testing.assert_array_equal(one(GRID), two(GRID))


def test_binnings_hardly_differ_with_many_answers():
    change, hits, clean = answers(50_000, 3)
    areas = [
        ec.fit_curve(change, hits, anchor=clean, binning=binning, replicates=2).area
        for binning in ("paper", "equal")
    ]
    assert areas[0] == pytest.approx(areas[1], abs=0.005)
    assert areas[0] == pytest.approx(TRUE_AREA, abs=0.01)


def test_smoothing_is_stronger_where_the_truth_is_straight():
    straight = choose_smoothing(exact_bins(lambda v: 0.9 - 0.7 * v), 20, 0.9, None)
    bent = choose_smoothing(exact_bins(falling, each=5000.0), 20, 0.85, None)
    assert straight > bent


def test_the_same_seed_gives_the_same_intervals():
    change, hits, clean = answers(2000, 1)
    one, two, other = (
        ec.fit_curve(change, hits, anchor=clean, replicates=50, seed=seed) for seed in (0, 0, 1)
    )
    assert one.interval() == two.interval() != other.interval()
    assert one.area == other.area


def test_answers_that_stand_or_fall_together_make_wider_intervals():
    change, hits, clean = (np.repeat(each, 5) for each in answers(800, 2))
    clusters = np.repeat(np.arange(800), 5)
    apart = ec.fit_curve(change, hits, anchor=clean, replicates=300)
    together = ec.fit_curve(change, hits, anchor=clean, clusters=clusters, replicates=300)
    assert apart.area == pytest.approx(together.area, abs=1e-9)
    assert together.areas.std() / apart.areas.std() == pytest.approx(5**0.5, rel=0.15)


def test_resampling_by_cells_is_resampling_of_answers():
    change, hits, clean = answers(3000, 4)
    quick = ec.fit_curve(change, hits, anchor=clean, replicates=400)
    slow = ec.fit_curve(change, hits, anchor=clean, clusters=np.arange(3000), replicates=400)
    assert quick.areas.mean() == pytest.approx(slow.areas.mean(), abs=0.001)
    assert quick.areas.std() == pytest.approx(slow.areas.std(), rel=0.15)


def test_bounds_open_up_where_nothing_was_observed():
    seen = ec.fit_curve(*answers(20_000, 5)[:2], anchor=0.85, replicates=100)
    change, hits, _ = answers(20_000, 5, lowest=0.8)
    unseen = ec.fit_curve(change, hits, anchor=0.85, replicates=100)
    width = np.subtract(*unseen.bounds[::-1])
    assert width > 0.8 * 0.4 > np.subtract(*seen.bounds[::-1]) * 10
    assert unseen.bounds[0] < TRUE_AREA < unseen.bounds[1]
    assert unseen.bounds[0] <= unseen.area <= unseen.bounds[1]


def test_resampled_answers_are_fitted_to_the_same_bins():
    change, hits, _ = answers(3000, 8)
    # a bin with a few answers, all against the rest, that is not to be used
    change = np.where((change > 0.2) & (change < 0.5), 0.1, change)
    few = np.full(15, 0.35)
    one, two = (
        ec.fit_curve(
            np.append(change, few), np.append(hits, np.full(15, hit)), anchor=0.85, replicates=100
        )
        for hit in (0.0, 1.0)
    )
    assert one.area == two.area
    np.testing.assert_array_equal(one.areas, two.areas)


def test_the_band_holds_the_curve():
    change, hits, clean = answers(5000, 6)
    curve = ec.fit_curve(change, hits, anchor=clean, replicates=200)
    low, high = curve.band(GRID, 0.95)
    assert ((low - 0.01 <= curve(GRID)) & (curve(GRID) <= high + 0.01)).all()
    narrow_low, narrow_high = curve.band(GRID, 0.83)
    assert (high - low >= narrow_high - narrow_low - 1e-12).all()


def test_changes_that_are_not_numbers_are_left_out_and_counted():
    change, hits, _ = answers(2000, 7)
    gaps = change.copy()
    gaps[::10] = np.nan
    curve = ec.fit_curve(gaps, hits, anchor=0.85, replicates=2)
    kept = np.arange(2000) % 10 != 0
    assert curve.left_out == 200
    assert curve.area == ec.fit_curve(change[kept], hits[kept], anchor=0.85, replicates=2).area


@pytest.mark.parametrize(
    ("change", "hits", "options", "sentence"),
    [
        ([0.1, 0.2], [1, 1], {}, "give more answers"),
        ([0.1, 1.2] * 100, [1, 1] * 100, {}, "delta_v must lie in"),
        ([0.1, 0.2] * 100, [1, 2] * 100, {}, "hits must lie in"),
        ([0.1, 0.2] * 100, [1] * 100, {}, "one value per answer"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"anchor": 1.5}, "anchor must lie in"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"anchor": [1, 0]}, "one value per answer"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"binning": "papers"}, "paper or equal"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"method": "cob"}, "Did you mean 'cobs'"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"bins": 1}, "at least 2"),
        ("abc", [1], {}, "numbers"),
        ([], [], {}, "one per answer"),
    ],
)
def test_what_is_no_set_of_answers_is_refused(change, hits, options, sentence):
    with pytest.raises(ec.UsageError, match=sentence.replace("?", r"\?")):
        ec.fit_curve(change, hits, **options)


@pytest.mark.slow
@pytest.mark.parametrize("count", [5_000, 50_000])
def test_simulated_truth_is_met_without_bias_and_within_the_intervals(count):
    errors, inside = [], []
    for seed in range(200):
        change, hits, clean = answers(count, 1000 + seed)
        curve = ec.fit_curve(change, hits, anchor=clean, replicates=300, seed=seed)
        low, high = curve.interval(0.95)
        errors.append(curve.area - TRUE_AREA)
        inside.append(low <= TRUE_AREA <= high)
    assert abs(np.mean(errors)) < 0.003
    assert np.mean(inside) >= 0.88


@pytest.mark.slow
def test_bounds_hold_the_truth_where_low_changes_were_not_observed():
    inside = []
    for seed in range(200):
        change, hits, clean = answers(5_000, 5000 + seed, lowest=0.3)
        curve = ec.fit_curve(change, hits, anchor=clean, replicates=200, seed=seed)
        inside.append(curve.bounds[0] <= TRUE_AREA <= curve.bounds[1])
    assert np.mean(inside) >= 0.95
