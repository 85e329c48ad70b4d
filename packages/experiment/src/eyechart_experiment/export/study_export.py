"""Write a study's responses: human records, a table of all trials, and the rules applied."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from sqlalchemy import select

from eyechart.core.errors import UsageError
from eyechart.core.storage.files import remove_leftovers, write_text
from eyechart.humans.human_responses import FlowStep, write_responses
from eyechart.humans.reference import RESPONSES
from eyechart_experiment.export.export_tables import (
    DROPPED_HEAD,
    EXCLUSIONS_HEAD,
    JUDGEMENTS_HEAD,
    MODEL_VS_HUMAN_HEAD,
    SESSIONS_HEAD,
    TRIALS_HEAD,
    CountedResponse,
    clean_of_others,
    counted,
    dropped_responses,
    dropped_rows,
    exclusion_rows,
    human_records,
    image_head,
    judgement_rows,
    model_vs_human_rows,
    session_rows,
    trial_rows,
    write_csv,
)
from eyechart_experiment.export.preregistration import read_hash
from eyechart_experiment.quality.judging import (
    JudgedSession,
    has_ended,
    judge_all,
    stored_config,
    write_exclusions,
)
from eyechart_experiment.quality.rules import rules_text
from eyechart_experiment.storage.database_tables import FAILED, FINISHED, ROBOT, StudyRow
from eyechart_experiment.storage.experiment_folder import StudyFolder, connect_study
from eyechart_experiment.study_config import StudyConfig, config_text, read_config

JUDGEMENTS, TRIALS, STUDY = "judgements.csv", "trials.csv", "study.yaml"
EXCLUSIONS, RULES, MODEL_VS_HUMAN = "exclusions.csv", "rules.txt", "model-vs-human"
DROPPED, SESSIONS = "dropped.csv", "sessions.csv"
FLOW, FLOW_TEXT = "flow.csv", "flow.txt"
FILES = {
    RESPONSES, JUDGEMENTS, TRIALS, EXCLUSIONS, RULES, STUDY, MODEL_VS_HUMAN, DROPPED, SESSIONS,
    FLOW, FLOW_TEXT,
}  # fmt: skip
ROBOTS_NOTE = "All participants are simulated (robots): these responses are not human data.\n"
SUBJECT_FILE = re.compile(r"[A-Za-z0-9_-]+_session_1\.csv")
LEFTOVER = re.compile(r"\..+\.\d+\.tmp")

FLOW_HEAD = ("step", "rule", "participants")
ARRIVED, CONSENTED, QUALIFIED = "opened the page", "consented", "qualified"
DONE, PRESENT, EXCLUDED = "finished", "still taking part", "excluded"
EMPTY, COUNTED = "no main response that counts", "counted"


@dataclass(frozen=True, eq=False)
class StudyExport:
    """What was exported of a study.

    Attributes:
        out: The folder.
        kept: The main responses that count.
        n_reused: Number of responses to clean images that come from other studies.
        n_responses: Number of main responses.
        n_excluded: Number of excluded sessions; those in progress may still satisfy the rules.
        n_left_out: Number of single responses that do not count, in sessions that do.
        flow: The flow of participants.
        simulated: Whether the participants are robots.
        preregistration: The hash of the study's pre-registration, if it has one.
    """

    out: Path
    kept: Sequence[CountedResponse]
    n_reused: int
    n_responses: int
    n_excluded: int
    n_left_out: int
    flow: tuple[FlowStep, ...]
    simulated: bool
    preregistration: str | None

    @property
    def n_participants(self) -> int:
        """Number of participants with responses that count."""
        return len({item.subject for item in self.kept})


def export(
    folder: StudyFolder, out: Path | None = None, include_excluded: bool = False
) -> StudyExport:
    """Write a study's responses into a folder, by default inside the study's folder.

    An earlier export is replaced; a folder with other files is rejected.
    """
    config = folder.config
    target = folder.path / "export" if out is None else out
    check_target(target, config)
    preregistration = read_hash(folder)
    elsewhere: list[JudgedSession] = []
    with connect_study(folder) as study:
        # One consistent snapshot of the database; a transaction of SQLite is one in any case.
        with study.database.reading() as db:
            if not study.database.is_sqlite:
                db.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            judged = judge_all(db, study.id, config)
            visits = db.get_one(StudyRow, study.id).visits
            for other in db.scalars(select(StudyRow).where(StudyRow.id != study.id)).all():
                other_config = stored_config(other)
                if other_config.kind == config.kind == "categorise":
                    elsewhere += judge_all(db, other.id, other_config)
        write_exclusions(study, judged)
    if not any(session.record.responses for session in judged):
        raise UsageError(f"The study {config.name} has no responses yet: nothing was written.")
    kept = counted(judged, include_excluded)
    reused = clean_of_others(kept, elsewhere)
    flow = participant_flow(judged, config, visits, datetime.now(UTC))
    n_main = {session.record.id: len(session.record.of("main")) for session in judged}
    included = [one.record.id for one in judged if one.counts or include_excluded]
    done = StudyExport(
        out=target,
        kept=kept,
        n_reused=len(reused),
        n_responses=sum(n_main.values()),
        n_excluded=sum(step.count for step in flow if step.step == EXCLUDED),
        n_left_out=sum(n_main[session_id] for session_id in included) - len(kept),
        flow=flow,
        simulated=any(session.record.platform == ROBOT for session in judged),
        preregistration=preregistration,
    )
    _write(done, config, judged, reused, include_excluded)
    return done


def check_target(out: Path, config: StudyConfig) -> None:
    """Raise `UsageError` if a folder contains anything but an export of the same study."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"Cannot write into {out}: it is a file, not a folder.")
    if not out.exists():
        if not out.parent.is_dir():
            raise UsageError(f"No such folder: {out.parent}.")
        return
    remove_leftovers([out, out / MODEL_VS_HUMAN])
    present = [path for path in out.iterdir() if not LEFTOVER.fullmatch(path.name)]
    strange = sorted(path.name for path in present if path.name not in FILES)
    inner = out / MODEL_VS_HUMAN
    if inner.is_dir():
        strange += [p.name for p in inner.iterdir() if not SUBJECT_FILE.fullmatch(p.name)]
    if strange or (present and not (out / STUDY).is_file()):
        name = strange[0] if strange else present[0].name
        raise UsageError(f"{out} contains other files ({name}): pass an empty folder as --out.")
    if present and (name := read_config(out / STUDY).name) != config.name:
        raise UsageError(f"{out} contains an export of the study {name}: pass another --out.")


