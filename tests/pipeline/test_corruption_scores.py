"""From outcomes to scores: curves against a known truth, anchors, intervals, people, verdicts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

import eyechart as ec
import small_models
from eyechart.humans.human_responses import write_responses
from eyechart.humans.importing import import_responses
from eyechart.humans.reference import find_reference
from eyechart.images.labels.imagenet import CATEGORIES, wordnet_ids
from eyechart.pipeline.human_references import find_humans
from eyechart.pipeline.scoring.corruption_scores import CorruptionScorer
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.predictions.reading import Predictions
from eyechart.scores.scoring import (
    Fit,
    class_weights,
    estimate_mean,
    insufficient_data,
)
from eyechart.stats.estimate import mean_estimate
from eyechart.stats.p_values import paired_difference
from eyechart.testsets.plan import MOVED
from known_outcomes import CLEAN_ACCURACY, TRUE_AREAS, outcomes
from small_models import save_images

QUICK = {"n_bootstrap": 40}


def score(own=None, fit=None, **options):
    given = {
        "geometric": False, "classes": 16, "labeled": True, "reference": None,
        "why_no_reference": "none was asked for", **options,
    }  # fmt: skip
    own = outcomes() if own is None else own
    return score_corruption("vcr/gaussian_noise", own, fit or Fit(**QUICK), **given)


def score_corruption(corruption, predictions, fit, **options):
    given = {"why_no_curve": "", **options}
    return CorruptionScorer(corruption=corruption, fit=fit, **given).score(predictions)


# Areas and anchors


@pytest.mark.parametrize("estimator", ["spline", "cobs", "isotonic"])
def test_areas_of_a_known_truth_are_found(estimator):
    found = score(fit=Fit(estimator=estimator, **QUICK))
    for letter, own in found.properties.items():
        assert own.robustness.value == pytest.approx(TRUE_AREAS[letter], abs=0.015)
        low, high = own.robustness.interval95
        assert low - 0.01 < TRUE_AREAS[letter] < high + 0.01 and high - low < 0.06
        assert low <= own.robustness.interval83[0] <= own.robustness.interval83[1] <= high
        assert own.n_samples == 8000


def test_curves_start_at_clean_accuracy_and_at_one():
    found = score(fit=Fit(estimator="spline", **QUICK))
    assert found.accuracy.curve.fitted.left == pytest.approx(CLEAN_ACCURACY, abs=1e-12)
    assert float(found.accuracy.curve.fitted(0.0)) == pytest.approx(CLEAN_ACCURACY, abs=1e-6)
    assert found.consistency.curve.fitted.left == 1.0
    assert float(found.consistency.curve.fitted(0.0)) == pytest.approx(1.0, abs=1e-6)
    assert (
        found.accuracy.curve.fitted.right is None and found.consistency.curve.fitted.right is None
    )


@pytest.mark.parametrize(
    ("end", "a", "p"),
    [("chance", 1 / 16, 1 / 16), (0.05, 0.05, 0.05), ("measured", 0.02, 0.02), (0, 0, 0)],
)
def test_curves_end_where_they_are_told_to(end, a, p):
    found = score(outcomes(lost=0.02), Fit(right_anchor=end, **QUICK))
    for own, value in ((found.accuracy, a), (found.consistency, p)):
        assert own.curve.fitted.right == pytest.approx(value, abs=1e-12)
        assert float(own.curve.fitted(1.0)) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("end", ["measured", 0.97])
def test_no_curve_ends_above_its_start(end):
    found = score(outcomes(lost=0.97), Fit(right_anchor=end, **QUICK))
    assert found.accuracy.curve.fitted.right == pytest.approx(CLEAN_ACCURACY, abs=1e-12)
    assert found.consistency.curve.fitted.right == pytest.approx(0.97, abs=1e-12)


def test_what_was_not_observed_widens_the_bounds_and_not_the_value():
    """Beyond 0.5 anything from nothing to the last value may be; sampling error comes on top."""
    near = score(outcomes(reach=0.5)).accuracy
    ((start, end),) = near.observed
    assert start == 0 and end == pytest.approx(0.5, abs=1 / 39)
    seen = quad(near.curve.fitted, 0, end, limit=200)[0]
    level = (1 - end) * float(near.curve.fitted(end))
    low, high = near.bounds
    assert seen - 0.02 < low <= seen + 1e-6
    assert seen + level - 1e-6 <= high < seen + level + 0.03
    assert low <= near.robustness.value <= high
    far = score().accuracy
    assert far.bounds[1] - far.bounds[0] < 0.03


# What has no curve


def test_moved_images_have_rates_and_no_curve():
    own = outcomes()
    found = score(own, geometric=True, why_no_curve=MOVED)
    for which, hits in ((found.accuracy, own.correct), (found.consistency, own.consistent)):
        assert which.curve is None and which.robustness is None and which.humans is None
        assert "move" in which.note
        assert which.rate.value == pytest.approx(hits.mean())
    assert {name: each.value for name, each in found.scores.items()} == {
        "error": pytest.approx(1 - own.correct.mean())
    }


def test_without_labels_there_is_consistency_alone():
    own = outcomes()
    bare = Predictions(**{**vars(own), "label": np.full(8000, -1), "correct": np.full(8000, np.nan),
                       "clean_correct": np.full(8000, np.nan)})  # fmt: skip
    for found in (score(bare, labeled=False), score(bare, labeled=True)):
        assert found.accuracy is None and set(found.properties) == {"p"}
        assert found.consistency.robustness.value == pytest.approx(TRUE_AREAS["p"], abs=0.015)


def test_images_without_a_label_count_for_consistency_only():
    own = outcomes()
    some = own.label.copy()
    some[own.image % 4 == 0] = -1
    part = Predictions(**{**vars(own), "label": some,
                       "correct": np.where(some == -1, np.nan, own.correct),
                       "clean_correct": np.where(some == -1, np.nan, own.clean_correct),
                       "blank_correct": np.where(some == -1, np.nan, own.blank_correct)},
    )  # fmt: skip
    found = score(part)
    assert found.accuracy.n_samples == 6000 and found.consistency.n_samples == 8000
    assert found.accuracy.rate.value == pytest.approx(own.correct[some != -1].mean())


def test_too_few_predictions_for_a_curve_are_said_and_the_rate_is_there():
    found = score(outcomes(count=30), Fit(min_per_bin=20, **QUICK))
    assert found.consistency.curve is None and "Fewer than" in found.consistency.note
    assert 0 <= found.consistency.rate.value <= 1


def test_predictions_without_a_visual_change_are_counted_and_left_out():
    own = outcomes()
    gaps = own.delta_v.copy()
    gaps[:100] = np.nan
    found = score(Predictions(**{**vars(own), "delta_v": gaps}))
    assert found.unmeasurable == 100
    assert found.consistency.curve.fitted.bins.counts.sum() == 7900
    rest = own.select(np.arange(8000) >= 100)
    assert found.consistency.robustness.value == pytest.approx(
        score(rest).consistency.robustness.value, abs=1e-9
    )


def test_errors_at_published_levels_are_counted_by_hand():
    own = outcomes(count=10, images=2)
    levels = np.tile([1.0, 2.0, 3.0, 4.0, 5.0], 2)
    correct = np.array([1, 1, 1, 0, 0, 1, 1, 0, 1, 0], dtype=float)
    found = score(Predictions(**{**vars(own), "severity": levels, "correct": correct}))
    assert found.error_by_severity == {"1": 0.0, "2": 0.0, "3": 0.5, "4": 0.5, "5": 1.0}
    assert score().error_by_severity == {}


# Means and their intervals


def of_images(image, resampled_images=None):
    """Outcomes of which only the pictures matter."""
    nothing = np.zeros(len(image))
    label = np.zeros(len(image), dtype=np.int64)
    return Predictions(
        nothing,
        nothing,
        image,
        label,
        *(nothing for _ in range(5)),
        resampled_images=resampled_images,
    )


@pytest.mark.slow
@pytest.mark.parametrize("dropped", [0.0, 0.02, 0.3])
def test_equal_models_are_rarely_called_different_when_corruptions_lack_other_images(dropped):
    """Nine corruptions, each without some pictures: resampling must still move pictures as one."""
    random, fit, everyone = np.random.default_rng(1), Fit(n_bootstrap=200), np.arange(300)
    called, held = [], []
    for _ in range(100):
        hard = random.random(300)
        skills = [random.normal(0, 0.25, 300) for _ in range(2)]
        means = []
        kept = [
            np.sort(random.choice(300, round(300 * (1 - dropped)), replace=False)) for _ in range(9)
        ]
        for skill in skills:
            own = []
            for places in kept:
                rates = np.clip(hard[places] + skill[places], 0, 1)
                hits = (random.random(len(places)) < rates).astype(float)
                own.append(estimate_mean(hits, of_images(places, everyone), fit))
            means.append(mean_estimate(own))
        called.append(paired_difference(*means).p_value < 0.05)
        low, high = means[0].interval95
        held.append(low <= 0.5 <= high)
    # 5 and 95 %, give or take three standard errors of 100 simulations
    assert np.mean(called) <= 0.12
    assert np.mean(held) >= 0.88


def test_the_interval_of_a_mean_is_that_of_resampled_images():
    """Equal groups: the mean of n group means has the standard error s / √n, and is normal."""
    random = np.random.default_rng(0)
    rates = random.uniform(0.2, 0.9, 200)
    hits = (random.uniform(size=(200, 30)) < rates[:, None]).astype(float)
    found = estimate_mean(
        hits.ravel(), of_images(np.repeat(np.arange(200), 30)), Fit(n_bootstrap=4000)
    )
    assert found.value == pytest.approx(hits.mean(), abs=1e-12)
    error = hits.mean(axis=1).std() / np.sqrt(200)
    for ends, quantile in ((found.interval95, 1.95996), (found.interval83, 1.37220)):
        expected = hits.mean() + np.array([-1, 1]) * quantile * error
        # Wilson's interval leans towards one half by z² / n of the way
        leaning = quantile**2 / 200 * abs(0.5 - hits.mean())
        np.testing.assert_allclose(ends, expected, atol=0.12 * error + leaning)


def test_five_images_that_are_all_right_do_not_make_a_sure_thing():
    """Wilson's interval of 5 of 5, from tables: 0.566 to 1."""
    found = estimate_mean(np.ones(20), of_images(np.repeat(np.arange(5), 4)), Fit(n_bootstrap=200))
    assert found.value == 1 and found.interval95[1] == 1
    assert found.interval95[0] == pytest.approx(0.5655, abs=1e-4)
    assert found.interval95[0] < found.interval83[0] < 1


