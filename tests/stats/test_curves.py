"""Falling curves over visual change: exact where truth is simple, honest where it is not seen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline, PPoly
from scipy.optimize import linprog, nnls
from scipy.stats import beta

import eyechart as ec
from eyechart.stats.bins import Bins, bin_edges, count_bins
from eyechart.stats.curve_settings import ESTIMATORS
from eyechart.stats.density import UNIFORM, Density, areas_under, to_density
from eyechart.stats.estimators import (
    SMOOTHINGS,
    choose_smoothing,
    fit_spline,
    fit_splines,
    to_polynomials,
)
from eyechart.stats.pieces import refined, stacked, values_at

GRID = np.linspace(0, 1, 501)


def falling(v):
    """A curve like those of models: flat, then steep, then near nothing."""
    return 0.85 / (1 + np.exp((v - 0.65) * 9)) * (1 + np.exp(-0.65 * 9))


TRUE_AREA = np.trapezoid(falling(np.linspace(0, 1, 100_001)), dx=1e-5)


def predictions(count, seed, lowest=0.0):
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


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "truth", [lambda v: 0.6 + 0 * v, lambda v: 0.9 - 0.7 * v], ids=["constant", "line"]
)
def test_constants_and_straight_lines_come_out_exactly(truth, estimator):
    bins = exact_bins(truth)
    curve = ESTIMATORS[estimator].fit(bins, 20, 0.1, float(truth(0.0)), float(truth(1.0)))
    np.testing.assert_allclose(curve(GRID), truth(GRID), atol=1e-6)
    assert curve.integrate(0, 1) == pytest.approx(truth(0.5), abs=1e-7)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@given(
    counts=st.lists(st.integers(0, 60), min_size=39, max_size=39),
    seed=st.integers(0, 1000),
    left=st.none() | st.floats(0.3, 1),
    right=st.none() | st.floats(0, 0.2),
)
@settings(max_examples=25, deadline=None)
def test_a_curve_never_rises_and_keeps_to_its_anchors(estimator, counts, seed, left, right):
    edges = bin_edges("paper", 40)
    counts = np.array(counts, dtype=float) + np.eye(39)[5] * 40 + np.eye(39)[30] * 40
    hits = np.random.default_rng(seed).binomial(counts.astype(int), 0.5).astype(float)
    curve = ESTIMATORS[estimator].fit(Bins(edges, counts, hits), 20, 0.1, left, right)
    values = curve(GRID)
    assert np.diff(values).max() <= 1e-9
    assert values.min() >= -1e-9 and values.max() <= 1 + 1e-6
    # isotonic regression pools the left anchor with the first bins
    if left is not None and estimator != "isotonic":
        assert curve(0) == pytest.approx(left, abs=1e-6)
    if right is not None:
        assert curve(1) == pytest.approx(right, abs=1e-6)


def test_the_papers_bins_are_39_and_1_falls_into_the_last():
    edges = bin_edges("paper", 40)
    assert len(edges) == 40
    bins = count_bins(np.array([0, 1 / 39 - 1e-9, 1 / 39, 0.999998, 1.0]), np.ones(5), edges)
    assert list(bins.counts[[0, 1, 38]]) == [2, 1, 2]
    assert len(bin_edges("equal", 40)) == 41


def test_coverage_is_the_share_of_bins_with_enough_predictions():
    change = np.repeat((np.arange(23) + 0.5) / 39, 20)
    bins = count_bins(change, np.ones(len(change)), bin_edges("paper", 40))
    assert bins.coverage(20) == 23 / 39
    assert bins.coverage(21) == 0


def test_bins_without_predictions_change_nothing():
    full = exact_bins(falling)
    some = np.arange(39) % 3 != 1
    empty = Bins(full.edges, full.counts * some, full.hits * some)
    few = Bins(full.edges, np.where(some, full.counts, 19), np.where(some, full.hits, 0))
    one, two = (to_polynomials(fit_spline(each, 20, 0.1, 0.85, None)) for each in (empty, few))
    np.testing.assert_array_equal(one(GRID), two(GRID))


def test_binnings_hardly_differ_with_many_predictions():
    change, hits, clean = predictions(50_000, 3)
    areas = [
        ec.fit_curve(change, hits, anchor=clean, binning=binning, n_bootstrap=2).area
        for binning in ("paper", "equal")
    ]
    assert areas[0] == pytest.approx(areas[1], abs=0.005)
    assert areas[0] == pytest.approx(TRUE_AREA, abs=0.01)


def test_smoothing_is_stronger_where_the_truth_is_straight():
    straight = choose_smoothing(exact_bins(lambda v: 0.9 - 0.7 * v), 20, 0.9, None)
    bent = choose_smoothing(exact_bins(falling, each=5000.0), 20, 0.85, None)
    assert straight > bent


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_smoothing_is_strongest_where_every_smoothing_fits_exactly(rate):
    assert choose_smoothing(exact_bins(lambda v: rate + 0 * v), 20, None, None) == SMOOTHINGS[-1]


def test_the_same_seed_gives_the_same_intervals():
    change, hits, clean = predictions(2000, 1)
    one, two, other = (
        ec.fit_curve(change, hits, anchor=clean, n_bootstrap=50, seed=seed) for seed in (0, 0, 1)
    )
    assert one.interval() == two.interval() != other.interval()
    assert one.area == other.area


def test_predictions_that_stand_or_fall_together_make_wider_intervals():
    change, hits, clean = (np.repeat(each, 5) for each in predictions(800, 2))
    clusters = np.repeat(np.arange(800), 5)
    apart = ec.fit_curve(change, hits, anchor=clean, n_bootstrap=300)
    together = ec.fit_curve(change, hits, anchor=clean, clusters=clusters, n_bootstrap=300)
    assert apart.area == pytest.approx(together.area, abs=1e-9)
    assert together.areas.std() / apart.areas.std() == pytest.approx(5**0.5, rel=0.15)


def test_resampling_by_cells_is_resampling_of_predictions():
    change, hits, clean = predictions(3000, 4)
    quick = ec.fit_curve(change, hits, anchor=clean, n_bootstrap=400)
    slow = ec.fit_curve(change, hits, anchor=clean, clusters=np.arange(3000), n_bootstrap=400)
    assert quick.areas.mean() == pytest.approx(slow.areas.mean(), abs=0.001)
    assert quick.areas.std() == pytest.approx(slow.areas.std(), rel=0.15)


def test_bounds_open_up_where_nothing_was_observed():
    seen = ec.fit_curve(*predictions(20_000, 5)[:2], anchor=0.85, n_bootstrap=100)
    change, hits, _ = predictions(20_000, 5, lowest=0.8)
    unseen = ec.fit_curve(change, hits, anchor=0.85, n_bootstrap=100)
    width = np.subtract(*unseen.bounds[::-1])
    assert width > 0.8 * 0.4 > np.subtract(*seen.bounds[::-1]) * 10
    assert unseen.bounds[0] < TRUE_AREA < unseen.bounds[1]
    assert unseen.bounds[0] <= unseen.area <= unseen.bounds[1]


def test_resampled_predictions_are_fitted_to_the_same_bins():
    change, hits, _ = predictions(3000, 8)
    # a bin with a few answers, all against the rest, that is not to be used
    change = np.where((change > 0.2) & (change < 0.5), 0.1, change)
    few = np.full(15, 0.35)
    one, two = (
        ec.fit_curve(
            np.append(change, few),
            np.append(hits, np.full(15, hit)),
            anchor=0.85,
            estimator="spline",
            n_bootstrap=100,
        )
        for hit in (0.0, 1.0)
    )
    assert one.area == two.area
    np.testing.assert_array_equal(one.areas, two.areas)


def test_the_band_holds_the_curve():
    change, hits, clean = predictions(5000, 6)
    curve = ec.fit_curve(change, hits, anchor=clean, n_bootstrap=200)
    low, high = curve.band(GRID, 0.95)
    assert ((low - 0.01 <= curve(GRID)) & (curve(GRID) <= high + 0.01)).all()
    narrow_low, narrow_high = curve.band(GRID, 0.83)
    assert (high - low >= narrow_high - narrow_low - 1e-12).all()


def test_changes_that_are_not_numbers_are_left_out_and_counted():
    change, hits, _ = predictions(2000, 7)
    gaps = change.copy()
    gaps[::10] = np.nan
    curve = ec.fit_curve(gaps, hits, anchor=0.85, n_bootstrap=2)
    kept = np.arange(2000) % 10 != 0
    assert curve.left_out == 200
    assert curve.area == ec.fit_curve(change[kept], hits[kept], anchor=0.85, n_bootstrap=2).area


@pytest.mark.parametrize(
    ("change", "hits", "options", "sentence"),
    [
        ([0.1, 0.2], [1, 1], {"estimator": "spline"}, "give more samples"),
        ([np.nan, np.nan], [1, 1], {}, "Visual change is undefined"),
        ([0.1, 1.2] * 100, [1, 1] * 100, {}, "delta_v must be in"),
        ([0.1, 0.2] * 100, [1, 2] * 100, {}, "hits must be in"),
        ([0.1, 0.2] * 100, [1] * 100, {}, "one value per sample"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"anchor": 1.5}, "anchor must be in"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"anchor": [1, 0]}, "one value per sample"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"binning": "papers"}, "paper or equal"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"estimator": "cob"}, "Did you mean 'cobs'"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"bins": 1}, "at least 2"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"anchor": "high"}, "anchor must be a number"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"right_anchor": -0.1}, "right_anchor must be in"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"right_anchor": [1, 0]}, "right_anchor must have one"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"anchor": 0.5, "right_anchor": 0.6}, "must not exceed"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"n_bootstrap": 0}, "n_bootstrap must be at least 1"),
        ([0.1, 0.9] * 100, [1, 0] * 100, {"density": "flat"}, "density must be uniform"),
        ("abc", [1], {}, "numbers"),
        ([], [], {}, "one per sample"),
    ],
)
def test_what_is_no_set_of_predictions_is_rejected(change, hits, options, sentence):
    with pytest.raises(ec.UsageError, match=sentence.replace("?", r"\?")):
        ec.fit_curve(change, hits, **options)


def plain_fit(bins, smoothing, left, right):
    """The same problem, written down plainly: one stacked matrix for scipy's nnls."""
    knots = np.r_[0, 0, np.linspace(0, 1, 21), 1, 1]
    basis = BSpline(knots, np.eye(22), 2)
    means = np.diff(basis.antiderivative()(bins.edges), axis=0) / np.diff(bins.edges)[:, None]
    seen = bins.counts >= 1
    weight = np.sqrt(bins.counts[seen])
    rough = np.sqrt(smoothing / 20) * basis.derivative(2)((np.arange(20) + 0.5) / 20)
    heavy = 1e4 * np.sqrt(bins.counts.sum())
    rows = [means[seen] * weight[:, None], rough]
    goal = [bins.hits[seen] / weight, np.zeros(20)]
    for place, value in ((0, left), (21, right)):
        if value is not None:
            rows.append(heavy * np.eye(22)[[place]])
            goal.append([heavy * value])
    matrix = np.vstack(rows) @ np.triu(np.ones((22, 22)))
    return np.cumsum(nnls(matrix, np.concatenate(goal))[0][::-1])[::-1]


