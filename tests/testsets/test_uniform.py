"""Uniform visual change: strengths are found, targets fill the bins, real sets are even."""

from collections import Counter

import numpy as np
import pytest

import eyechart as ec
from eyechart.testsets import uniform
from eyechart.testsets.uniform import CLOSE, MOST_STEPS, choose_levels, draw_targets, find_strengths
from small_models import save_images


def bins(count):
    """The edges of so many equal bins of 0…1."""
    return np.linspace(0, 1, count + 1)


def names(count):
    return [f"row {place}" for place in range(count)]


# Finding strengths


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_the_strength_of_a_known_function_is_found(power):
    """Δv = (severity / 5) ** power is met within CLOSE; the inverse is known."""
    target = np.linspace(0.05, 0.95, 40)
    calls = Counter()

    def measure(rows, severity):
        calls.update(rows.tolist())
        return (severity / 5) ** power

    severity, found = find_strengths(target, 0.0, np.zeros(40), np.ones(40), measure)
    np.testing.assert_allclose(found, target, atol=CLOSE, rtol=0)
    np.testing.assert_allclose((severity / 5) ** power, found, atol=1e-12)
    assert max(calls.values()) <= MOST_STEPS


def test_rows_are_looked_at_by_their_own_function():
    slope = np.array([0.2, 0.5, 1.0])
    target = np.array([0.1, 0.1, 0.1])
    severity, _ = find_strengths(
        target, 0.0, np.zeros(3), slope, lambda rows, severity: slope[rows] * severity / 5
    )
    np.testing.assert_allclose(severity, 5 * target / slope, atol=5 * CLOSE / slope.min())


def test_a_function_of_steps_ends_at_the_nearest_step_on_either_side():
    """Kernels of whole numbers: Δv is one of 0, 0.25, 0.5, 0.75, 1."""
    target = np.array([0.06, 0.2, 0.31, 0.6, 0.74, 0.9])

    def measure(rows, severity):
        return np.floor(severity / 5 * 4 + 0.5) / 4

    severity, found = find_strengths(target, 0.0, np.zeros(6), np.ones(6), measure)
    np.testing.assert_array_equal(found, measure(None, severity))
    # the two steps around the target are at its bracket's ends: either, but none further off
    assert np.all(np.abs(found - target) < 0.25)
    np.testing.assert_array_equal(found[[1, 3, 4]], [0.25, 0.5, 0.75])


def test_a_target_beyond_reach_gets_the_nearer_end():
    target = np.array([0.9, 0.01])
    severity, found = find_strengths(
        target, 1.0, np.array([0.1, 0.1]), np.array([0.5, 0.5]),
        lambda rows, severity: 0.1 + 0.1 * (severity - 1),
    )  # fmt: skip
    np.testing.assert_allclose(severity, [5, 1], atol=0.05)
    np.testing.assert_allclose(found, [0.5, 0.1], atol=0.005)


def test_a_row_that_is_at_its_target_already_is_not_measured():
    def never(rows, severity):
        raise AssertionError

    severity, found = find_strengths(
        np.array([0.2, 0.8]), 1.0, np.array([0.2, 0.1]), np.array([0.9, 0.8]), never
    )
    assert severity.tolist() == [1, 5] and found.tolist() == [0.2, 0.8]


# Drawing targets


def test_targets_fill_every_bin_equally_where_all_rows_reach_all():
    """39 bins, 780 of 1,560 rows, each able to reach everything: exactly 20 in each bin."""
    rows = 2 * 780
    target = draw_targets(np.zeros(rows), np.ones(rows), names(rows), 780, bins(39), seed=0)
    used = target[~np.isnan(target)]
    assert np.bincount((used * 39).astype(int), minlength=39).tolist() == [20] * 39


def test_bins_that_nobody_reaches_are_left_out_and_the_others_share():
    """Rows end at 0.5: of 10 bins only 5 are reached, with 60 / 5 = 12 targets each."""
    target = draw_targets(np.zeros(120), np.full(120, 0.5), names(120), 60, bins(10), seed=0)
    used = target[~np.isnan(target)]
    assert np.bincount((used * 10).astype(int), minlength=10).tolist() == [12] * 5 + [0] * 5