def test_a_perfect_score_has_the_width_that_its_images_leave_it():
    """271 of 271: Wilson's lower end is n / (n + z²), with z = 1.95996 and 1.37220."""
    own = replace(outcomes(271 * 20, 271), label=np.zeros(271 * 20, dtype=np.int64))
    ones = np.ones(len(own))
    perfect = replace(own, correct=ones, consistent=ones, clean_correct=ones)
    found = score(perfect)
    shares = [found.error, found.clean_error]
    shares = [(1 - own.interval95[1], 1 - own.interval83[1]) for own in shares]
    for each in found.properties.values():
        for own in (each.rate, each.robustness):
            assert own.value == pytest.approx(1) and own.interval95[1] == pytest.approx(1)
            shares.append((own.interval95[0], own.interval83[0]))
    assert len(shares) == 6
    for wide, narrow in shares:
        assert wide == pytest.approx(271 / (271 + 1.95996**2), abs=1e-5)
        assert narrow == pytest.approx(271 / (271 + 1.37220**2), abs=1e-5)
    mean = mean_estimate([found.accuracy.rate, found.consistency.rate], 271)
    assert mean.interval95[0] == pytest.approx(0.98602, abs=1e-5)


@pytest.mark.parametrize("wrong", [1, 2, 30, 135, 270])
def test_one_prediction_to_each_image_has_at_least_wilsons_interval(wrong):
    """Wilson's ends are where the score test of the share rejects at just 5 %: p̂ − p = z s(p)."""
    hits = (np.arange(271) >= wrong).astype(float)
    low, high = estimate_mean(hits, of_images(np.arange(271)), Fit(n_bootstrap=300)).interval95
    for end, side in ((low, 1), (high, -1)):
        statistic = side * (hits.mean() - end) / np.sqrt(max(end * (1 - end), 1e-12) / 271)
        assert statistic >= 1.95996 - 1e-4