@pytest.mark.parametrize(("left", "right"), [(None, None), (0.85, None), (0.9, 0.05)])
def test_many_fits_at_once_are_those_of_plain_least_squares(left, right):
    numbers = np.random.default_rng(11)
    counts = numbers.integers(0, 90, (30, 39)).astype(float)
    hits = numbers.binomial(counts.astype(int), falling((np.arange(39) + 0.5) / 39)).astype(float)
    bins = Bins(bin_edges("paper", 40), counts, hits)
    ends = [None if end is None else np.full(30, end) for end in (left, right)]
    many = fit_splines(bins, 1, 0.1, *ends)
    plain = np.array([plain_fit(own, 0.1, left, right) for own in bins.rows()])
    np.testing.assert_allclose(many, plain, atol=1e-7)


def test_a_curve_without_a_left_anchor_never_starts_above_1():
    numbers = np.random.default_rng(0)
    change = numbers.random(2000)
    hits = numbers.random(2000) < np.minimum(1, 1.4 - 1.2 * change)
    curve = ec.fit_curve(change, hits, n_bootstrap=50)
    assert curve.refits(0.0).max() <= 1 + 1e-6


def test_curves_in_a_stack_are_the_curves():
    places = [np.array([0, 0.3, 1.0]), np.array([0, 0.5, 0.7, 1.0])]
    numbers = np.random.default_rng(1)
    each = [PPoly(numbers.normal(size=(3, len(own) - 1)), own) for own in places]
    np.testing.assert_allclose(stacked(each)(GRID), np.stack([own(GRID) for own in each], -1))
    finer = refined(each[0], np.array([0, 0.1, 0.3, 0.9, 1.0]))
    np.testing.assert_allclose(finer(GRID), each[0](GRID), atol=1e-12)


