"""A model next to people under several corruptions: p-values hold for all of them together."""

import numpy as np
import pytest

from changing import replace
from eyechart.pipeline.scoring.corruption_scores import CorruptionScorer, correct_for_number
from eyechart.results.model_results import CorruptionResults
from eyechart.scores.human_relative import scenario
from eyechart.scores.scoring import Fit
from eyechart.stats.curve import fit_curve


def curve(fall, seed, predictions=600):
    """A curve fitted to answers whose true rate falls from 0.95 by `fall` at Δv = 1."""
    random = np.random.default_rng(seed)
    change = random.uniform(size=predictions)
    hits = (random.uniform(size=predictions) < 0.95 - fall * change).astype(float)
    return fit_curve(change, hits, bins=14, n_bootstrap=200, seed=seed)


def test_the_p_value_is_below_the_level_exactly_where_the_verdict_says_so():
    found = [
        scenario(curve(0.5, 2 * seed), curve(0.4 + 0.05 * seed, 2 * seed + 1)) for seed in range(12)
    ]
    # within 0.011 of the level a share of 200 replicates is next to a quantile between two of them
    clear = [own for own in found if min(abs(p - 0.05) for p in (own.p_human, own.p_model)) > 0.011]
    leaders = [{lead.who for lead in own.leads} for own in clear]
    sides = [{"humans": own.p_human < 0.05, "model": own.p_model < 0.05} for own in clear]
    assert leaders == [{side for side, is_ahead in each.items() if is_ahead} for each in sides]
    assert len(clear) >= 8 and {"humans"} in leaders and set() in leaders


def test_equal_curves_are_rarely_told_apart():
    found = [scenario(curve(0.5, 2 * seed + 100), curve(0.5, 2 * seed + 101)) for seed in range(60)]
    wrong = sum(min(each.p_human, each.p_model) < 0.05 for each in found)
    assert wrong <= 8  # of 60 with a chance of 1 in 20 each: more than 8 in 1 of 500 cases


@pytest.fixture
def scores(monkeypatch):
    """Three corruptions next to people, with these p-values."""
    from eyechart.humans.reference import find_reference
    from known_outcomes import outcomes

    scorer = CorruptionScorer(
        corruption="vcr/gaussian_noise", fit=Fit(n_bootstrap=20), geometric=False, classes=16,
        labeled=True, reference=find_reference("geirhos"), why_no_reference="", why_no_curve="",
    )  # fmt: skip
    own = scorer.score(outcomes(count=1500, images=100))
    assert own.accuracy is not None and own.accuracy.humans is not None

    def with_p(humans: float, model: float) -> CorruptionResults:
        near = replace(own.accuracy.humans, p_humans=humans, p_model=model)
        return replace(own, accuracy=replace(own.accuracy, humans=near))

    return [with_p(0.01, 0.9), with_p(0.04, 0.02), with_p(0.03, 0.5)]


def test_p_values_are_corrected_by_holms_method(scores):
    found = [own.accuracy.humans for own in correct_for_number(scores)]
    assert [each.p_humans for each in found] == pytest.approx([0.03, 0.06, 0.06])
    assert [each.p_model for each in found] == pytest.approx([1, 0.06, 1])


def test_corruptions_without_humans_do_not_count(scores):
    alone = replace(scores[1], accuracy=replace(scores[1].accuracy, humans=None))
    found = correct_for_number([scores[0], alone, replace(alone, accuracy=None)])
    assert found[0].accuracy.humans.p_humans == pytest.approx(0.01)
    assert found[1].accuracy.humans is None and found[2].accuracy is None