@pytest.mark.parametrize("count", [5, 12, 30])
def test_intervals_from_few_images_hold_the_truth_as_often_as_they_say(count):
    random = np.random.default_rng(count)
    image = np.repeat(np.arange(count), 6)
    held = []
    for _ in range(200):
        # pictures that are mostly right or mostly wrong, four of five the former
        rates = np.where(random.random(count) < 0.8, 0.95, 0.1)
        hits = (random.random((count, 6)) < rates[:, None]).astype(float).ravel()
        low, high = estimate_mean(hits, of_images(image), Fit(n_bootstrap=100)).interval95
        held.append(low <= 0.8 * 0.95 + 0.2 * 0.1 <= high)
    assert np.mean(held) >= 0.93


def test_images_with_more_predictions_weigh_more():
    hits = np.array([1.0] * 9 + [0.0])
    found = estimate_mean(hits, of_images(np.array([3] * 9 + [8])), Fit(n_bootstrap=2000))
    assert found.value == 0.9
    # half of the draws hold both pictures, a quarter each only the one or the other
    assert found.interval95 == (0.0, 1.0)


@pytest.mark.parametrize(
    ("space", "counts", "few"),
    [
        ("entry16", [5] * 8, False),
        ("entry16", [5] * 7 + [4] * 9, True),
        ("entry16", [100], True),
        ("entry16", [], True),
        ("native", [5] * 8, False),
        ("native", [5] * 7 + [4], True),
        ("native", [1] * 39, True),
        ("native", [1] * 40, False),
        ("native", [2] * 20, False),
        ("native", [2] * 19, True),
    ],
)
def test_under_eight_categories_of_five_images_are_too_few(space, counts, few):
    labels = np.repeat(np.arange(len(counts)), counts)
    labels = np.concatenate([labels, np.full(500, -1)])
    assert bool(insufficient_data(space, labels)) == few