DENSITIES = {
    "weights": Density.of_weights([1, 0, 3]),
    "beta": Density.beta(2, 5),
    "steep beta": Density.beta(0.5, 0.5),
    "function": Density.of_function(lambda v: np.exp(-3 * v)),
    "line": Density(PPoly(np.array([[-2.0], [2.0]]), np.array([0.0, 1.0]))),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_a_weighted_area_is_that_of_a_fine_sum(name):
    density = DENSITIES[name]
    pieces = to_polynomials(np.sort(np.random.default_rng(3).random(22))[::-1])
    cells = 300_000
    middles = (np.arange(cells) + 0.5) / cells
    assert density(middles).mean() == pytest.approx(1, abs=1e-6)
    wanted = (pieces(middles) * density(middles)).mean()
    assert areas_under(pieces, density) == pytest.approx(wanted, abs=1e-6)


def test_weighted_areas_have_closed_forms():
    falls = PPoly(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]))  # 1 − v
    assert areas_under(falls) == pytest.approx(1 / 2, abs=1e-14)
    assert areas_under(falls, DENSITIES["line"]) == pytest.approx(2 / 3, abs=1e-14)
    assert areas_under(falls, DENSITIES["weights"]) == pytest.approx((5 / 6 + 3 / 6) / 4, abs=1e-14)
    # steps in the cells of a beta density move its mean by less than a cell
    assert areas_under(falls, Density.beta(2, 5)) == pytest.approx(1 - beta(2, 5).mean(), abs=1e-6)


