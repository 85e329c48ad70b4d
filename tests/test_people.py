"""A model next to people: areas, HMRI and MRSI."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import PPoly

import eyechart as ec
from eyechart.curves.spline import COEFFICIENTS, to_polynomials
from eyechart.scores.people import Areas, areas_of, compared_areas, compared_intervals

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


@given(coefficients, coefficients)
@settings(max_examples=100, deadline=None)
def test_the_human_area_follows_from_the_models_scores(human, model):
    areas = areas_of(to_polynomials(human), to_polynomials(model))
    if areas.human > 1e-3 and areas.hmri > 1e-3:
        implied = areas.model * (1 - areas.mrsi) / areas.hmri
        assert implied == pytest.approx(areas.human, abs=1e-9)


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
    assert areas == Areas(0.5, 0.5, pytest.approx(0.0625), pytest.approx(0.0625))
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
    people = ec.fit_curve(change, numbers.random(6000) < 0.9 - 0.5 * change**2, replicates=200)
    model = ec.fit_curve(change, numbers.random(6000) < 0.9 - 0.8 * change, replicates=200)
    areas = compared_areas(people, model)
    assert ec.hmri(people, model) == areas.hmri and ec.mrsi(people, model) == areas.mrsi
    relative, superior = compared_intervals(people, model, 0.95)
    assert relative[0] < areas.hmri < relative[1]
    assert superior[0] <= areas.mrsi <= superior[1]
    assert areas.hmri == pytest.approx(0.5 / (0.9 - 0.5 / 3), abs=0.02)


def test_what_is_no_curve_is_refused():
    with pytest.raises(ec.UsageError, match="human_curve must be a Curve"):
        ec.hmri([0.9, 0.5], [0.8, 0.4])
