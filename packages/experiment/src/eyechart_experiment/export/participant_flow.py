"""The flow of participants through a study, as journals ask for it."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from eyechart.humans.human_responses import FlowStep
from eyechart_experiment.quality.judging import JudgedSession, has_ended
from eyechart_experiment.storage.database_tables import FAILED, FINISHED
from eyechart_experiment.study_config import StudyConfig

FLOW_HEAD = ("step", "rule", "participants")
ARRIVED, CONSENTED, QUALIFIED = "opened the page", "consented", "qualified"
DONE, PRESENT, EXCLUDED = "finished", "still taking part", "excluded"
EMPTY, COUNTED = "no main response that counts", "counted"


def participant_flow(
    judged: Sequence[JudgedSession], config: StudyConfig, visits: int | None, now: datetime
) -> tuple[FlowStep, ...]:
    """Return how many participants reached each step of a study.

    Whoever consented is still taking part, excluded, without a response that counts, or counted.
    A session that violates several rules is listed under the first.

    Args:
        judged: All sessions of the study, with their verdicts.
        config: The study's settings.
        visits: How often the page was opened, including reloads; None if unknown.
        now: The current time.
    """
    ends = Counter(_end(session, config, now) for session in judged)
    rules = [rule for step, rule in ends if step == EXCLUDED]
    qualified = sum(_has_qualified(session, config) for session in judged)
    finished = sum(session.record.state == FINISHED for session in judged)
    return (
        FlowStep(ARRIVED, "", visits),
        FlowStep(CONSENTED, "", len(judged)),
        FlowStep(QUALIFIED, "", qualified),
        FlowStep(DONE, "", finished),
        FlowStep(PRESENT, "", ends[PRESENT, ""]),
        *(FlowStep(EXCLUDED, rule, ends[EXCLUDED, rule]) for rule in sorted(rules)),
        FlowStep(EMPTY, "", ends[EMPTY, ""]),
        FlowStep(COUNTED, "", ends[COUNTED, ""]),
    )


def flow_text(flow: Sequence[FlowStep]) -> str:
    """Return the flow of participants as aligned lines of text."""
    rows = [
        (
            f"{step.step}: {step.rule}" if step.rule else step.step,
            "not recorded" if step.count is None else f"{step.count:,}",
        )
        for step in flow
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {count:>7}" for name, count in rows]
    return "\n".join(["Flow of participants", *lines]) + "\n"


def _end(session: JudgedSession, config: StudyConfig, now: datetime) -> tuple[str, str]:
    """Return the step at which a session ends, and the rule that excludes it."""
    record, verdict = session.record, session.verdict
    # Checked first, because the verdict on a session in progress may still change.
    if not has_ended(record, config, now):
        return PRESENT, ""
    if not verdict.counts:
        return EXCLUDED, verdict.broken[0][0]
    has_any = any(response.number not in verdict.invalid_reasons for response in record.of("main"))
    return (COUNTED if has_any else EMPTY), ""


def _has_qualified(session: JudgedSession, config: StudyConfig) -> bool:
    record = session.record
    is_complete = len(record.of("qualification")) >= config.qualification
    # Participants who saw the qualification's images in another study get fewer of its trials.
    return record.state != FAILED and (is_complete or bool(record.of("main")))