def test_a_curve_weights_its_area_interval_and_bounds():
    change, hits, clean = predictions(4000, 9, lowest=0.4)
    plain = ec.fit_curve(change, hits, anchor=clean, estimator="spline", n_bootstrap=60)
    same = ec.fit_curve(
        change, hits, anchor=clean, estimator="spline", n_bootstrap=60, density=[2, 2]
    )
    late = ec.fit_curve(
        change, hits, anchor=clean, estimator="spline", n_bootstrap=60, density=[0, 0, 1, 1]
    )
    assert plain.area == pytest.approx(plain.pieces.integrate(0, 1), abs=1e-12)
    assert same.area == pytest.approx(plain.area, abs=1e-12)
    np.testing.assert_allclose(same.areas, plain.areas, atol=1e-12)
    np.testing.assert_allclose(same.bounds, plain.bounds, atol=1e-12)
    assert late.area == pytest.approx(2 * plain.pieces.integrate(0.5, 1), abs=1e-12)
    # where all that counts was observed the bounds are the interval
    np.testing.assert_allclose(late.bounds, late.interval(0.95), atol=1e-9)
    assert np.subtract(*plain.bounds[::-1]) > 2 * np.subtract(*plain.interval(0.95)[::-1])


def test_bounds_of_a_gap_known_by_hand():
    truth = exact_bins(lambda v: 0.9 - 0.5 * v, bins=41)
    gap = (truth.edges[:-1] >= 0.25 - 1e-9) & (truth.edges[1:] <= 0.5 + 1e-9)
    place = np.repeat(truth.edges[:-1] + 0.5 / 40, 400)
    hits = np.concatenate([np.r_[np.ones(n), np.zeros(400 - n)] for n in
                           np.rint(400 * truth.rates).astype(int)])  # fmt: skip
    kept = np.repeat(~gap, 400)
    curve = ec.fit_curve(
        place[kept], hits[kept], anchor=0.9, right_anchor=0.4, bins=41, smoothing=10.0,
        n_bootstrap=400,
    )  # fmt: skip
    assert curve.observed == [(0, pytest.approx(0.25)), (pytest.approx(0.5), 1)]
    error = 1.96 * curve.areas.std()
    # over the gap of a quarter it is at most 0.775 and at least 0.65; on the line, 0.7125
    wanted = 0.65 - 0.25 * 0.0625 - error, 0.65 + 0.25 * 0.0625 + error
    np.testing.assert_allclose(curve.bounds, wanted, atol=0.005)


