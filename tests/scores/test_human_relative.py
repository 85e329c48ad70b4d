"""A model next to people: areas, HMRI and MRSI."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import PPoly

import eyechart as ec
from eyechart.scores.human_relative import (
    areas_of,
    compared_areas,
    compared_replicates,
    compared_scores,
    ranges,
    significant_ranges,
)
from eyechart.scores.similar import compare_corruptions
from eyechart.stats.density import Density, leads_between
from eyechart.stats.estimators import COEFFICIENTS, to_polynomials
from eyechart.stats.intervals import percentile_interval
from eyechart.stats.pieces import refined

# R̂, HMRI and MRSI of the VCR study's table of retrained models (its Table 3): before and after
# retraining, two models, accuracy and consistency; then the human areas that they imply
PUBLISHED = {
    ("median blur", "accuracy", 0.837): [
        (0.532, 0.635, 0.000), (0.694, 0.828, 0.003), (0.522, 0.624, 0.000), (0.650, 0.774, 0.004),
    ],
    ("median blur", "consistency", 0.852): [
        (0.573, 0.673, 0.000), (0.728, 0.854, 0.001), (0.605, 0.710, 0.000), (0.729, 0.852, 0.004),
    ],
    ("frost", "accuracy", 0.813): [
        (0.429, 0.521, 0.011), (0.575, 0.690, 0.025), (0.423, 0.512, 0.015), (0.517, 0.625, 0.016),
    ],
    ("frost", "consistency", 0.817): [
        (0.473, 0.572, 0.012), (0.678, 0.804, 0.031), (0.513, 0.618, 0.016), (0.647, 0.768, 0.031),
    ],
    ("glass blur", "accuracy", 0.820): [
        (0.468, 0.569, 0.003), (0.647, 0.770, 0.024), (0.334, 0.407, 0.000), (0.572, 0.687, 0.016),
    ],
    ("glass blur", "consistency", 0.830): [
        (0.502, 0.603, 0.003), (0.744, 0.866, 0.034), (0.397, 0.478, 0.000), (0.684, 0.809, 0.018),
    ],
}  # fmt: skip

coefficients = st.lists(st.floats(0, 1), min_size=COEFFICIENTS, max_size=COEFFICIENTS).map(
    lambda values: np.sort(values)[::-1]
)


def line(start, end):
    return PPoly(np.array([[end - start], [start]]), np.array([0.0, 1.0]))


weights = st.lists(st.floats(0, 1), min_size=1, max_size=50).filter(lambda own: sum(own) > 0.01)
shapes = st.floats(0.3, 8)
densities = (
    st.just(Density.of_weights([1]))
    | weights.map(Density.of_weights)
    | st.tuples(shapes, shapes).map(lambda own: Density.beta(*own))
)


@given(coefficients, coefficients, densities)
@settings(max_examples=200, deadline=None)
def test_the_human_area_follows_from_the_models_scores(human, model, density):
    areas = areas_of(to_polynomials(human), to_polynomials(model), density)
    if areas.human > 1e-3 and areas.hmri > 1e-3:
        implied = areas.model * (1 - areas.mrsi) / areas.hmri
        assert implied == pytest.approx(areas.human, abs=1e-9)


@given(coefficients, coefficients, weights)
@settings(max_examples=50, deadline=None)
def test_weighted_areas_are_those_of_a_fine_sum(human, model, own):
    one, two = to_polynomials(human), to_polynomials(model)
    areas = areas_of(one, two, Density.of_weights(own))
    cells = 1000 * len(own)
    middles = (np.arange(cells) + 0.5) / cells
    heights = np.repeat(own, 1000) / np.mean(own)
    gap = one(middles) - two(middles)
    # cells in which the curves cross are the only ones that a middle can get wrong
    near = 2e-5
    assert areas.human == pytest.approx(np.mean(one(middles) * heights), abs=near)
    assert areas.model == pytest.approx(np.mean(two(middles) * heights), abs=near)
    assert areas.human_ahead == pytest.approx(np.mean(np.maximum(gap, 0) * heights), abs=near)
    assert areas.model_ahead == pytest.approx(np.mean(np.maximum(-gap, 0) * heights), abs=near)


@given(st.lists(st.tuples(coefficients, coefficients), min_size=1, max_size=5))
@settings(max_examples=25, deadline=None)
def test_many_pairs_score_as_each_does(pairs):
    density = Density.beta(2, 3)
    human, model = ([to_polynomials(own) for own in each] for each in zip(*pairs, strict=True))
    each = [areas_of(*map(to_polynomials, pair), density) for pair in pairs]
    relative, superior = compared_scores(human, model, density)
    np.testing.assert_allclose(relative, [own.hmri for own in each], atol=1e-10)
    np.testing.assert_allclose(superior, [own.mrsi for own in each], atol=1e-10)
    # with other breaks they cannot be stacked
    broken = [refined(own, np.union1d(own.x, [0.01 * k])) for k, own in enumerate(model, 1)]
    again = compared_scores(human, broken, density)
    np.testing.assert_allclose(again, (relative, superior), atol=1e-10)


@given(coefficients, coefficients)
@settings(max_examples=50, deadline=None)
def test_areas_are_those_of_a_fine_sum(human, model):
    one, two = to_polynomials(human), to_polynomials(model)
    areas = areas_of(one, two)
    grid = np.linspace(0, 1, 40_001)
    ahead = np.maximum(one(grid) - two(grid), 0)
    behind = np.maximum(two(grid) - one(grid), 0)
    assert areas.human_ahead == pytest.approx(np.trapezoid(ahead, grid), abs=1e-6)
    assert areas.model_ahead == pytest.approx(np.trapezoid(behind, grid), abs=1e-6)
    assert 0 <= areas.hmri <= 1 + 1e-12 or np.isnan(areas.hmri)
    assert -1e-12 <= areas.mrsi <= 1


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: " ".join(case[:2]))
def test_the_published_scores_imply_the_published_human_areas(case):
    for area, relative, superior in PUBLISHED[case]:
        # printed to three digits each
        margin = case[2] * (0.0005 / area + 0.0005 / relative + 0.0005) + 0.0005
        assert area * (1 - superior) / relative == pytest.approx(case[2], abs=margin)


def test_lines_that_cross_have_areas_known_by_hand():
    areas = areas_of(line(1, 0), line(0.75, 0.25))
    assert (areas.human, areas.model) == (0.5, 0.5)
    assert (areas.human_ahead, areas.model_ahead) == pytest.approx((0.0625, 0.0625))
    assert areas.hmri == pytest.approx(0.875) and areas.mrsi == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("human", "model", "relative", "superior"),
    [
        (line(0.8, 0.2), line(0.4, 0.1), 0.5, 0.0),
        (line(0.4, 0.1), line(0.8, 0.2), 1.0, 0.5),
        (line(0.8, 0.2), line(0.8, 0.2), 1.0, 0.0),
        (line(0.8, 0.2), line(0, 0), 0.0, 0.0),
        (line(0, 0), line(0.8, 0.2), np.nan, 1.0),
    ],
    ids=["behind", "ahead", "alike", "no model", "no people"],
)
def test_the_ends_of_both_scores(human, model, relative, superior):
    areas = areas_of(human, model)
    np.testing.assert_allclose([areas.hmri, areas.mrsi], [relative, superior], atol=1e-12)


def test_scores_of_fitted_curves_have_intervals_around_them():
    numbers = np.random.default_rng(0)
    change = numbers.random(6000)
    humans = ec.fit_curve(change, numbers.random(6000) < 0.9 - 0.5 * change**2, n_bootstrap=200)
    model = ec.fit_curve(change, numbers.random(6000) < 0.9 - 0.8 * change, n_bootstrap=200)
    areas = compared_areas(humans, model)
    assert ec.hmri(humans, model) == areas.hmri and ec.mrsi(humans, model) == areas.mrsi
    relative, superior = (
        percentile_interval(drawn, 0.95) for drawn in compared_replicates(humans, model)
    )
    assert relative[0] < areas.hmri < relative[1]
    assert superior[0] <= areas.mrsi <= superior[1]
    assert areas.hmri == pytest.approx(0.5 / (0.9 - 0.5 / 3), abs=0.02)


def test_leads_end_where_curves_cross():
    assert leads_between(line(1, 0), line(0.75, 0.25)) == [
        (0, pytest.approx(0.5, abs=1e-12), True), (pytest.approx(0.5, abs=1e-12), 1, False),
    ]  # fmt: skip
    bent = PPoly(np.array([[-1.0], [0.0], [1.0]]), np.array([0.0, 1.0]))  # 1 − v²
    level = line(0.75, 0.75)
    (_, end, first), (start, _, second) = leads_between(bent, level)
    assert end == start == pytest.approx(0.5, abs=1e-12) and (first, second) == (True, False)
    assert leads_between(line(0.9, 0.1), line(0.9, 0.1)) == []
    assert leads_between(line(0.9, 0.1), line(0.9, 0.1 + 1e-10)) == []


def test_a_curve_that_touches_another_leads_all_along():
    # 0.5 + (v − 0.5)² / 4 in two pieces touches 0.5 in the middle
    near = PPoly(np.array([[0.25, 0.25], [-0.25, 0], [0.5625, 0.5]]), np.array([0, 0.5, 1.0]))
    assert leads_between(near, line(0.5, 0.5)) == [(0.0, 1.0, True)]


@given(coefficients, coefficients)
@settings(max_examples=50, deadline=None)
def test_leads_hold_what_one_is_ahead_by(human, model):
    one, two = to_polynomials(human), to_polynomials(model)
    areas = areas_of(one, two)
    for humans, wanted in ((True, areas.human_ahead), (False, areas.model_ahead)):
        own = [lead for lead in leads_between(one, two) if lead[2] == humans]
        held = sum(abs(one.integrate(*lead[:2]) - two.integrate(*lead[:2])) for lead in own)
        assert held == pytest.approx(wanted, abs=2e-6)


def fitted(truth, seed, count=6000, **options):
    numbers = np.random.default_rng(seed)
    change = numbers.random(count)
    hits = numbers.random(count) < truth(change)
    return ec.fit_curve(change, hits, **{"n_bootstrap": 200, "seed": seed} | options)


def test_who_leads_where():
    humans = fitted(lambda v: 0.95 - 0.9 * v, 1, count=20_000)
    model = fitted(lambda v: 0.6 - 0.2 * v, 2, count=20_000)
    assert [lead.who for lead in ranges(humans, model)] == ["humans", "model"]
    assert ranges(humans, model)[0].end == pytest.approx(0.5, abs=0.05)
    sure = significant_ranges(humans, model)
    assert {lead.who for lead in sure} == {"humans", "model"}
    assert all(lead.end < 0.5 for lead in sure if lead.who == "humans")
    assert all(lead.start > 0.5 for lead in sure if lead.who == "model")
    for lead in sure:
        for place in (lead.start, lead.end):
            low, high = (curve.band(place, 0.83) for curve in (humans, model))
            assert low[0] > high[1] if lead.who == "humans" else high[0] > low[1]
    assert ranges(humans, humans) == significant_ranges(humans, humans) == []


def test_curves_of_different_densities_are_not_compared():
    humans = fitted(lambda v: 0.9 - 0.5 * v, 1, density=[1, 2])
    model = fitted(lambda v: 0.9 - 0.8 * v, 2)
    for compare in (ec.hmri, compared_replicates, ranges):
        with pytest.raises(ec.UsageError, match="human_curve and model_curve must have the same"):
            compare(humans, model)
    weighted = fitted(lambda v: 0.9 - 0.8 * v, 2, density=[1, 2])
    # ∫ (0.9 − 0.8 v) q over ∫ (0.9 − 0.5 v) q, where the mean of v is 7/12
    wanted = (0.9 - 0.8 * 7 / 12) / (0.9 - 0.5 * 7 / 12)
    assert ec.hmri(humans, weighted) == pytest.approx(wanted, abs=0.03)


def test_a_model_under_two_similar_corruptions():
    humans = fitted(lambda v: 0.95 - 0.5 * v, 1, count=10_000)
    first, second = (
        fitted(lambda v, k=fall: 0.9 - k * v, seed, count=10_000)
        for seed, fall in ((2, 0.6), (3, 0.85))
    )
    found = compare_corruptions(humans, first, second)
    assert found.delta_hmri == ec.hmri(humans, first) - ec.hmri(humans, second)
    # areas of 0.6 and 0.475 against 0.7
    assert found.delta_hmri == pytest.approx(0.125 / 0.7, abs=0.03)
    low, high = found.hmri_interval
    assert 0 < low < found.delta_hmri < high < 0.3
    assert found.delta_mrsi == pytest.approx(0, abs=0.01)
    assert found.mrsi_interval[0] <= found.delta_mrsi <= found.mrsi_interval[1]
    assert {lead.who for lead in found.ranges} == {"first"}
    assert max(lead.end for lead in found.ranges) == 1
    same = compare_corruptions(humans, first, first)
    assert same.delta_hmri == 0 and not same.ranges


def test_where_humans_responded_to_both_corruptions_each_is_compared_with_its_own_curve():
    humans, other = fitted(lambda v: 0.9 - 0.4 * v, 1), fitted(lambda v: 0.9 - 0.3 * v, 5)
    first, second = fitted(lambda v: 0.8 - 0.4 * v, 2), fitted(lambda v: 0.8 - 0.6 * v, 3)
    found = compare_corruptions(humans, first, second, second_human=other)
    assert found.human_curves == 2
    assert found.delta_hmri == ec.hmri(humans, first) - ec.hmri(other, second)
    # areas of 0.6 against 0.7, and of 0.5 against 0.75
    assert found.delta_hmri == pytest.approx(0.6 / 0.7 - 0.5 / 0.75, abs=0.03)
    low, high = found.hmri_interval
    assert 0 < low < found.delta_hmri < high
    # nothing of people's error cancels, so that it is wider than with one curve for both
    alone = compare_corruptions(humans, first, second, second_human=humans)
    shared = compare_corruptions(humans, first, second)
    assert np.subtract(*alone.hmri_interval) < np.subtract(*shared.hmri_interval)


def test_corruptions_of_the_same_images_are_compared_more_closely():
    clusters = np.arange(3000) % 300
    easy = np.random.default_rng(8).random(300)[clusters]

    def curve(seed):
        numbers = np.random.default_rng(seed)
        change = numbers.random(3000)
        hits = (easy + 0.3 * numbers.random(3000)) / 1.3 < 0.9 - 0.7 * change
        return change, hits

    humans = fitted(lambda v: 0.95 - 0.3 * v, 1)
    options = {"clusters": clusters, "n_bootstrap": 200}
    together = [ec.fit_curve(*curve(seed), **options, seed=0) for seed in (1, 2)]
    apart = [ec.fit_curve(*curve(seed), **options, seed=seed) for seed in (1, 2)]
    widths = [
        np.subtract(*compare_corruptions(humans, *own).hmri_interval[::-1])
        for own in (together, apart)
    ]
    assert widths[0] < 0.8 * widths[1]


def test_weights_of_a_density_may_be_next_to_nothing():
    density = Density.of_weights([1.0, 2.2e-309])
    assert density(np.array([0.25, 0.75])) == pytest.approx([2, 0])


def test_what_is_no_curve_is_rejected():
    with pytest.raises(ec.UsageError, match="human_curve must be a Curve"):
        ec.hmri([0.9, 0.5], [0.8, 0.4])
