"""Tests of difference hold their level and find what is there; verdicts on simulated truths."""

import numpy as np
import pytest
from scipy.stats import norm

import eyechart as ec
from eyechart.scores.curve_significance import apart_ranges, difference, intervals_overlap
from eyechart.scores.human_relative import scenario


def usual(v):
    """A curve like those of models: flat, then steep, then near nothing."""
    return 0.85 / (1 + np.exp((v - 0.65) * 9)) * (1 + np.exp(-0.65 * 9))


def lower(v):
    return usual(v) - 0.1 * np.sin(np.pi * np.clip(v, 0, 1)) * usual(v)


def crossing(v):
    """Below the usual curve until 0.6, above it from there."""
    return 0.7 - 0.45 * v


def fitted(truth, world, predictions=2500, shared=0.5, easy=None, clustered=True, **options):
    """The curve of answers to pictures, five each, that are easier or harder throughout."""
    numbers = np.random.default_rng(world)
    images = predictions // 5
    image = np.arange(predictions) % images
    own = numbers.normal(size=images) if easy is None else easy
    change = numbers.random(predictions)

    def hits(place, delta_v):
        rest = numbers.normal(size=len(place))
        hardness = norm.cdf(shared**0.5 * own[place] + (1 - shared) ** 0.5 * rest)
        return (hardness < truth(delta_v)).astype(float)

    clean = hits(np.arange(images), np.zeros(images))[image]
    options = {"clusters": image if clustered else None, "n_bootstrap": 300} | options
    return ec.fit_curve(change, hits(image, change), anchor=clean, **options)


def shown_alike(seed, truths, **options):
    """Curves of models that answered to the same pictures, drawn with the same weights."""
    easy = np.random.default_rng(seed).normal(size=500)
    return [
        fitted(truth, 1000 * seed + place, easy=easy, shared=0.9, **options)
        for place, truth in enumerate(truths)
    ]


def test_a_curve_does_not_differ_from_itself():
    curve = fitted(usual, 0)
    same = difference(curve, curve, paired=True)
    assert same.area_difference == same.largest == 0
    assert same.interval == (0, 0)
    assert same.p_value == same.p_value_largest == 1
    assert intervals_overlap(curve, curve)
    assert not apart_ranges(curve, curve, 0.83, ("first", "second"))
    assert scenario(curve, curve).name == "inconclusive"


def test_a_large_difference_is_found():
    first, second = fitted(usual, 1), fitted(lambda v: 0.6 * usual(v), 2)
    found = difference(first, second)
    assert found.area_difference == first.area - second.area
    low, high = found.interval
    assert 0 < low < found.narrow_interval[0] < found.area_difference
    assert found.area_difference < found.narrow_interval[1] < high
    assert found.p_value == found.p_value_largest == 1 / 301
    assert found.largest == pytest.approx(0.34, abs=0.06) and found.place < 0.6
    back = difference(second, first)
    assert back.area_difference == -found.area_difference
    assert back.largest == pytest.approx(found.largest, abs=1e-12)
    assert not intervals_overlap(first, second)
    ranges = apart_ranges(first, second, 0.83, ("first", "second"))
    assert any(lead.start <= 0.25 <= lead.end for lead in ranges if lead.who == "first")


def test_unpaired_curves_are_resampled_independently_although_they_share_a_seed():
    # without clusters both draws use up the same random numbers in nearly the same way
    first, second = (fitted(usual, seed, clustered=False, n_bootstrap=1000) for seed in (3, 4))
    alone = np.hypot(first.areas.std(), second.areas.std())
    width = np.subtract(*difference(first, second).interval[::-1])
    assert width == pytest.approx(2 * 1.96 * alone, rel=0.1)


def test_pairing_narrows_the_interval_of_models_that_find_the_same_images_hard():
    first, second = shown_alike(5, [usual, lower])
    paired, apart = (difference(first, second, paired=own) for own in (True, False))
    assert paired.area_difference == apart.area_difference
    widths = [np.subtract(*own.interval[::-1]) for own in (paired, apart)]
    assert widths[0] < 0.7 * widths[1]
    assert paired.paired and not apart.paired


@pytest.mark.parametrize(
    "options", [{"seed": 1}, {"n_bootstrap": 200}, {"clustered": False}, {"predictions": 2000}]
)
def test_curves_that_were_resampled_otherwise_cannot_be_paired(options):
    first, second = fitted(usual, 6), fitted(usual, 7, **options)
    with pytest.raises(ec.UsageError, match="same clusters, seed and replicates"):
        difference(first, second, paired=True)
    assert 0 < difference(first, second).p_value <= 1