def test_equal_densities_are_equal():
    assert Density.beta(2, 5) == Density.beta(2, 5) != Density.beta(5, 2)
    assert hash(Density.of_weights([1, 2])) == hash(Density.of_weights([2, 4]))
    assert to_density(None) is to_density("uniform") is UNIFORM
    assert to_density([1.0]) == UNIFORM
    assert UNIFORM != "uniform"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Density.of_weights([1, -1, 3]), "0 or more"),
        (lambda: Density.of_weights([0, 0]), "not all 0"),
        (lambda: Density.of_weights([]), "one per bin"),
        (lambda: Density.of_weights(["many"]), "must be numbers"),
        (lambda: Density.of_function(lambda v: np.nan * v), "0 or more"),
        (lambda: Density.beta(0, 1), "above 0"),
        (lambda: Density(PPoly(np.ones((1, 1)), np.array([0.0, 0.5]))), "on the interval"),
        (
            lambda: Density(PPoly(np.full((1, 1), 2.0), np.array([0.0, 1.0]))),
            "integrate to 1, got 2",
        ),
        (lambda: Density(PPoly(np.array([[-4.0], [3.0]]), np.array([0.0, 1.0]))), "negative"),
        # negative only between the ends of its one piece
        (lambda: Density(PPoly(np.array([[24.0], [-24], [5]]), np.array([0.0, 1]))), "negative"),
    ],
)
def test_what_is_no_density_is_rejected(make, sentence):
    with pytest.raises(ec.UsageError, match=sentence):
        make()


@pytest.mark.parametrize("clustered", [False, True])
def test_the_right_anchor_is_resampled_with_the_predictions(clustered):
    change, hits, clean = predictions(3000, 12)
    destroyed = (np.random.default_rng(0).random(3000) < 0.1).astype(float)
    clusters = np.arange(3000) // 3 if clustered else None
    curve = ec.fit_curve(
        change,
        hits,
        anchor=clean,
        right_anchor=destroyed,
        clusters=clusters,
        n_bootstrap=400,
        estimator="spline",
    )
    assert curve.right == pytest.approx(destroyed.mean(), abs=1e-12)
    assert curve(1.0) == pytest.approx(destroyed.mean(), abs=1e-6)
    ends = curve.refits(1.0)
    assert ends.mean() == pytest.approx(destroyed.mean(), abs=0.001)
    assert ends.std() == pytest.approx(destroyed.std() / 3000**0.5, rel=0.15)
    # the left one is resampled as if there were no right one
    assert curve.refits(0.0).std() == pytest.approx(clean.std() / 3000**0.5, rel=0.15)


