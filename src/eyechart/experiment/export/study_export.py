"""Writing a study's answers out: human records, tables of everything, and the rules applied."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import select

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file, remove_leftovers
from eyechart.experiment.design.study_config import StudyConfig, config_text, read_config
from eyechart.experiment.export.export_tables import (
    EXCLUSIONS_HEAD,
    JUDGEMENTS_HEAD,
    MODEL_VS_HUMAN_HEAD,
    CountedResponse,
    JudgedSession,
    clean_of_others,
    counted,
    exclusion_rows,
    human_records,
    judgement_rows,
    model_vs_human_rows,
    trial_rows,
    trials_head,
    write_csv,
)
from eyechart.experiment.quality.rules import find_rules, judge, stored_config, write_exclusions
from eyechart.experiment.storage.database_tables import StudyRow
from eyechart.experiment.storage.experiment_folder import StudyFolder, open_answers
from eyechart.experiment.storage.session_records import read_sittings
from eyechart.humans.records import write_answers

ANSWERS, JUDGEMENTS, TRIALS, STUDY = "answers.parquet", "judgements.csv", "trials.csv", "study.yaml"
EXCLUSIONS, RULES, MODEL_VS_HUMAN = "exclusions.csv", "rules.txt", "model-vs-human"
OWN = {ANSWERS, JUDGEMENTS, TRIALS, EXCLUSIONS, RULES, STUDY, MODEL_VS_HUMAN}
SUBJECT_FILE = re.compile(r"[A-Za-z0-9_-]+_session_1\.csv")
LEFTOVER = re.compile(r"\..+\.\d+\.tmp")


@dataclass(frozen=True)
class Exported:
    """What was written: how many answers there are, how many count, and of how many people."""

    out: Path
    answers: int
    counted: int
    people: int
    excluded: int
    left_out: int
    reused: int


def export(
    folder: StudyFolder,
    out: Path | None = None,
    version: int | None = None,
    include_excluded: bool = False,
) -> Exported:
    """Write a study's answers into a folder, in the study's own if none is given.

    What an earlier export wrote is replaced; a folder with other files is refused. `version`: of
    the quality rules, the study's own if none is given.
    """
    config = folder.config
    rules = find_rules(config.rules if version is None else version)
    target = folder.path / "export" if out is None else out
    check_target(target, config)
    judged, elsewhere = _judged(folder, rules.version)
    total = sum(len(own.sitting.of("main")) for own in judged)
    if not any(own.sitting.answers for own in judged):
        raise UsageError(f"The study {config.name} has no answers yet: nothing was written.")
    kept = counted(judged, include_excluded)
    _write(target, config, judged, kept, elsewhere, rules.text, include_excluded)
    included = [own for own in judged if own.verdict.counts or include_excluded]
    return Exported(
        target,
        total,
        len(kept),
        len({each.subject for each in kept}),
        sum(not own.verdict.counts for own in judged),
        sum(len(own.sitting.of("main")) for own in included) - len(kept),
        len(clean_of_others(kept, elsewhere)),
    )


def check_target(out: Path, config: StudyConfig) -> None:
    """Refuse a folder that holds anything but an export of the same study."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"Cannot write into {out}: it is a file, not a folder.")
    if not out.exists():
        if not out.parent.is_dir():
            raise UsageError(f"No such folder: {out.parent}.")
        return
    remove_leftovers([out, out / MODEL_VS_HUMAN])
    there = [path for path in out.iterdir() if not LEFTOVER.fullmatch(path.name)]
    strange = sorted(path.name for path in there if path.name not in OWN)
    inner = out / MODEL_VS_HUMAN
    if inner.is_dir():
        strange += [p.name for p in inner.iterdir() if not SUBJECT_FILE.fullmatch(p.name)]
    if strange or (there and not (out / STUDY).is_file()):
        what = strange[0] if strange else there[0].name
        raise UsageError(f"{out} holds other files ({what}): give an empty folder as --out.")
    if there and (name := read_config(out / STUDY).name) != config.name:
        raise UsageError(f"{out} holds an export of the study {name}: give another --out.")


def _judged(folder: StudyFolder, version: int) -> tuple[list[JudgedSession], list[JudgedSession]]:
    """Return all sessions with what the rules say of them, as they are at one moment.

    Those of the study, and those of other studies in the database that name pictures.
    """
    config = folder.config
    database, study = open_answers(folder)
    try:
        with database.reading() as db:
            if not database.is_sqlite:
                db.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            sittings = read_sittings(db, study.id)
            elsewhere = []
            for other in db.scalars(select(StudyRow).where(StudyRow.id != study.id)).all():
                own = stored_config(other)
                if own.kind == config.kind == "categorise":
                    found = read_sittings(db, other.id)
                    elsewhere += [JudgedSession(sitting, judge(sitting, own)) for sitting in found]
        judged = [JudgedSession(sitting, judge(sitting, config, version)) for sitting in sittings]
        if version == config.rules:
            write_exclusions(database, config, [(own.sitting, own.verdict) for own in judged])
    finally:
        database.close()
    return judged, elsewhere


def _write(
    out: Path,
    config: StudyConfig,
    judged: Sequence[JudgedSession],
    kept: Sequence[CountedResponse],
    elsewhere: Sequence[JudgedSession],
    rules: str,
    include_excluded: bool,
) -> None:
    out.mkdir(exist_ok=True)
    # codes by which participants are paid are nobody else's business
    _write_text(out / STUDY, config_text(replace(config, prolific_code="", prolific_failed="")))
    note = "Answers of sessions that break a rule were kept all the same.\n"
    _write_text(out / RULES, f"{rules}{note if include_excluded else ''}")
    write_csv(out / TRIALS, trials_head(config), trial_rows(judged))
    write_csv(out / EXCLUSIONS, EXCLUSIONS_HEAD, exclusion_rows(judged))
    if config.kind == "same-different":
        write_csv(out / JUDGEMENTS, JUDGEMENTS_HEAD, judgement_rows(kept))
        return
    _write_model_vs_human(out / MODEL_VS_HUMAN, kept)
    if kept:
        answers = [*kept, *clean_of_others(kept, elsewhere)]
        write_answers(out / ANSWERS, human_records(answers, config))
    else:
        # what an earlier export counted counts no longer
        (out / ANSWERS).unlink(missing_ok=True)


def _write_model_vs_human(folder: Path, kept: Sequence[CountedResponse]) -> None:
    folder.mkdir(exist_ok=True)
    rows = model_vs_human_rows(kept)
    names = {subject: f"{subject}_session_1.csv" for subject in rows}
    for subject, own in rows.items():
        write_csv(folder / names[subject], MODEL_VS_HUMAN_HEAD, own)
    for path in folder.iterdir():
        # somebody who withdrew, or does not count by other rules
        if path.name not in names.values():
            path.unlink()


def _write_text(path: Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