def test_what_cannot_be_compared_is_rejected():
    curve = fitted(usual, 8, n_bootstrap=5)
    with pytest.raises(ec.UsageError, match="second must be a Curve"):
        difference(curve, 0.5)
    with pytest.raises(ec.UsageError, match="first and second must have the same density"):
        difference(curve, fitted(usual, 8, n_bootstrap=5, density=[1, 2]))
    low, high = (
        ec.fit_curve(np.linspace(*ends, 500), np.ones(500), n_bootstrap=5)
        for ends in ((0, 0.3), (0.7, 1))
    )
    with pytest.raises(ec.UsageError, match="no range of visual change that was observed for both"):
        difference(low, high)
    with pytest.raises(ec.UsageError, match="level must be"):
        scenario(curve, curve, level=95)


@pytest.mark.parametrize(
    ("human", "model", "name", "leaders"),
    [
        (usual, lambda v: 0.7 * usual(v), "humans ahead", {"humans"}),
        (lambda v: 0.7 * usual(v), usual, "model ahead", {"model"}),
        (usual, crossing, "mixed", {"humans", "model"}),
        (usual, usual, "inconclusive", set()),
    ],
)
def test_the_verdict_on_clear_cases(human, model, name, leaders):
    verdict = scenario(fitted(human, 9), fitted(model, 10))
    assert verdict.name == name
    assert {lead.who for lead in verdict.leads} == leaders
    assert verdict.areas.human_ahead > 0 or name == "model ahead"
    if name == "mixed":
        assert all(lead.end < 0.65 for lead in verdict.leads if lead.who == "humans")


def test_verdicts_rest_on_evidence_not_on_areas():
    # few answers: the areas between equal truths are larger, and still mean nothing
    few = scenario(*(fitted(usual, seed, predictions=1000) for seed in (11, 12)))
    assert few.areas.human_ahead + few.areas.model_ahead > 0.01
    assert few.name == "inconclusive"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("paired", [False, True])
def test_equal_truths_differ_as_often_as_the_level_says(paired):
    areas, largest, verdicts, rule = [], [], [], []
    for seed in range(200):
        if paired:
            curves = shown_alike(seed, [usual, usual])
        else:
            curves = [fitted(usual, 2 * seed + place, seed=seed) for place in (0, 1)]
        found = difference(*curves, paired=paired)
        areas.append(found.p_value < 0.05)
        largest.append(found.p_value_largest < 0.05)
        verdicts.append(scenario(*curves, paired=paired).name != "inconclusive")
        ranges = apart_ranges(*curves, 0.83, ("first", "second"))
        rule.append([not intervals_overlap(*curves), len(ranges) > 0])
    rates = [np.mean(own) for own in (areas, largest, verdicts)]
    print("area, largest, verdict:", rates, "83 % rule:", np.mean(rule, axis=0))
    # three standard errors of 200 trials at 0.05 are 0.046
    assert all(rate <= 0.1 for rate in rates)
    assert sum(rates) > 0
    if not paired:
        # point by point, the published rule finds a difference far too often
        assert np.mean(rule, axis=0)[1] > 0.2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_true_differences_are_found_more_often_if_paired():
    found = {False: [], True: []}
    for seed in range(100):
        curves = shown_alike(seed, [usual, lower])
        for paired, own in found.items():
            own.append(difference(*curves, paired=paired).p_value < 0.05)
    power = {paired: np.mean(own) for paired, own in found.items()}
    print("power:", power)
    assert power[True] > 0.9 and power[True] > power[False] + 0.1


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("model", "name", "least"),
    # "ahead" also needs the other side's lead to be excluded, so that more are inconclusive
    [(lambda v: 0.85 * usual(v), "humans ahead", 75), (crossing, "mixed", 85)],
)
def test_verdicts_on_simulated_truths(model, name, least):
    names = [
        scenario(fitted(usual, 2 * seed, seed=seed), fitted(model, 2 * seed + 1, seed=seed)).name
        for seed in range(100)
    ]
    print({each: names.count(each) for each in set(names)})
    assert names.count(name) >= least
    assert names.count(name) + names.count("inconclusive") >= 95


def test_curves_without_any_variation_are_inconclusive():
    delta_v = np.linspace(0, 1, 200)
    perfect = ec.fit_curve(delta_v, np.ones(200), anchor=1.0, n_bootstrap=20)
    found = scenario(perfect, perfect)
    assert found.name == "inconclusive" and found.leads == ()