@pytest.mark.parametrize(
    ("counts", "n_classes", "needed"),
    [
        ([20, 20], 2, ""),
        (
            [36, 4],
            2,
            "at least 40 images, and at least 5 images in each of 2 categories; have 40 in 2, 1 of"
            " them with at least 5",
        ),
        (
            [8, 8],
            3,
            "at least 40 images, and at least 5 images in each of 3 categories; have 16 in 2",
        ),
        ([50, 50], 1000, "at least 5 images in each of 8 categories; have 100 in 2"),
        ([1] * 39, 1000, "at least 40 images; have 39"),
    ],
)
def test_a_note_on_insufficient_data_says_what_is_needed_and_what_there_is(
    counts, n_classes, needed
):
    labels = np.repeat(np.arange(len(counts)), counts)
    note = f"insufficient data ({needed})" if needed else ""
    assert insufficient_data("native", labels, n_classes) == note


# What is refused


@pytest.mark.parametrize(
    ("fit", "word"),
    [
        ({"right_anchor": "nowhere"}, "right_anchor"),
        ({"right_anchor": 1.5}, "right_anchor"),
        ({"right_anchor": float("nan")}, "right_anchor"),
        ({"bins": 2}, "bins"),
        ({"min_per_bin": -1}, "min_per_bin"),
        ({"estimator": "splines"}, "estimator"),
        ({"binning": "papers"}, "binning"),
        ({"n_bootstrap": 0}, "n_bootstrap"),
    ],
)
def test_curves_that_cannot_be_drawn_are_rejected_before_the_work(fit, word):
    with pytest.raises(ec.UsageError, match=word):
        Fit(**fit).check()


# Next to people


@pytest.fixture(scope="module")
def reference():
    return find_reference("geirhos")


def compared_with_humans(reference, own=None):
    return score(own, reference=reference, why_no_reference="")