def test_far_bins_are_filled_and_near_ones_hold_near_and_far_reaching_rows_alike():
    """Half of a pool of four times the rows reach 0.5, the others 1."""
    high = np.where(np.arange(4000) % 2, 1.0, 0.5)
    target = draw_targets(np.zeros(4000), high, names(4000), 1000, bins(10), seed=0)
    used = ~np.isnan(target)
    assert used.sum() == 1000
    assert np.all(target[used] <= high[used])
    assert np.bincount((target[used] * 10).astype(int), minlength=10).tolist() == [100] * 10
    near = used & (target < 0.5)
    # 500 draws of a fair coin: five standard deviations
    assert abs((high[near] == 1).sum() - 250) < 56


def test_what_far_bins_lack_goes_to_the_others():
    """10 of 100 rows reach 1, the others 0.5."""
    high = np.where(np.arange(100) < 10, 1.0, 0.5)
    target = draw_targets(np.zeros(100), high, names(100), 50, bins(10), seed=0)
    used = ~np.isnan(target)
    assert used.sum() == 50
    assert np.all(target[used] <= high[used])
    counts = np.bincount((target[used] * 10).astype(int), minlength=10)
    assert 0 < counts[5:].sum() <= 10
    assert counts[:5].max() - counts[:5].min() <= 3


def test_targets_lie_where_their_rows_can_be():
    random = np.random.default_rng(0)
    low = random.uniform(0, 0.3, 500)
    high = low + random.uniform(0.05, 0.7, 500)
    target = draw_targets(low, high, names(500), 250, bins(39), seed=3)
    used = ~np.isnan(target)
    assert used.sum() == 250
    assert np.all((target[used] >= low[used]) & (target[used] <= high[used]))


def test_targets_belong_to_rows_and_not_to_their_places():
    high = np.random.default_rng(1).uniform(0.3, 1, 60)
    order = np.random.default_rng(2).permutation(60)
    one = draw_targets(np.zeros(60), high, names(60), 30, bins(39), seed=0)
    shuffled = [names(60)[place] for place in order]
    two = draw_targets(np.zeros(60), high[order], shuffled, 30, bins(39), seed=0)
    np.testing.assert_array_equal(one[order], two)
    other = draw_targets(np.zeros(60), high, names(60), 30, bins(39), seed=1)
    assert not np.array_equal(np.isnan(one), np.isnan(other))


def test_rows_without_a_visual_change_get_no_target():
    high = np.array([np.nan, 0.9, np.nan, 0.9])
    low = np.where(np.isnan(high), np.nan, 0.0)
    target = draw_targets(low, high, names(4), 4, bins(39), seed=0)
    assert np.isnan(target).tolist() == [True, False, True, False]


def test_targets_keep_to_the_range_that_was_asked_for():
    """Four bins between 0.2 and 0.6, 40 targets: ten in each, none outside."""
    target = draw_targets(
        np.zeros(80), np.ones(80), names(80), 40, np.linspace(0.2, 0.6, 5), seed=0
    )
    used = target[~np.isnan(target)]
    assert np.histogram(used, np.linspace(0.2, 0.6, 5))[0].tolist() == [10] * 4
    chosen = choose_levels(np.tile([[0.1], [0.5], [0.9]], 8), names(8), 4, np.array([0.4, 0.6]), 0)
    assert sorted(chosen.tolist()) == [-1] * 4 + [1] * 4


@pytest.mark.parametrize("count", [30, 61, 100])
def test_as_many_targets_are_drawn_as_were_asked_for(count):
    """Twice as many rows as targets, of every reach: none may be lost on the way."""
    high = np.random.default_rng(count).beta(1, 3, 2 * count)
    target = draw_targets(np.zeros(2 * count), high, names(2 * count), count, bins(39), seed=0)
    assert (~np.isnan(target)).sum() == count


def test_levels_are_chosen_so_that_bins_are_equal():
    """Three levels at the middle of three bins, for all rows: a third of the rows each."""
    found = np.repeat(np.array([[1 / 6], [3 / 6], [5 / 6]]), 60, axis=1)
    chosen = choose_levels(found, names(60), 30, bins(3), 0)
    assert Counter(chosen.tolist()) == {-1: 30, 0: 10, 1: 10, 2: 10}


def test_rows_whose_levels_have_no_visual_change_are_not_chosen():
    found = np.array([[0.1, np.nan, 0.2], [0.5, np.nan, 0.6]])
    chosen = choose_levels(found, names(3), 3, bins(39), 0)
    assert chosen[1] == -1 and (chosen[[0, 2]] >= 0).all()


# A real test set


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return ec.load_images(save_images(tmp_path_factory.mktemp("images"), each=2), "native")


def changes(found, corruption):
    own = found.table.filter([each == corruption for each in found.table["corruption"].to_pylist()])
    return own["delta_v"].to_numpy()


