"""A study's answers as the tables and the human records that are exported; none is written here."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from eyechart.core.files import atomic_file
from eyechart.experiment.design.study_config import StudyConfig
from eyechart.experiment.quality.rules import SessionVerdict
from eyechart.experiment.storage.session_records import SessionRecord, ShownImage, TrialResponse
from eyechart.humans.records import CLEAN, Answers, make_answers

SOURCE = "eyechart experiment"
STAMPS = (
    "fixation", "stimulus", "blank", "mask", "response", "end", "stimulus_frames",
    "frames_dropped", "longest_frame", "hz",
)  # fmt: skip
SCREEN = ("width", "height", "ratio")

TRIALS_HEAD = (
    "participant", "platform", "session_state", *(f"screen_{name}" for name in SCREEN),
    "measured_hz", "trial", "role", "pair", "truth", "choice", "correct", "rt_ms", "flags",
    "trial_left_out", "excluded_by", "served_at", "received_at", *(f"t_{name}" for name in STAMPS),
    "other_stamps",
)  # fmt: skip
PICTURE_HEAD = ("picture", "corruption", "delta_v", "parameters", "manifest_row", "sha256")
MODEL_VS_HUMAN_HEAD = (
    "subj", "session", "trial", "rt", "object_response", "category", "condition", "imagename",
    "corruption", "delta_v",
)  # fmt: skip
EXCLUSIONS_HEAD = ("participant", "rule", "version", "detail")
JUDGEMENTS_HEAD = (
    "a", "b", "subject", "trial", "shown", "said", "rt", "corruption_left", "corruption_right",
    "delta_v_left", "delta_v_right", "image_left", "image_right",
)  # fmt: skip

Cell = str | int | float | bool | None
Rows = Iterator[tuple[Cell, ...]]

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What makes a spreadsheet take a text for a formula."""

BREAKS = str.maketrans("\r\n\0", "   ")


@dataclass(frozen=True)
class JudgedSession:
    """A session and what the rules say of it."""

    sitting: SessionRecord
    verdict: SessionVerdict


@dataclass(frozen=True)
class CountedResponse:
    """An answer of the main part that counts: whose it is, and what stands for its photographs."""

    subject: str
    answer: TrialResponse
    names: tuple[str, ...]


def counted(
    judged: Sequence[JudgedSession], include_excluded: bool = False
) -> list[CountedResponse]:
    """Return the answers that count, in order of sessions and trials."""
    names = picture_names(judged)
    return [
        CountedResponse(
            own.sitting.subject, answer, tuple(names[shown.digest] for shown in answer.pictures)
        )
        for own in judged
        if own.verdict.counts or include_excluded
        for answer in own.sitting.of("main")
        if answer.number not in own.verdict.odd
    ]


def clean_of_others(
    kept: Sequence[CountedResponse], elsewhere: Sequence[JudgedSession]
) -> list[CountedResponse]:
    """Return answers of other studies to the clean pictures of photographs that are asked for.

    Nobody sees a photograph twice, so they are of other people than those who answered here.
    """
    names = {
        shown.digest: name
        for each in kept
        for shown, name in zip(each.answer.pictures, each.names, strict=True)
    }
    return [
        CountedResponse(each.subject, each.answer, (names[each.answer.pictures[0].digest],))
        for each in counted(elsewhere)
        if each.answer.pictures[0].corruption == CLEAN and each.answer.pictures[0].digest in names
    ]


def picture_names(judged: Sequence[JudgedSession]) -> Mapping[str, str]:
    """Return what stands for each photograph, by digest: its name, or the digest if two have it."""
    owners: dict[str, set[str]] = defaultdict(set)
    for own in judged:
        for answer in own.sitting.answers:
            for shown in answer.pictures:
                owners[shown.name].add(shown.digest)
    return {
        digest: name if len(digests) == 1 else digest
        for name, digests in owners.items()
        for digest in digests
    }


def human_records(answers: Sequence[CountedResponse], config: StudyConfig) -> Answers:
    """Return answers to single pictures as human records.

    Which clean answer one is compared with is not said here: people compared are always others.
    """
    return make_answers(
        len(answers),
        source=SOURCE,
        choices=16,
        label_space="entry16",
        citation=config.title,
        corruption=[each.answer.pictures[0].corruption for each in answers],
        subject=[each.subject for each in answers],
        picture=[each.names[0] for each in answers],
        label=[each.answer.truth for each in answers],
        answer=[each.answer.choice for each in answers],
        delta_v=[_change(each.answer.pictures[0]) for each in answers],
    )