def test_anchors_count_by_predictions_as_the_curve_does():
    change, hits, _ = predictions(1100, 13)
    clusters = np.r_[np.zeros(100), np.arange(1, 1001)]
    destroyed = (clusters == 0).astype(float)
    curve = ec.fit_curve(change, hits, right_anchor=destroyed, clusters=clusters, n_bootstrap=5)
    assert curve.right == pytest.approx(100 / 1100)


def test_a_draw_whose_ends_change_places_is_flat():
    change, _, _ = predictions(300, 14)
    numbers = np.random.default_rng(5)
    clean, destroyed = numbers.permutation([1.0, 0] * 150), numbers.permutation([1.0, 0] * 150)
    curve = ec.fit_curve(
        change, clean, anchor=clean, right_anchor=destroyed, bins=6, n_bootstrap=100
    )
    fall = curve.refits(0.0) - curve.refits(1.0)
    assert fall.min() > -1e-9 and (fall < 1e-9).any() and (fall > 0.01).any()


def test_what_was_observed_is_merged_and_points_can_be_drawn():
    change = np.r_[np.full(30, 0.05), np.full(30, 0.15), np.full(5, 0.45), np.full(30, 0.95)]
    curve = ec.fit_curve(
        change, np.ones(95), binning="equal", bins=10, min_per_bin=20, n_bootstrap=2
    )
    assert curve.observed == [(0, pytest.approx(0.2)), (pytest.approx(0.9), 1)]
    assert list(np.flatnonzero(curve.usable)) == [0, 1, 9]
    np.testing.assert_allclose(curve.bins.centers, np.arange(10) / 10 + 0.05)
    assert curve.bins.counts[4] == 5 and np.isnan(curve.bins.rates[3])


def test_the_same_clusters_and_seed_draw_the_same_weights():
    change, hits, _ = predictions(2000, 15)
    clusters = np.array([f"picture {n % 250}" for n in range(2000)])
    order = np.random.default_rng(0).permutation(2000)
    # whether an answer belongs to picture 7, as hits, shows the weight of that picture
    shows = (clusters == "picture 7").astype(float)
    one = ec.fit_curve(change, shows, clusters=clusters, n_bootstrap=70, seed=3)
    two = ec.fit_curve(
        change[order], shows[order], clusters=clusters[order].astype("U40"), n_bootstrap=70, seed=3
    )
    for each in (one, two):
        assert each.draws.pairs_with(one.draws)
    np.testing.assert_array_equal(one.refit_bins.hits, two.refit_bins.hits)
    assert one.refit_bins.hits.sum(axis=1).std() > 1
    for other in (
        {"seed": 4},
        {"n_bootstrap": 71},
        {"clusters": clusters == "picture 7"},
        {"clusters": None},
    ):
        options = {"clusters": clusters, "n_bootstrap": 70, "seed": 3} | other
        assert not ec.fit_curve(change, hits, **options).draws.pairs_with(one.draws)
    apart = ec.fit_curve(change, hits, n_bootstrap=70, seed=3)
    assert not apart.draws.pairs_with(apart.draws)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_curve_smoothed_again_is_the_curve_fitted_so(estimator):
    change, hits, clean = predictions(2000, 16)
    options = {"anchor": clean, "right_anchor": 0.01, "estimator": estimator, "n_bootstrap": 5}
    one, two = (ec.fit_curve(change, hits, smoothing=s, **options) for s in (0.01, 1.0))
    again = one.smoothed(1.0)
    np.testing.assert_allclose(again(GRID), two(GRID), atol=1e-7)
    np.testing.assert_allclose(again.refits(GRID), two.refits(GRID), atol=1e-6)
    assert one.smoothed(0.01) is one


@pytest.mark.slow
@pytest.mark.parametrize("count", [5_000, 50_000])
def test_simulated_truth_is_met_without_bias_and_within_the_intervals(count):
    errors, inside = [], []
    for seed in range(200):
        change, hits, clean = predictions(count, 1000 + seed)
        curve = ec.fit_curve(change, hits, anchor=clean, n_bootstrap=300, seed=seed)
        low, high = curve.interval(0.95)
        errors.append(curve.area - TRUE_AREA)
        inside.append(low <= TRUE_AREA <= high)
    assert abs(np.mean(errors)) < 0.003
    assert np.mean(inside) >= 0.88