def _write(
    content: StudyExport,
    config: StudyConfig,
    judged: Sequence[JudgedSession],
    reused: Sequence[CountedResponse],
    include_excluded: bool,
) -> None:
    out = content.out
    out.mkdir(exist_ok=True)
    # Completion codes decide who is paid, so exports leave them empty.
    public = replace(config, site_settings=dict.fromkeys(config.recruiter_settings, ""))
    robots = ROBOTS_NOTE if content.simulated else ""
    comment = f"# {robots}" if robots else ""
    rules = f"{robots}{rules_text()}"
    if include_excluded:
        rules += "Responses of sessions that violate a rule are included.\n"
    if content.preregistration is not None:
        rules += f"Pre-registration: SHA-256 {content.preregistration}\n"
    for name, text in (
        # First, because `check_target` recognizes an interrupted export by this file.
        (STUDY, f"{comment}{config_text(public)}"),
        (RULES, rules),
        (FLOW_TEXT, f"{robots}{flow_text(content.flow)}"),
    ):
        write_text(out / name, text)
    # Each table is marked, because it may be passed on without the others.
    write = partial(write_csv, simulated=content.simulated)
    write(out / FLOW, FLOW_HEAD, ((step.step, step.rule, step.count) for step in content.flow))
    write(out / SESSIONS, SESSIONS_HEAD, session_rows(judged))
    write(out / DROPPED, (*DROPPED_HEAD, *image_head(config)), dropped_rows(judged))
    write(out / TRIALS, (*TRIALS_HEAD, *image_head(config)), trial_rows(judged))
    write(out / EXCLUSIONS, EXCLUSIONS_HEAD, exclusion_rows(judged))
    if config.kind == "same-different":
        write(out / JUDGEMENTS, JUDGEMENTS_HEAD, judgement_rows(content.kept))
        return
    folder = out / MODEL_VS_HUMAN
    folder.mkdir(exist_ok=True)
    files = {
        f"{subject}_session_1.csv": rows
        for subject, rows in model_vs_human_rows(content.kept).items()
    }
    for name, rows in files.items():
        write(folder / name, MODEL_VS_HUMAN_HEAD, rows)
    for path in folder.iterdir():
        # Subjects of an earlier export who have withdrawn or are excluded by these rules.
        if path.name not in files:
            path.unlink()
    if content.kept:
        responses = human_records(
            [*content.kept, *reused],
            config,
            dropped=dropped_responses(judged),
            flow=content.flow,
            simulated=content.simulated,
        )
        write_responses(out / RESPONSES, responses)
    else:
        # An earlier export may have had responses, which no longer count.
        (out / RESPONSES).unlink(missing_ok=True)


def participant_flow(
    judged: Sequence[JudgedSession], config: StudyConfig, visits: int, now: datetime
) -> tuple[FlowStep, ...]:
    """Return how many participants reached each step of a study.

    Whoever consented is still taking part, excluded, without a response that counts, or counted.
    A session that violates several rules is listed under the first.

    Args:
        judged: All sessions of the study, with what the rules say of them.
        config: The study's settings.
        visits: How often the page was opened, including reloads.
        now: The current time.
    """
    ends = Counter(_end(session, config, now) for session in judged)
    rules = [rule for step, rule in ends if step == EXCLUDED]
    # Participants who saw the qualification's images in another study get fewer of its trials.
    qualified = sum(
        record.state != FAILED
        and (len(record.of("qualification")) >= config.qualification or bool(record.of("main")))
        for record in (session.record for session in judged)
    )
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
    names = [f"{step.step}: {step.rule}" if step.rule else step.step for step in flow]
    width = max(map(len, names))
    lines = [f"{name:<{width}}  {step.count:>7,}" for name, step in zip(names, flow, strict=True)]
    return "\n".join(["Flow of participants", *lines]) + "\n"


def _end(session: JudgedSession, config: StudyConfig, now: datetime) -> tuple[str, str]:
    """Return the step at which a session ends, and the rule that excludes it."""
    # Checked first, because the verdict on a session in progress may still change.
    if not has_ended(session.record, config, now):
        return PRESENT, ""
    if not session.counts:
        return EXCLUDED, session.broken[0][0]
    main = {response.number for response in session.record.of("main")}
    return (COUNTED if main - session.invalid_reasons.keys() else EMPTY), ""