def test_areas_humans_and_model_satisfy_the_papers_identity(reference):
    """HMRI = O / A_h and MRSI = 1 − O / A_m, hence A_h = A_m (1 − MRSI) / HMRI."""
    found = compared_with_humans(reference).accuracy
    humans, area = found.humans, found.robustness.value
    identity = area * (1 - humans.mrsi.value) / humans.hmri.value
    assert identity == pytest.approx(humans.areas.human, abs=1e-9)
    assert humans.areas.human == pytest.approx(humans.line.fitted.area, abs=1e-9)


def overlap(one, two, low=0.0, high=1.0):
    steps = np.linspace(low, high, 20_001)
    return float(np.trapezoid(np.minimum(one(steps), two(steps)), steps))


def test_hmri_and_mrsi_are_those_of_a_plain_integration(reference):
    own = compared_with_humans(reference).accuracy
    shared = overlap(own.humans.line.fitted, own.curve.fitted)
    human = own.humans.line.fitted.area
    assert own.humans.hmri.value == pytest.approx(shared / human, abs=1e-4)
    assert own.humans.mrsi.value == pytest.approx(1 - shared / own.robustness.value, abs=1e-4)
    for estimate in (own.humans.hmri, own.humans.mrsi):
        assert estimate.interval95[0] <= estimate.interval83[0] + 1e-12
        assert estimate.interval83[1] <= estimate.interval95[1] + 1e-12


@pytest.mark.parametrize("reach", [0.5, 0.7, 1.0])
def test_hmri_lies_within_its_bounds(reference, reach):
    humans = compared_with_humans(reference, outcomes(reach=reach)).accuracy.humans
    low, high = humans.hmri_bounds
    assert low - 1e-3 <= humans.hmri.value <= high + 1e-3


def test_a_model_that_was_seen_only_where_humans_were_not_is_still_scored(reference):
    """People's answers to noise begin at a Δv of about 0.4; mild pictures alone are no error."""
    found = compared_with_humans(reference, outcomes(reach=0.2)).accuracy
    assert found.robustness is not None
    assert found.humans is not None or found.human_note


def test_the_bounds_of_hmri_are_a_curve_that_drops_and_one_that_stays(reference):
    own = compared_with_humans(reference, outcomes(reach=0.5)).accuracy
    human, curve = own.humans.line.fitted, own.curve.fitted
    edge = own.observed[-1][1]
    seen = overlap(human, curve, 0, edge)
    level = overlap(human, lambda v: np.full_like(v, float(curve(edge))), edge, 1)
    low, high = own.humans.hmri_bounds
    assert low == pytest.approx(seen / human.area, abs=2e-3)
    assert high == pytest.approx((seen + level) / human.area, abs=2e-3)


def test_a_corruption_that_humans_never_met_says_so(reference):
    known = {"geometric": False, "classes": 16, "labeled": True, "reference": reference,
             "why_no_reference": ""}  # fmt: skip
    found = score_corruption("mine/wavy_lines", outcomes(), Fit(**QUICK), **known)
    assert found.accuracy.humans is None and "no human reference" in found.accuracy.human_note
    assert found.accuracy.robustness is not None


# A whole evaluation


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    """A thousand classes: 2 cats, 2 dogs, and 2 fish, which are outside people's categories."""
    home = tmp_path_factory.mktemp("classes")
    save_images(home, each=2, tints=("blue", "green", "red"))
    for tint, place in (("blue", 281), ("green", 207), ("red", 0)):
        (home / tint).rename(home / wordnet_ids()[place])
    return ec.evaluate(
        small_models.thousand, home, n=60, corruptions=["gaussian_noise", "brightness"],
        stimulus="native", bins=9, min_per_bin=3, n_bootstrap=30,
    )  # fmt: skip


def test_an_evaluation_has_both_label_spaces_and_says_who_is_left_out(evaluation):
    (model,) = evaluation.models
    assert list(model.spaces) == ["native", "entry16"]
    native, entry16 = model.spaces.values()
    assert (native.n_images, native.classes, native.left_out) == (6, 3, 0)
    assert (entry16.n_images, entry16.classes) == (4, 2)
    assert entry16.left_out == 2 and "insufficient data" in entry16.verdict
    assert model.classes == 1000 and len(CATEGORIES) == 16
    # classes are drawn equally: 20 rows for the fish, 40 for cats and dogs
    for corruption in entry16.corruptions.values():
        assert corruption.consistency.n_samples == 40
    for corruption in native.corruptions.values():
        assert corruption.consistency.n_samples == 60