@pytest.mark.slow
def test_bounds_hold_the_truth_where_low_changes_were_not_observed():
    inside = []
    for seed in range(200):
        change, hits, clean = predictions(5_000, 5000 + seed, lowest=0.3)
        curve = ec.fit_curve(change, hits, anchor=clean, n_bootstrap=200, seed=seed)
        inside.append(curve.bounds[0] <= TRUE_AREA <= curve.bounds[1])
    assert np.mean(inside) >= 0.95


def test_weights_count_predictions_as_if_they_were_there_so_often():
    change, hits, _ = predictions(600, 21)
    often = np.random.default_rng(3).integers(0, 4, 600)
    whole = ec.fit_curve(
        np.repeat(change, often),
        np.repeat(hits, often),
        estimator="spline",
        n_bootstrap=1,
        smoothing=1,
    )
    # weights are brought to a mean of 1, so bins are judged by that scale
    share = often.sum() / 600
    weighted = ec.fit_curve(
        change,
        hits,
        weights=often,
        estimator="spline",
        n_bootstrap=1,
        smoothing=1 / share,
        min_per_bin=19.5 / share,
    )
    places = np.linspace(0, 1, 50)
    np.testing.assert_allclose(weighted(places), whole(places), atol=1e-6)


def test_weights_that_are_none_are_rejected():
    change, hits, _ = predictions(100, 22)
    for wrong in (np.zeros(100), -np.ones(100), np.full(100, np.nan), np.ones(99)):
        with pytest.raises(ec.UsageError, match="weights must"):
            ec.fit_curve(change, hits, weights=wrong)


def test_rates_that_are_all_one_give_a_flat_line_however_many_steps_that_takes():
    # exact with no error at all; the solver's usual limit of steps was too low for it
    counts = np.array([[9.0, 14, 15, 3, 0, 0, 0, 0]])
    bins = Bins(np.linspace(0, 1, 9), counts, counts.copy())
    found = fit_splines(bins, 1e-6, 10**-1.5, np.ones(1), None)
    np.testing.assert_allclose(found, 1, atol=1e-6)


# The smoothing of cobs


