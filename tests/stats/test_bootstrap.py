"""The one resampler: closed forms of its weights, and the same weights for all scores."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from threading import Lock

import numpy as np
import pytest
from scipy.sparse import csr_array

import eyechart as ec
from eyechart.overlap.matrix_intervals import resampled_shares
from eyechart.pipeline.scoring.breakdowns import count_by_image, results_by_class
from eyechart.predictions.reading import Predictions
from eyechart.scores.scoring import Fit, estimate_mean
from eyechart.stats import bootstrap
from eyechart.stats.bootstrap import (
    are_exact,
    draw_ahead,
    draw_cell_counts,
    draw_units,
    draw_weights,
    resample_cells,
    resample_means,
    resample_sums,
    shuffle_replicates,
    weight_blocks,
)

IMAGES, N_BOOTSTRAP, SEED = 12, 120, 7


def outcomes(correct, resampled_images=None, image=None, label=None):
    count = len(correct)
    nothing = np.full(count, np.nan)
    image = np.arange(count) if image is None else image
    return Predictions(
        nothing, nothing, image, image if label is None else label, correct,
        *(nothing for _ in range(4)), resampled_images=resampled_images,
        prediction=np.zeros(count, dtype=np.int64),
    )  # fmt: skip


def of_curve(images=IMAGES, seed=SEED):
    """Each image has a bin to itself, so that a replicate's counts are the images' weights."""
    delta_v = (np.arange(images) + 0.5) / images
    curve = ec.fit_curve(
        delta_v, np.linspace(1, 0, images), clusters=np.arange(images), binning="equal",
        bins=images, min_per_bin=1, n_bootstrap=N_BOOTSTRAP, seed=seed,
    )  # fmt: skip
    return curve.refit_bins.counts


def of_rate(images=IMAGES, seed=SEED):
    """The mean of what holds for one image only is its weight, as a share of all."""
    fit = Fit(n_bootstrap=N_BOOTSTRAP, seed=seed)
    rates = [estimate_mean(own, outcomes(own), fit) for own in np.eye(images)]
    return images * np.stack([rate.replicates for rate in rates], axis=1)


def of_classes(images=IMAGES, seed=SEED):
    """Two images to a class: of those in a replicate, the share of the first one."""
    label = np.repeat(np.arange(images // 2), 2)
    first = np.tile([1.0, 0.0], images // 2)
    clean = outcomes(first, label=label)
    totals = {"fog": count_by_image(clean)}
    scores = results_by_class(clean, totals, list(map(str, label)), N_BOOTSTRAP, seed)
    return np.stack([score.corrupted.replicates for score in scores], axis=1)


def of_overlap(images=IMAGES, seed=SEED, repeats=1):
    hits = np.zeros((repeats, images, images, images), dtype=bool)
    hits[:] = np.eye(images, dtype=bool)[None, :, None]
    shares = np.concatenate(list(resampled_shares(hits, N_BOOTSTRAP, seed)))
    return images * shares[:, 0, :, 0]


def test_curves_and_rates_of_the_same_images_have_the_same_replicates():
    weights = of_curve()
    assert (weights.sum(axis=1) == IMAGES).all()
    assert len(np.unique(weights, axis=0)) == N_BOOTSTRAP
    np.testing.assert_allclose(of_rate(), weights, atol=1e-9)


def test_other_seeds_have_other_replicates():
    assert not np.array_equal(of_curve(seed=8), of_curve())
    np.testing.assert_allclose(of_rate(seed=8), of_curve(seed=8), atol=1e-9)


@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_overlap_scores_resample_images_as_curves_do(repeats):
    np.testing.assert_allclose(of_overlap(repeats=repeats), of_curve(), atol=1e-5)


def test_classes_resample_images_as_curves_do():
    weights = of_curve()
    first, both = weights[:, ::2], weights[:, ::2] + weights[:, 1::2]
    # a replicate without either image says nothing new
    expected = np.divide(first, both, out=np.full(first.shape, 0.5), where=both > 0)
    np.testing.assert_allclose(of_classes(), expected)


def test_error_consistency_resamples_images_as_curves_do():
    first, second = np.arange(IMAGES) % 2, np.arange(IMAGES) % 3 == 0
    found = ec.error_consistency(
        first, second, clusters=np.arange(IMAGES), n_bootstrap=N_BOOTSTRAP, seed=SEED
    ).kappa.replicates
    for place, weights in enumerate(of_curve()):
        one, two, same = (np.average(own, weights=weights) for own in (
            first, second, first == second
        ))  # fmt: skip
        chance = one * two + (1 - one) * (1 - two)
        expected = (same - chance) / (1 - chance) if chance < 1 else np.nan
        assert found[place] == pytest.approx(expected, nan_ok=True)


def test_an_image_without_a_prediction_leaves_the_weights_of_the_others_as_they_are():
    kept = np.arange(IMAGES) != 4
    every = np.arange(IMAGES)
    answered = outcomes(np.eye(IMAGES)[2][kept], every, every[kept])
    rate = estimate_mean(answered.correct, answered, Fit(n_bootstrap=N_BOOTSTRAP, seed=SEED))
    weights = of_curve()
    expected = weights[:, 2] / weights[:, kept].sum(axis=1)
    np.testing.assert_allclose(rate.replicates, expected)


# The resampler itself


def weights_of(n_units, n_bootstrap, seed=0):
    return np.concatenate([weights for _, weights in weight_blocks(n_units, n_bootstrap, seed)])


@pytest.mark.parametrize("max_kept", [0, 10**9])
def test_blocks_have_the_weights_of_single_replicates_kept_or_not(max_kept, monkeypatch):
    monkeypatch.setattr(bootstrap, "MAX_KEPT", max_kept)
    drawn = draw_weights(7, SEED)
    expected = [next(drawn) for _ in range(23)]
    for max_block in (1, 4, 50):
        blocks = list(weight_blocks(7, 23, SEED, max_block))
        np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), expected)
        assert all(block.shape == (part.stop - part.start, 7) for part, block in blocks)
        # scores may change a block, but not the weights of the next score
        blocks[0][1][:] = -1


@pytest.mark.parametrize("max_drawn", [1, 90, 10**6])
def test_large_tables_of_weights_are_counts_of_one_replicate_after_the_other(
    max_drawn, monkeypatch
):
    """Two threads draw and count blocks of one replicate, of several, or of all."""
    monkeypatch.setattr(bootstrap, "MAX_SMALL", 0)
    monkeypatch.setattr(bootstrap, "MAX_DRAWN", max_drawn)
    bootstrap._draw_large.cache_clear()
    numbers = np.random.default_rng(SEED)
    expected = []
    for _ in range(61):
        drawn = numbers.integers(0, 29, 29).tolist()
        expected.append([drawn.count(unit) for unit in range(29)])
    draw_ahead(29, 61, SEED)
    assert bootstrap._draw_large.cache_info().misses == 1
    assert weights_of(29, 61, SEED).tolist() == expected
    # by unit as well as by replicate
    assert resample_sums(np.eye(29), 61, SEED).tolist() == expected
    assert bootstrap._draw_large.cache_info().misses == 1


def test_drawing_some_weights_does_not_delay_the_use_of_others(monkeypatch):
    monkeypatch.setattr(bootstrap, "MAX_SMALL", 0)
    expected = weights_of(5, 9, SEED)
    # as if another thread were drawing those of six units
    bootstrap._DRAWING.setdefault((6, 9, SEED), Lock())
    with bootstrap._DRAWING[6, 9, SEED], ThreadPoolExecutor(1) as other:
        np.testing.assert_array_equal(other.submit(weights_of, 5, 9, SEED).result(30), expected)


def test_weights_are_multinomial():
    """Mean 1, variance 1 − 1/n, covariance −1/n: those of n draws among n units."""
    n_units = 8
    weights = weights_of(n_units, 40_000)
    assert (weights.sum(axis=1) == n_units).all()
    expected = np.eye(n_units) - 1 / n_units
    np.testing.assert_allclose(weights.mean(axis=0), 1, atol=0.02)
    np.testing.assert_allclose(np.cov(weights.T), expected, atol=0.03)
    # a unit is absent from (1 − 1/n)ⁿ of all replicates
    absent = (weights == 0).mean()
    assert absent == pytest.approx((1 - 1 / n_units) ** n_units, abs=0.005)


def test_a_mean_varies_as_the_mean_of_independent_units_does():
    """The bootstrap variance of a mean is Σ (x − x̄)² / n², whatever the values are."""
    values = np.random.default_rng(1).gamma(2, size=30)
    drawn = resample_means(values, np.ones(30), 40_000, seed=2)
    assert drawn.mean() == pytest.approx(values.mean(), abs=0.005)
    assert drawn.var() == pytest.approx(values.var() / 30, rel=0.03)


def test_units_of_unequal_size_have_the_variance_of_a_ratio():
    numbers = np.random.default_rng(3)
    counts = numbers.integers(1, 6, 200)
    totals = numbers.binomial(counts, 0.7)
    drawn = resample_means(totals, counts, 20_000, seed=1)
    mean = totals.sum() / counts.sum()
    linear = ((totals - mean * counts) ** 2).sum() / counts.sum() ** 2
    assert drawn.var() == pytest.approx(linear, rel=0.05)


def test_replicates_do_not_depend_on_how_many_or_on_the_blocks(monkeypatch):
    every = weights_of(20, 120, seed=5)
    np.testing.assert_array_equal(weights_of(20, 7, seed=5), every[:7])
    monkeypatch.setattr(bootstrap, "MAX_WEIGHTS", 60)
    blocks = list(weight_blocks(20, 120, 5))
    assert {len(weights) for _, weights in blocks} == {3}
    np.testing.assert_array_equal(np.concatenate([weights for _, weights in blocks]), every)
    np.testing.assert_array_equal(
        np.stack([every[part] for part, _ in blocks]).reshape(-1, 20), every
    )
    first = next(draw_weights(20, 5))
    np.testing.assert_array_equal(first, every[0])


def test_sums_are_weighted_sums_dense_or_sparse():
    values = np.random.default_rng(0).random((20, 3)) * [1, 0, 1]
    expected = weights_of(20, 60, seed=4) @ values
    np.testing.assert_allclose(resample_sums(values, 60, 4), expected)
    np.testing.assert_allclose(resample_sums(csr_array(values), 60, 4), expected)


def test_a_replicate_without_an_observation_says_nothing_new():
    counts = np.array([0.0, 0.0, 2.0])
    drawn = resample_means(np.array([0.0, 0.0, 1.0]), counts, 100, 0)
    assert (weights_of(3, 100)[:, 2] == 0).any()
    assert (drawn == 0.5).all()


def test_cells_are_drawn_as_units_in_them_would_be():
    counts = np.array([5, 0, 15, 20])
    drawn = draw_cell_counts(counts, 40_000, 0)
    shares = counts / 40
    assert (drawn.sum(axis=1) == 40).all() and (drawn[:, 1] == 0).all()
    np.testing.assert_allclose(drawn.mean(axis=0), counts, atol=0.1)
    np.testing.assert_allclose(
        np.cov(drawn.T), 40 * (np.diag(shares) - np.outer(shares, shares)), atol=0.25
    )


def test_taking_one_training_less_gives_their_mean_its_variance():
    values = np.random.default_rng(0).normal(size=4)
    means = values[draw_units(4, 3, 40_000, (0, 1))].mean(axis=1)
    assert means.var() == pytest.approx(values.var(ddof=1) / 4, rel=0.03)


def test_shuffled_replicates_are_all_there_in_orders_of_their_own():
    one, two = shuffle_replicates(50, 1, n_orders=2)
    assert sorted(one) == sorted(two) == list(range(50))
    assert one.tolist() != two.tolist() != list(range(50))
    (again,) = shuffle_replicates(50, 1)
    np.testing.assert_array_equal(again, one)


@pytest.mark.parametrize("max_kept", [0, 10**9])
def test_samples_in_cells_are_counted_with_the_weights_of_their_units(max_kept, monkeypatch):
    monkeypatch.setattr(bootstrap, "MAX_KEPT", max_kept)
    numbers = np.random.default_rng(2)
    # more samples than a byte can count fall into a cell; the last cells stay empty
    unit, cell = numbers.integers(0, 20, 3000), numbers.integers(0, 4, 3000)
    expected = np.zeros((60, 6))
    for number in range(4):
        per_unit = np.bincount(unit[cell == number], minlength=20)
        expected[:, number] = weights_of(20, 60, seed=4) @ per_unit
    np.testing.assert_array_equal(resample_cells(unit, cell, (20, 6), 60, 4), expected)


@pytest.mark.parametrize("values", [[3, 0, 2**20], [2**24, 1, 2**24], [0.5, 1, 2]])
def test_sums_are_exact_for_small_large_and_fractional_values(values):
    values = np.array(values, dtype=float)[:, None]
    expected = weights_of(3, 40, seed=6) @ values
    np.testing.assert_array_equal(resample_sums(values, 40, 6), expected)


@pytest.mark.parametrize("max_kept", [0, 10**9])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_exact_sums_are_those_of_a_loop_over_fractions(max_kept, is_sparse, monkeypatch):
    monkeypatch.setattr(bootstrap, "MAX_KEPT", max_kept)
    # blocks of a few rows, the last one incomplete
    monkeypatch.setattr(bootstrap, "CACHED_WEIGHTS", 200)
    numbers = np.random.default_rng(8)
    values = np.zeros((37, 6))
    values[:, 0] = 0.25  # the same for all
    values[5:30, 1] = 3  # the same for some
    values[:, 2] = numbers.integers(-400, 400, 37) / 16
    # differences of shares in single precision
    values[::2, 3] = 1 - numbers.random(19).astype(np.float32).astype(float)
    values[3, 4] = -(2.0**20)
    assert are_exact(values, 37)
    expected = [
        [sum(Fraction(w) * Fraction(v) for w, v in zip(row, column, strict=True)) for column in
         values.T.tolist()]
        for row in weights_of(37, 60, seed=4).tolist()
    ]  # fmt: skip
    sums = resample_sums(csr_array(values) if is_sparse else values, 60, 4)
    assert sums.tolist() == expected


def test_values_with_too_many_digits_are_not_exact():
    last = 2.0**-40
    # 53 digits: sums below 2**13 have 13 before the point, and 40 after it
    assert are_exact(np.array([2.0**12 - 1, -last]), 2)
    assert not are_exact(np.array([2.0**12, last]), 2)
    assert not are_exact(np.array([0.1, 1]), 2)
    assert are_exact(np.zeros(3), 3) and are_exact(np.zeros(0), 3)
    # also close to the smallest and to the largest number
    assert are_exact(np.array([2.0**-1000, 2.0**-1010]), 2)
    assert not are_exact(np.array([2.0**1000, 1.0]), 2)
    for value in (np.nan, np.inf, -np.inf):
        assert not are_exact(np.array([1, value]), 2)


def test_sums_of_rounded_values_do_not_depend_on_other_values_or_blocks(monkeypatch):
    values = csr_array(np.random.default_rng(1).random((30, 4)))
    whole = resample_sums(values, 130, 2)
    np.testing.assert_allclose(whole, weights_of(30, 130, seed=2) @ values.toarray())
    monkeypatch.setattr(bootstrap, "MAX_BLOCK", 7)
    monkeypatch.setattr(bootstrap, "CACHED_WEIGHTS", 1)
    np.testing.assert_array_equal(resample_sums(values, 130, 2), whole)