def test_the_identity_holds_in_an_evaluation(evaluation):
    checked = 0
    for score in evaluation.models[0].space("entry16").corruptions.values():
        for own in score.properties.values():
            if own.humans is None or not own.humans.hmri.value:
                continue
            area = own.robustness.value * (1 - own.humans.mrsi.value) / own.humans.hmri.value
            assert area == pytest.approx(own.humans.areas.human, abs=1e-9)
            checked += 1
    assert checked


def test_means_are_over_the_corruptions(evaluation):
    space = evaluation.models[0].space("native")
    areas = [score.consistency.robustness.value for score in space.corruptions.values()]
    assert len(areas) == 2
    assert space.means["r_p"].value == pytest.approx(sum(areas) / 2, abs=1e-12)
    # both corruptions see the same resampled pictures, so the mean's replicates are their mean
    each = [score.consistency.robustness.replicates for score in space.corruptions.values()]
    assert space.means["r_p"].replicates == pytest.approx((each[0] + each[1]) / 2)


def test_two_models_are_compared_on_the_same_predictions(tmp_path):
    home = save_images(tmp_path, each=10)
    found = ec.evaluate(
        [small_models.pale_colors, small_models.Blocks(4)], home, n=40,
        corruptions=["color_jitter"], stimulus="native", bins=9, min_per_bin=3, n_bootstrap=20,
    )  # fmt: skip
    assert {paired.property for paired in found.paired} == {"a", "p"}
    one, two = (model["vcr/color_jitter"].properties for model in found.models)
    for paired in found.paired:
        areas = [own[paired.property].robustness.value for own in (one, two)]
        assert paired.difference.area_difference == pytest.approx(areas[0] - areas[1], abs=1e-9)
        assert (paired.first, paired.second) == ("Colors", "Blocks")


def test_by_top1_the_measured_end_of_consistency_is_not_its_start(tmp_path):
    """Many answers have no category; were they left out of the end, it would be put at 1."""
    save_images(tmp_path, each=2, tints=("blue", "green"))
    (tmp_path / "blue").rename(tmp_path / wordnet_ids()[281])
    (tmp_path / "green").rename(tmp_path / wordnet_ids()[207])
    found = ec.evaluate(
        small_models.thousand, tmp_path, n=40, corruptions=["gaussian_noise"], rule="top1",
        stimulus="native", bins=9, min_per_bin=3, n_bootstrap=20, labels="entry16",
        right_anchor="measured", sampling="parameters",
    )  # fmt: skip
    (score,) = found.models[0].space("entry16").corruptions.values()
    assert score.consistency.rate.value < 0.95
    assert score.consistency.robustness.value < 0.99


def test_what_cannot_be_evaluated_is_rejected(tmp_path):
    home = save_images(tmp_path, each=1)
    options = {"stimulus": "native", "n": 40, "corruptions": ["brightness"]}
    for model, more, word in (
        (small_models.colors, {"n": 39, "estimator": "spline"}, "too small for curves"),
        (small_models.colors, {"labels": "entry16"}, "No image belongs to the 16"),
        (small_models.colors, {"smoothness": 3}, "Unknown argument"),
        (small_models.colors, {"humans": "nobody"}, "nobody"),
        (small_models.colors, {"rule": "best"}, "Unknown rule"),
        ([], {}, "at least one model"),
        ([small_models.colors, small_models.colors], {}, "given twice"),
        (small_models.Blocks(3), {}, "4 images have labels unknown to a model with 3 classes"),
        (small_models.colors, {"batch_size": 0}, "batch_size must be"),
    ):
        with pytest.raises(ec.UsageError, match=word):
            ec.evaluate(model, home, **{**options, **more})