def median_spline(bins, strength, left):
    """The falling median spline by truncated powers: deviations of the usable bins, and values.

    A second way to the same linear programme: 1, v, v² and (v − t)² beyond each knot t, averaged
    over bins by their antiderivatives; slopes at knots at most 0, and the value at 1 at least 0.
    """
    knots = np.linspace(0, 1, 21)
    inner, count = knots[1:-1], 22

    def powers(v):
        v = np.atleast_1d(v)[:, None]
        return np.hstack([v**0, v, v**2, np.maximum(v - inner, 0) ** 2])

    def integrals(v):
        v = v[:, None]
        return np.hstack([v, v**2 / 2, v**3 / 3, np.maximum(v - inner, 0) ** 3 / 3])

    def slopes(v):
        v = v[:, None]
        return np.hstack([0 * v, 1 + 0 * v, 2 * v, 2 * np.maximum(v - inner, 0)])

    averages = np.diff(integrals(bins.edges), axis=0) / np.diff(bins.edges)[:, None]
    bent = np.hstack([np.zeros((20, 2)), 2 * np.ones((20, 1)), 2 * np.tri(20, 19, -1)])
    n, weight = len(bins.counts), np.sqrt(bins.counts)
    # coefficients, one bound for each deviation, one for the second derivative
    cost = np.r_[np.zeros(count), weight, strength]
    none, each, one = np.zeros((21, n + 1)), np.eye(n), np.ones((20, 1))
    upper = [
        (np.hstack([slopes(knots), none]), np.zeros(21)),
        (np.hstack([-powers(1.0), np.zeros((1, n + 1))]), np.zeros(1)),
        (np.hstack([averages, -each, np.zeros((n, 1))]), bins.rates),
        (np.hstack([-averages, -each, np.zeros((n, 1))]), -bins.rates),
        (np.hstack([bent, np.zeros((20, n)), -one]), np.zeros(20)),
        (np.hstack([-bent, np.zeros((20, n)), -one]), np.zeros(20)),
    ]
    solved = linprog(
        cost,
        np.vstack([rows for rows, _ in upper]),
        np.concatenate([value for _, value in upper]),
        np.hstack([powers(0.0), np.zeros((1, n + 1))]),
        [left],
        bounds=[(None, None)] * count + [(0, None)] * (n + 1),
    )
    own = solved.x[:count]
    return weight * np.abs(averages @ own - bins.rates), (powers(GRID) @ own)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cobs_takes_the_smoothing_with_the_lowest_schwarz_criterion(seed):
    """Over the whole grid by the second programme, as F/n · n^(k/2n); k at most √n."""
    change, hits, _ = predictions(4000, seed)
    curve = ec.fit_curve(change, hits, anchor=0.85, estimator="cobs", n_bootstrap=1)
    bins, n = curve.bins, 39
    grid = np.logspace(-4, 3, 25) * 2 * np.sqrt(bins.counts).mean() * bins.centers.var()
    found = {}
    for strength in grid:
        deviations, values = median_spline(bins, strength, 0.85)
        k = max(3, (deviations < 1e-6).sum())
        if k <= np.sqrt(n):
            found[deviations.sum() / 2 / n * n ** (k / (2 * n))] = strength, values
    strength, values = found[min(found)]
    assert len(found) > 5 and grid[0] < strength < grid[-1]
    assert curve.smoothing == pytest.approx(strength, rel=1e-9)
    np.testing.assert_allclose(curve(GRID), values, atol=1e-5)


def test_cobs_without_anything_to_smooth_still_has_a_curve():
    """Two bins: every strength goes through both, and no criterion tells them apart."""
    change, hits = np.repeat([0.2, 0.7], 40), np.tile([1.0, 1.0, 1.0, 0.0], 20)
    curve = ec.fit_curve(change, hits, anchor=1.0, estimator="cobs", bins=11, n_bootstrap=2)
    assert curve(change[[0, -1]]) == pytest.approx([0.75, 0.75], abs=0.05)
    assert np.diff(curve(GRID)).max() <= 1e-9


def test_straight_lines_between_rates_have_no_smoothing_to_choose():
    assert (
        ec.fit_curve(*predictions(2000, 1)[:2], estimator="isotonic", n_bootstrap=2).smoothing == 0
    )


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("breaks", [[0, 1], [0, 0.25, 0.7, 1]])
@pytest.mark.parametrize("curves", [(), (4,)])
def test_values_are_those_of_scipy_to_the_last_bit(degree, breaks, curves):
    numbers = np.random.default_rng(degree)
    shape = (degree + 1, len(breaks) - 1, *curves)
    pieces = PPoly(numbers.normal(size=shape), np.array(breaks, dtype=float))
    # at breaks, between them and beyond them, in arrays of any shape
    places = np.concatenate([breaks, numbers.uniform(-0.5, 1.5, 56 - len(breaks))])
    for at in (places, places.reshape(7, 8), places[5]):
        found = values_at(pieces, at)
        assert found.shape == pieces(at).shape
        assert found.tobytes() == pieces(at).tobytes()


def test_bands_of_several_levels_are_those_of_single_levels():
    curve = ec.fit_curve(*predictions(800, 4)[:2], n_bootstrap=60)
    bands = curve.bands(GRID, (0.95, 0.83))
    for level, band in zip((0.95, 0.83), bands, strict=True):
        np.testing.assert_array_equal(band, curve.band(GRID, level))
        tail = 50 * (1 - level)
        values = np.stack([own(GRID) for own in curve.replicates])
        np.testing.assert_allclose(band, np.percentile(values, [tail, 100 - tail], axis=0))
