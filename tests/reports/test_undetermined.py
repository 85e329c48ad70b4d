"""Scores whose intervals are undetermined: every text says so."""

import numpy as np

from eyechart.reports.number_text import bracketed_text
from eyechart.reports.terminal.study_tables import percent_range
from eyechart.scores.registry import SCORES
from eyechart.stats.estimate import Estimate, make_estimate


def test_what_is_undetermined_says_so_in_every_text():
    unsure = make_estimate(1.667, np.r_[np.full(30, np.nan), np.full(70, 1.7)])
    assert np.isnan(unsure.interval95).all() and np.isnan(unsure.interval83).all()
    assert bracketed_text(unsure, SCORES["relative_mce"]) == "166.7 (undetermined)"
    saved = Estimate(value=1.667, interval95=(None, None), interval83=(None, None))
    assert bracketed_text(saved, SCORES["relative_mce"], is_short=False) == "166.7 (undetermined)"
    assert percent_range(unsure.interval95) == "undetermined"
    sure = make_estimate(1.667, np.full(70, 1.7))
    assert bracketed_text(sure, SCORES["relative_mce"]) == "166.7 (170–170)"


def test_a_score_that_is_undetermined_itself_is_a_dash():
    nothing = Estimate(value=None, interval95=(None, None), interval83=(None, None))
    assert bracketed_text(nothing, SCORES["hmri_a"]) == "– (undetermined)"