def trial_rows(judged: Sequence[JudgedSession]) -> Rows:
    """Yield a row for every answer of whatever role, under TRIALS_HEAD and the pictures' heads."""
    for own in judged:
        sitting, verdict = own.sitting, own.verdict
        for answer in sitting.answers:
            others = {key: value for key, value in answer.stamps.items() if key not in STAMPS}
            yield (
                sitting.subject,
                sitting.platform,
                sitting.state,
                *(_plain(sitting.screen.get(name)) for name in SCREEN),
                sitting.hz,
                answer.number,
                answer.role,
                answer.pair,
                answer.truth,
                answer.choice,
                answer.correct,
                answer.rt_ms,
                " ".join(answer.flags),
                " ".join(verdict.odd.get(answer.number, ())),
                " ".join(rule for rule, _ in verdict.broken),
                answer.served_at.isoformat(timespec="milliseconds"),
                answer.received_at.isoformat(timespec="milliseconds"),
                *(_plain(answer.stamps.get(name)) for name in STAMPS),
                json.dumps(others, ensure_ascii=False, sort_keys=True) if others else None,
                *(cell for shown in answer.pictures for cell in _picture(shown)),
            )


def trials_head(config: StudyConfig) -> tuple[str, ...]:
    """Return the names of the columns that `trial_rows` fills."""
    if config.kind == "categorise":
        return (*TRIALS_HEAD, *PICTURE_HEAD)
    sides = ("left", "right")
    return (*TRIALS_HEAD, *(f"{name}_{side}" for side in sides for name in PICTURE_HEAD))


def model_vs_human_rows(answers: Sequence[CountedResponse]) -> Mapping[str, list[tuple[Cell, ...]]]:
    """Return the rows for each subject; reaction times in seconds.

    A condition is a corruption and a tenth of Δv, for that toolbox takes rates by condition. The
    last two columns are not of that format.
    """
    rows: dict[str, list[tuple[Cell, ...]]] = {}
    for each in answers:
        answer, shown = each.answer, each.answer.pictures[0]
        change = _change(shown)
        is_placed = shown.corruption != CLEAN and not isnan(change)
        condition = f"{shown.corruption} {change:.1f}" if is_placed else shown.corruption
        own = rows.setdefault(each.subject, [])
        own.append(
            (
                each.subject, 1, len(own) + 1, _seconds(answer), answer.choice or "na",
                answer.truth, condition, each.names[0], shown.corruption, change,
            )
        )  # fmt: skip
    return rows


def exclusion_rows(judged: Sequence[JudgedSession]) -> Rows:
    """Yield a row for every rule that a session breaks."""
    for own in judged:
        for rule, detail in own.verdict.broken:
            yield own.sitting.subject, rule, own.verdict.version, detail


def pair_of(answer: TrialResponse) -> tuple[str, str]:
    """Return the two corruptions that a same/different trial is about."""
    first, _, second = str(answer.pair).partition("|")
    return first, second


def judgement_rows(answers: Sequence[CountedResponse]) -> Rows:
    """Yield a row for every same/different answer that counts."""
    for each in answers:
        answer = each.answer
        yield (
            *pair_of(answer),
            each.subject,
            answer.number,
            answer.truth,
            answer.choice,
            _seconds(answer),
            *(shown.corruption for shown in answer.pictures),
            *(_change(shown) for shown in answer.pictures),
            *each.names,
        )


def _picture(shown: ShownImage) -> tuple[Cell, ...]:
    parameters = json.dumps(dict(shown.parameters), ensure_ascii=False, sort_keys=True)
    change = _change(shown)
    return shown.name, shown.corruption, change, parameters, shown.row, shown.sha256


def _change(shown: ShownImage) -> float:
    """Return Δv; that of a clean picture is 0."""
    if shown.corruption == CLEAN:
        return 0.0
    return float("nan") if shown.delta_v is None else shown.delta_v


def _seconds(answer: TrialResponse) -> float | None:
    return None if answer.rt_ms is None or not answer.choice else round(answer.rt_ms / 1000, 6)


def _plain(value: object) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False)


def safe(cell: Cell) -> str:
    """Return the text of a cell: numbers as they are; texts in one line, formulas quoted."""
    if cell is None or cell != cell:  # not a number
        return ""
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, int | float):
        return str(cell)
    line = cell.translate(BREAKS)
    return f"'{line}" if cell.startswith(FORMULA) else line


def write_csv(path: Path, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Write a table."""
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(head)
        table.writerows([safe(cell) for cell in row] for row in rows)
