"""A study's answers as the tables and the human records that are exported; none is written here."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from eyechart.experiment.config import StudyConfig
from eyechart.experiment.csv_files import Cell
from eyechart.experiment.records import Answer, Shown, Sitting
from eyechart.experiment.rules import Verdict
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

Rows = Iterator[tuple[Cell, ...]]


@dataclass(frozen=True)
class Judged:
    """A session and what the rules say of it."""

    sitting: Sitting
    verdict: Verdict


@dataclass(frozen=True)
class Counted:
    """An answer of the main part that counts: whose it is, and what stands for its photographs."""

    subject: str
    answer: Answer
    names: tuple[str, ...]


def counted(judged: Sequence[Judged], include_excluded: bool = False) -> list[Counted]:
    """Return the answers that count, in order of sessions and trials."""
    names = picture_names(judged)
    return [
        Counted(
            own.sitting.subject, answer, tuple(names[shown.digest] for shown in answer.pictures)
        )
        for own in judged
        if own.verdict.counts or include_excluded
        for answer in own.sitting.of("main")
        if answer.number not in own.verdict.odd
    ]


def clean_of_others(kept: Sequence[Counted], elsewhere: Sequence[Judged]) -> list[Counted]:
    """Return answers of other studies to the clean pictures of photographs that are asked for.

    Nobody sees a photograph twice, so they are of other people than those who answered here.
    """
    names = {
        shown.digest: name
        for each in kept
        for shown, name in zip(each.answer.pictures, each.names, strict=True)
    }
    return [
        Counted(each.subject, each.answer, (names[each.answer.pictures[0].digest],))
        for each in counted(elsewhere)
        if each.answer.pictures[0].corruption == CLEAN and each.answer.pictures[0].digest in names
    ]


def picture_names(judged: Sequence[Judged]) -> Mapping[str, str]:
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


def human_records(answers: Sequence[Counted], config: StudyConfig) -> Answers:
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


def trial_rows(judged: Sequence[Judged]) -> Rows:
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


def model_vs_human_rows(answers: Sequence[Counted]) -> Mapping[str, list[tuple[Cell, ...]]]:
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


def exclusion_rows(judged: Sequence[Judged]) -> Rows:
    """Yield a row for every rule that a session breaks."""
    for own in judged:
        for rule, detail in own.verdict.broken:
            yield own.sitting.subject, rule, own.verdict.version, detail


def pair_of(answer: Answer) -> tuple[str, str]:
    """Return the two corruptions that a same/different trial is about."""
    first, _, second = str(answer.pair).partition("|")
    return first, second


def judgement_rows(answers: Sequence[Counted]) -> Rows:
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


def _picture(shown: Shown) -> tuple[Cell, ...]:
    parameters = json.dumps(dict(shown.parameters), ensure_ascii=False, sort_keys=True)
    change = _change(shown)
    return shown.name, shown.corruption, change, parameters, shown.row, shown.sha256


def _change(shown: Shown) -> float:
    """Return Δv; that of a clean picture is 0."""
    if shown.corruption == CLEAN:
        return 0.0
    return float("nan") if shown.delta_v is None else shown.delta_v


def _seconds(answer: Answer) -> float | None:
    return None if answer.rt_ms is None or not answer.choice else round(answer.rt_ms / 1000, 6)


def _plain(value: object) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False)
