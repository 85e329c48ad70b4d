"""Humans are fitted as models are: every option of curves holds for both sides of a comparison."""

import json
from itertools import product

import numpy as np
import pytest

import eyechart as ec
from eyechart.humans.human_responses import CLEAN, HumanResponses, make_responses
from eyechart.humans.reference import Reference, find_reference
from eyechart.pipeline.human_references import experiments_of
from eyechart.pipeline.scoring.baseline import human_error
from eyechart.pipeline.scoring.corruption_scores import CorruptionScorer
from eyechart.predictions.reading import Predictions
from eyechart.scores.scoring import Fit
from eyechart.stats.density import Density
from result_records import space_results

CHANCE = 1 / 16
COUNT, IMAGES = 2000, 200
ENDS = {"none": None, "chance": CHANCE, "measured": CHANCE, 0.04: 0.04}
"""Where human curves end by each right anchor; humans saw no destroyed images."""

DENSITIES = (None, [0, 1, 1], Density.beta(2, 5))
BINNINGS = (("paper", 40, 20), ("equal", 12, 5), ("paper", 25, 30))
GRID = [
    {"estimator": method, "right_anchor": end, "density": DENSITIES[(place + place // 4) % 3],
     **dict(zip(("binning", "bins", "min_per_bin"), BINNINGS[place % 3], strict=True)),
     "n_bootstrap": 3, "seed": place}
    for place, (method, end) in enumerate(product(("spline", "cobs", "isotonic"), ENDS))
]  # fmt: skip
"""Every method with every right anchor; binnings and densities take turns."""


def name_of(options) -> str:
    return "-".join(str(options[key]) for key in ("estimator", "right_anchor", "binning", "bins"))


def humans_like(own: Predictions, corruption: str = "frost") -> HumanResponses:
    """Humans whose responses are a model's predictions, clean images included."""
    names = np.char.add("p", own.image.astype(str))
    clean_names, first = np.unique(names, return_index=True)
    clean_right = own.clean_correct[first]
    common = {"source": "same", "choices": 16, "label_space": "entry16"}
    return make_responses(
        len(own) + len(first),
        **common,
        corruption=np.r_[np.full(len(own), corruption), np.full(len(first), CLEAN)],
        image=np.r_[names, clean_names],
        correct=np.r_[own.correct, clean_right],
        consistent=np.r_[own.consistent, clean_right],
        delta_v=np.r_[own.delta_v, np.zeros(len(first))],
    )


def predictions(power: float = 1.5, seed: int = 0, lost: float = 0.02) -> Predictions:
    random = np.random.default_rng(seed)
    change = random.uniform(0, 1, COUNT)
    image = np.arange(COUNT) % IMAGES
    clean = (np.arange(IMAGES) < 0.9 * IMAGES).astype(float)
    return Predictions(
        delta_v=change,
        severity=np.full(COUNT, np.nan),
        image=image,
        label=image % 16,
        correct=(random.uniform(size=COUNT) < 0.9 * (1 - change) ** power).astype(float),
        consistent=(random.uniform(size=COUNT) < 1 - 0.9 * change**power).astype(float),
        clean_correct=clean[image],
        blank_correct=np.full(COUNT, lost),
        blank_consistent=np.full(COUNT, lost),
    )


def score(own: Predictions, reference: Reference, fit: Fit, corruption: str = "frost"):
    scorer = CorruptionScorer(
        corruption=corruption, fit=fit, geometric=False, classes=16, labeled=True,
        reference=reference, why_no_reference="", why_no_curve="",
    )  # fmt: skip
    return scorer.score(own)


def written(scores) -> dict:
    """Return what results.json holds of these scores in humans' label space."""
    return json.loads(space_results(scores).model_dump_json())["corruptions"]


@pytest.fixture(scope="module")
def crossing():
    """Humans who start like the model, and are ahead of it for small Δv and behind for large."""
    humans = predictions(power=2.5, seed=1)
    early = humans.delta_v < 0.35
    better = np.where(early, (np.arange(COUNT) % 10 < 9).astype(float), humans.correct)
    changed = Predictions(**{**vars(humans), "correct": better})
    return Reference("crossing", humans_like(changed))


@pytest.mark.parametrize("options", GRID, ids=name_of)
def test_a_human_who_responds_as_a_model_predicts_has_its_curve(options):
    own, fit = predictions(lost=CHANCE), Fit(**options)
    found = score(own, Reference("same", humans_like(own)), fit).accuracy
    assert found.humans.areas.human == pytest.approx(found.robustness.value, abs=1e-9)
    assert found.humans.hmri.value == pytest.approx(1, abs=1e-6)
    assert found.humans.mrsi.value == pytest.approx(0, abs=1e-6)
    assert found.humans.line.fitted.bins.edges.tolist() == list(found.curve.bin_edges)


def test_with_any_option_the_areas_belong_together_and_curves_end_as_the_anchor_says(crossing):
    """A^h = R (1 − MRSI) / HMRI, by the definitions of the three."""
    own, crossed = predictions(), 0
    for options in GRID:
        saved = written({"frost": score(own, crossing, Fit(**options))})["frost"]
        for which in ("accuracy", "consistency"):
            humans, r = saved[which]["humans"], saved[which]["robustness"]["value"]
            hmri, mrsi = humans["hmri"]["value"], humans["mrsi"]["value"]
            assert humans["areas"]["human"] == pytest.approx(r * (1 - mrsi) / hmri, abs=1e-9)
            crossed += 0 < mrsi < 1 and 0 < hmri < 1
            end = ENDS[options["right_anchor"]]
            if end is not None:
                assert humans["line"]["values"][-1] == pytest.approx(end, abs=2e-6)
                assert humans["human_right_anchor"] == end
                model_end = 0.02 if options["right_anchor"] == "measured" else end
                assert saved[which]["curve"]["values"][-1] == pytest.approx(model_end, abs=2e-6)
    assert crossed > len(GRID) / 2


@pytest.mark.parametrize("end", ["chance", 0.1])
def test_with_fewer_choices_both_curves_end_alike_once_corrected(end):
    own = predictions()
    two = Reference("two", humans_like(own)).responses
    two = HumanResponses(**{**vars(two), "choices": 2, "correct": 0.5 + 0.5 * two.correct})
    reference = Reference("two", two).for_choices(16, chance_correct=True)
    humans = score(own, reference, Fit(right_anchor=end, n_bootstrap=3)).accuracy.humans
    ends = [float(curve(1.0)) for curve in (humans.line.fitted, humans.model_line.fitted)]
    assert ends == pytest.approx([0, 0] if end == "chance" else [0.04, 0.04], abs=2e-6)


def test_the_packaged_humans_follow_the_options():
    """Their area was the same whatever was asked for: 0.713 for noise."""
    reference = find_reference("geirhos")
    changed = (
        {}, {"estimator": "spline"}, {"right_anchor": "chance"}, {"binning": "equal"}, {"bins": 12},
        {"density": [1, 0]}, {"right_anchor": 0.3},
    )  # fmt: skip
    own, name = predictions(), "vcr/gaussian_noise"
    areas = [
        score(own, reference, Fit(n_bootstrap=2, **each), name).accuracy.humans.areas.human
        for each in changed
    ]
    assert len({round(area, 6) for area in areas}) == len(changed)
    assert areas[1] == pytest.approx(0.713287, abs=1e-6)


def few(count: int) -> Reference:
    responses = humans_like(predictions())
    kept = (responses.corruption == CLEAN) | (np.arange(len(responses)) < count)
    return Reference("few", responses.only(kept))


def test_few_responses_have_fewer_bins_unless_a_number_is_asked_for():
    own, reference = predictions(), few(300)
    found = score(own, reference, Fit(estimator="spline", n_bootstrap=3)).accuracy
    assert found.humans.human_bins == 300 // 30 - 1
    assert len(found.curve.bin_counts) == 39
    exact = score(own, reference, Fit(bins=8, estimator="spline", n_bootstrap=3)).accuracy
    assert exact.humans.human_bins == len(exact.curve.bin_counts) == 7
    none = score(own, reference, Fit(bins=40, estimator="spline", n_bootstrap=3)).accuracy
    assert none.humans is None and none.curve is not None
    assert "no human curve: few, frost: Fewer than 2 bins have 20" in none.human_note


def test_errors_divided_by_humans_and_the_shown_curves_are_of_the_same_fit(crossing):
    own = predictions()
    for options in (
        {"estimator": "isotonic", "right_anchor": "chance"},
        {"binning": "equal", "bins": 9},
    ):
        fit = Fit(n_bootstrap=3, **options)
        used = score(own, crossing, fit).accuracy.humans.line
        (shown,) = experiments_of(crossing, fit)
        assert shown.accuracy.line is used
        expected = 1 - used.fitted(own.delta_v).mean()
        assert human_error(crossing, "frost", own, fit).error.value == pytest.approx(expected)


def test_what_humans_cannot_be_anchored_at_is_rejected(crossing):
    for wrong in ("middle", 1.5):
        with pytest.raises(ec.UsageError, match="right_anchor must be"):
            crossing.curve("frost", right_anchor=wrong)