def unevenness(values):
    """How far the shares of 13 wide bins of 0…0.9 are from equal: total variation."""
    counts = np.histogram(values, bins=13, range=(0, 0.9))[0] / len(values)
    return np.abs(counts - 1 / 13).sum() / 2


def test_noise_comes_within_a_hundredth_of_its_targets(images, monkeypatch):
    aimed = []
    draw = uniform.draw_targets

    def remembered(*arguments, seed):
        aimed.append(draw(*arguments, seed=seed))
        return aimed[-1]

    monkeypatch.setattr("eyechart.testsets.uniform.draw_targets", remembered)
    found = ec.sample_testset(images, n=60, sampling="uniform", corruptions=["gaussian_noise"])
    target = aimed[0][~np.isnan(aimed[0])]
    np.testing.assert_allclose(changes(found, "vcr/gaussian_noise"), target, atol=0.01, rtol=0)
    assert len(target) == 60


@pytest.mark.parametrize("name", ["gaussian_noise", "impulse_noise"])
def test_a_uniform_set_is_much_more_even_than_the_papers(images, name):
    even = ec.sample_testset(images, n=78, sampling="uniform", corruptions=[name])
    paper = ec.sample_testset(images, n=78, corruptions=[name])
    assert len(changes(even, f"vcr/{name}")) == 78
    one, two = (unevenness(changes(found, f"vcr/{name}")) for found in (even, paper))
    assert one < 0.6 * two, (one, two)


def test_a_uniform_row_is_what_corrupt_makes_of_its_parameters(images):
    found = ec.sample_testset(
        images, n=8, sampling="uniform", corruptions=["blur", "color_jitter"], seed=2
    )
    places = {digest: place for place, digest in enumerate(images.digests)}
    counts = Counter()
    for row in found.table.to_pylist():
        counts[row["corruption"]] += 1
        if row["corruption"] == "clean":
            continue
        clean = images.batch([places[row["digest"]]])
        made = ec.corrupt(
            clean, row["corruption"], keys=[row["digest"]], draw=row["draw"], seed=2,
            **dict(row["parameters"]),
        )  # fmt: skip
        assert row["delta_v"] == pytest.approx(float(ec.delta_v(clean, made)[0]), abs=1e-9)
        assert 0 <= row["severity"] <= 5
    assert counts["vcr/blur"] == counts["vcr/color_jitter"] == 8


def test_a_uniform_set_is_the_same_twice_and_in_other_batches(images, monkeypatch):
    options = {"n": 12, "sampling": "uniform", "corruptions": ["gaussian_noise"]}
    one = ec.sample_testset(images, **options)
    monkeypatch.setattr("eyechart.testsets.stimuli.BATCH", {"cpu": 5})
    two = ec.sample_testset(images, **options)
    assert one.table.equals(two.table)


def test_a_uniform_set_comes_back_from_its_file_with_the_same_rows(images, tmp_path):
    found = ec.sample_testset(
        images, n=6, sampling="uniform", corruptions=["gaussian_noise", "blur"]
    )
    found.save(tmp_path / "t.parquet")
    again = ec.read_testset(tmp_path / "t.parquet")
    assert again.table.equals(found.table)
    rows = found.table["row"].to_pylist()
    assert len(rows) == len(set(rows))
    assert sum(len(samples) for samples in again.samples(images)) == len(found)


def test_a_range_of_visual_change_is_kept_to(images):
    found = ec.sample_testset(
        images, n=20, sampling="uniform", corruptions=["gaussian_noise", "median_blur"],
        delta_v=(0.3, 0.5),
    )  # fmt: skip
    for name in found.corruptions:
        values = changes(found, name)
        assert values.min() > 0.3 - CLOSE and values.max() < 0.5 + CLOSE
    assert len(changes(found, "vcr/gaussian_noise")) == 20


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"delta_v": (0.995, 1.0), "sampling": "uniform"}, "does not reach a Δv"),
        ({"delta_v": (0.6, 0.2), "sampling": "uniform"}, r"range within \[0, 1\]"),
        ({"delta_v": (0.0, 1.5), "sampling": "uniform"}, r"range within \[0, 1\]"),
        ({"delta_v": (0.2, 0.6)}, "uniform"),
    ],
)
def test_a_range_that_cannot_be_met_is_rejected(images, options, word):
    with pytest.raises(ec.UsageError, match=word):
        ec.sample_testset(images, n=8, corruptions=["gaussian_noise"], **options)