def test_corruptions_that_were_seen_in_different_ranges_are_not_compared_and_no_error(reference):
    """Two kinds of noise that people meet alike, one mild and one strong on these pictures."""
    from eyechart.humans.transfer import published_classes
    from eyechart.pipeline.scoring.comparisons import similar_corruptions

    scores = {}
    for name, low, high in (("vcr/gaussian_noise", 0.45, 0.6), ("vcr/shot_noise", 0.8, 0.95)):
        own = outcomes()
        moved = Predictions(**{**vars(own), "delta_v": low + (high - low) * own.delta_v})
        known = {"geometric": False, "classes": 16, "labeled": True, "reference": reference,
                 "why_no_reference": ""}  # fmt: skip
        scores[name] = score_corruption(name, moved, Fit(**QUICK), **known)
    assert all(score.accuracy.humans is not None for score in scores.values())
    list(similar_corruptions(scores, published_classes()))


def test_every_category_counts_as_much_where_images_were_not_drawn_so():
    """900 answers to dogs that are all right, 100 to cats that are all wrong."""
    random = np.random.default_rng(0)
    label = np.r_[np.zeros(900, dtype=np.int64), np.ones(100, dtype=np.int64)]
    right, ones = 1.0 - label, np.ones(1000)
    own = Predictions(
        random.random(1000), np.full(1000, np.nan), np.arange(1000), label, right, ones, right,
        ones * 0, ones * 0,
    )  # fmt: skip
    options = dict(geometric=False, classes=16, labeled=True, reference=None, why_no_reference="")
    fit = Fit(bins=11, min_per_bin=5, n_bootstrap=20)
    plain = score_corruption("x", own, fit, **options)
    weighted = replace(own, weights=class_weights(label))
    even = score_corruption("x", weighted, fit, **options)
    assert plain.accuracy.robustness.value == pytest.approx(0.9, abs=0.02)
    assert even.accuracy.robustness.value == pytest.approx(0.5, abs=0.03)
    assert even.accuracy.rate.value == pytest.approx(0.5)
    assert even.accuracy.curve.fitted.left == pytest.approx(0.5)


def test_humans_of_two_choices_are_left_aside_rejected_or_corrected(tmp_path):
    (tmp_path / "counts.csv").write_text(
        "IQA,Accuracy,Count,Num_Accs\n0.1,1,40,40\n0.8,0.5,40,20\n"
    )
    told = {"corruption": "gaussian_noise", "choices": 2}
    predictions = import_responses([tmp_path / "counts.csv"], "counts", **told)
    write_responses(tmp_path / "two.parquet", predictions)
    humans = str(tmp_path / "two.parquet")
    assert find_humans(EvaluateSettings(humans=humans)) == (
        None,
        "humans had 2 choices, not 16",
    )
    with pytest.raises(ec.UsageError, match="--chance-correct"):
        find_humans(EvaluateSettings(labels="entry16", humans=humans))
    with pytest.raises(ec.UsageError, match="humans had 2 choices, not 16"):
        find_humans(EvaluateSettings(humans=("geirhos", humans)))
    both, _ = find_humans(EvaluateSettings(humans=humans, chance_correct=True))
    (found,) = both.parts
    assert found.corrected and "corrected for chance" in found.describe("gaussian_noise")


@pytest.mark.parametrize("write", [ec.draw_curves, ec.write_results])
def test_files_are_written_into_a_folder_that_is_made_or_one_sentence(evaluation, write, tmp_path):
    paths = write(evaluation, tmp_path / "missing" / "folder")
    assert paths and all(path.stat().st_size for path in paths)
    assert {path.parent for path in paths} == {tmp_path / "missing" / "folder"}
    (tmp_path / "file").write_text("kept")
    for out, words in (
        (tmp_path / "file", "is a file"),
        (tmp_path / "file" / "below", "Cannot write|must be"),
        (5, "path of a folder, got 5"),
        ("a\0b", "path of a folder"),
        (None, "path of a folder, got None"),
    ):
        with pytest.raises(ec.UsageError, match=words) as error:
            write(evaluation, out)
        assert ".tmp" not in str(error.value) and str(error.value).endswith(".")
    with pytest.raises(ec.UsageError, match="the result of evaluate, got str"):
        write("results", tmp_path)
    assert (tmp_path / "file").read_text() == "kept"
