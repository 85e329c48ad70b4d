"""How a session that has ended is classified for payment."""

from eyechart_experiment.recruiters.recruiter import Outcome
from eyechart_experiment.storage.database_tables import FAILED
from eyechart_experiment.study_config import StudyConfig

MIN_SHARE = 0.5
"""Minimum fraction of the planned main trials of a finished session."""


def outcome_of(state: str, n_main: int, config: StudyConfig) -> Outcome:
    """Return the outcome of a session that has ended.

    Args:
        state: The session's state, `FAILED` or `FINISHED`.
        n_main: Number of responses in the main part, including catch trials.
        config: Settings of the study.

    Returns:
        "screened-out" if the study ran out of stimuli before the participant had done half of the
        planned trials.
    """
    if state == FAILED:
        return "failed"
    is_short = n_main < MIN_SHARE * (config.trials + config.catch)
    return "screened-out" if is_short else "finished"
