"""Turn a study's responses into the exported tables and human records; nothing is written here."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan
from pathlib import Path

from eyechart.core.storage.files import atomic_file
from eyechart.humans.human_responses import (
    CLEAN,
    SIMULATED_COLUMN,
    DroppedResponse,
    FlowStep,
    HumanResponses,
    make_responses,
)
from eyechart_experiment.quality.judging import JudgedSession
from eyechart_experiment.quality.rules import RULES_VERSION
from eyechart_experiment.quality.trial_checks import selection
from eyechart_experiment.storage.safe_cells import Cell, safe
from eyechart_experiment.storage.session_records import MAIN, ShownImage, TrialResponse
from eyechart_experiment.study_config import StudyConfig

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
    "other_stamps", "eyesight",
)  # fmt: skip
IMAGE_HEAD = ("image", "corruption", "delta_v", "parameters", "manifest_row", "sha256")
MODEL_VS_HUMAN_HEAD = (
    "subj", "session", "trial", "rt", "object_response", "category", "condition", "imagename",
    "corruption", "delta_v",
)  # fmt: skip
EXCLUSIONS_HEAD = ("participant", "rule", "version", "detail")
DROPPED_HEAD = (
    "participant", "platform", "session_state", "trial", "role", "pair", "truth", "reason",
    "served_at", "dropped_at", "returned_as", "excluded_by",
)  # fmt: skip
SESSIONS_HEAD = (
    "participant", "platform", "session_state", "counts", "excluded_by", "rules",
    "qualification_trials", "main_trials", "catch_trials", "catch_correct", "dropped_trials",
    "dropped_stimuli", "p_dropped_harder", "started_at", "finished_at",
)  # fmt: skip
JUDGEMENTS_HEAD = (
    "a", "b", "subject", "trial", "shown", "response", "rt", "corruption_left", "corruption_right",
    "delta_v_left", "delta_v_right", "image_left", "image_right",
)  # fmt: skip

Rows = Iterator[tuple[Cell, ...]]


@dataclass(frozen=True)
class CountedResponse:
    """A main-trial response that counts, with its subject and the names of its images."""

    subject: str
    response: TrialResponse
    names: tuple[str, ...]

    @property
    def image(self) -> ShownImage:
        """The image shown, or the first one if two were shown."""
        return self.response.images[0]


def counted(
    judged: Sequence[JudgedSession], include_excluded: bool = False
) -> list[CountedResponse]:
    """Return the responses that count, ordered by session and trial."""
    names = image_names(judged)
    return [
        CountedResponse(
            session.record.subject,
            response,
            tuple(names[image.digest] for image in response.images),
        )
        for session in judged
        if session.counts or include_excluded
        for response in session.record.of("main")
        if response.number not in session.invalid_reasons
    ]


def clean_of_others(
    kept: Sequence[CountedResponse], elsewhere: Sequence[JudgedSession]
) -> list[CountedResponse]:
    """Return responses from other studies to the clean versions of the images in `kept`.

    A participant never sees a source image twice, so these responses come from other participants.
    """
    names = {
        image.digest: name
        for item in kept
        for image, name in zip(item.response.images, item.names, strict=True)
    }
    return [
        CountedResponse(item.subject, item.response, (names[item.image.digest],))
        for item in counted(elsewhere)
        if item.image.corruption == CLEAN and item.image.digest in names
    ]


def image_names(judged: Sequence[JudgedSession]) -> Mapping[str, str]:
    """Map each source image's digest to its name, or to the digest if the name is not unique."""
    owners: dict[str, set[str]] = defaultdict(set)
    for session in judged:
        for trial in (*session.record.responses, *session.record.dropped):
            for image in trial.images:
                owners[image.name].add(image.digest)
    return {
        digest: name if len(digests) == 1 else digest
        for name, digests in owners.items()
        for digest in digests
    }


def dropped_responses(judged: Sequence[JudgedSession]) -> tuple[DroppedResponse, ...]:
    """Return the main stimuli that participants who count dropped, each once per participant."""
    names = image_names(judged)
    dropped: dict[tuple[str, int], DroppedResponse] = {}
    for session in judged:
        subject = session.record.subject
        for trial in session.record.dropped_of("main") if session.counts else ():
            image = trial.images[0]
            # Keyed by stimulus: one that was shown again and dropped again is still one.
            dropped[subject, trial.stimulus] = DroppedResponse(
                image.corruption, subject, names[image.digest], _delta_v(image)
            )
    return tuple(dropped.values())


def human_records(
    kept: Sequence[CountedResponse],
    config: StudyConfig,
    *,
    dropped: tuple[DroppedResponse, ...] = (),
    flow: tuple[FlowStep, ...] = (),
    simulated: bool = False,
) -> HumanResponses:
    """Return responses to single images as human records.

    The records contain no response of the same participant to the clean image, because nobody sees
    a source image twice.
    """
    return make_responses(
        len(kept),
        source=SOURCE,
        choices=16,
        label_space="entry16",
        citation=config.title,
        corruption=[item.image.corruption for item in kept],
        subject=[item.subject for item in kept],
        image=[item.names[0] for item in kept],
        label=[item.response.truth for item in kept],
        response=[item.response.choice for item in kept],
        delta_v=[_delta_v(item.image) for item in kept],
        dropped=dropped,
        flow=flow,
        simulated=simulated,
    )


def trial_rows(judged: Sequence[JudgedSession]) -> Rows:
    """Yield one row per response to a trial in any role, with TRIALS_HEAD and `image_head`."""
    for session in judged:
        record = session.record
        for response in record.responses:
            other_stamps = {
                name: value for name, value in response.stamps.items() if name not in STAMPS
            }
            yield (
                record.subject,
                record.platform,
                record.state,
                *(_plain(record.screen.get(name)) for name in SCREEN),
                record.hz,
                response.number,
                response.role,
                response.pair,
                response.truth,
                response.choice,
                response.correct,
                response.rt_ms,
                " ".join(response.flags),
                " ".join(session.invalid_reasons.get(response.number, ())),
                " ".join(rule for rule, _ in session.broken),
                _moment(response.served_at),
                _moment(response.received_at),
                *(_plain(response.stamps.get(name)) for name in STAMPS),
                json.dumps(other_stamps, ensure_ascii=False, sort_keys=True)
                if other_stamps
                else None,
                record.eyesight,
                *(cell for image in response.images for cell in _image_cells(image)),
            )


def image_head(config: StudyConfig) -> tuple[str, ...]:
    """Return the names of the last columns of `trial_rows` and `dropped_rows`."""
    if config.kind == "categorise":
        return IMAGE_HEAD
    return tuple(f"{name}_{side}" for side in ("left", "right") for name in IMAGE_HEAD)


def dropped_rows(judged: Sequence[JudgedSession]) -> Rows:
    """Yield one row per dropped trial in any role, with DROPPED_HEAD and `image_head`.

    `returned_as` is the number of the trial in which the participant responded to the stimulus
    when it was shown again.
    """
    for session in judged:
        record = session.record
        numbers = {response.stimulus: response.number for response in record.responses}
        for trial in record.dropped:
            yield (
                record.subject,
                record.platform,
                record.state,
                trial.number,
                trial.role,
                trial.pair,
                trial.truth,
                trial.reason or None,
                _moment(trial.served_at),
                _moment(trial.dropped_at),
                numbers.get(trial.stimulus),
                " ".join(rule for rule, _ in session.broken),
                *(cell for image in trial.images for cell in _image_cells(image)),
            )


def session_rows(judged: Sequence[JudgedSession]) -> Rows:
    """Yield one row per session: its state, whether it counts, and what the rules looked at."""
    for session in judged:
        record, catch = session.record, session.record.of("catch")
        n_dropped, p_value = selection(record)
        yield (
            record.subject,
            record.platform,
            record.state,
            session.counts,
            " ".join(rule for rule, _ in session.broken),
            RULES_VERSION,
            len(record.of("qualification")),
            len(record.of("main")),
            len(catch),
            sum(response.correct for response in catch),
            len(record.dropped_of(*MAIN)),
            n_dropped,
            p_value,
            _moment(record.created_at),
            _moment(record.finished_at),
        )


def model_vs_human_rows(kept: Sequence[CountedResponse]) -> Mapping[str, list[tuple[Cell, ...]]]:
    """Return the rows for each subject in the format of the model-vs-human toolbox.

    Reaction times are in seconds. A condition combines a corruption with a Δv bin of width 0.1,
    because the toolbox computes rates per condition. The last two columns are not part of the
    toolbox's format.
    """
    rows: dict[str, list[tuple[Cell, ...]]] = {}
    for item in kept:
        response, image = item.response, item.image
        delta_v = _delta_v(image)
        is_placed = image.corruption != CLEAN and not isnan(delta_v)
        condition = f"{image.corruption} {delta_v:.1f}" if is_placed else image.corruption
        subject_rows = rows.setdefault(item.subject, [])
        # The toolbox writes "na" for a trial without a response.
        subject_rows.append(
            (
                item.subject, 1, len(subject_rows) + 1, _seconds(response),
                response.choice or "na", response.truth, condition, item.names[0],
                image.corruption, delta_v,
            )
        )  # fmt: skip
    return rows


def exclusion_rows(judged: Sequence[JudgedSession]) -> Rows:
    """Yield one row for every rule that a session violates."""
    for session in judged:
        for rule, detail in session.broken:
            yield session.record.subject, rule, RULES_VERSION, detail


def pair_of(response: TrialResponse) -> tuple[str, str]:
    """Return the two corruptions compared in a same/different trial."""
    first, _, second = str(response.pair).partition("|")
    return first, second


def judgement_rows(kept: Sequence[CountedResponse]) -> Rows:
    """Yield one row for every same/different response that counts."""
    for item in kept:
        response = item.response
        yield (
            *pair_of(response),
            item.subject,
            response.number,
            response.truth,
            response.choice,
            _seconds(response),
            *(image.corruption for image in response.images),
            *(_delta_v(image) for image in response.images),
            *item.names,
        )


def _image_cells(image: ShownImage) -> tuple[Cell, ...]:
    parameters = json.dumps(dict(image.parameters), ensure_ascii=False, sort_keys=True)
    delta_v = _delta_v(image)
    return image.name, image.corruption, delta_v, parameters, image.row, image.sha256


def _delta_v(image: ShownImage) -> float:
    """Return the image's Δv, which is 0 for a clean image."""
    if image.corruption == CLEAN:
        return 0.0
    return float("nan") if image.delta_v is None else image.delta_v


def _seconds(response: TrialResponse) -> float | None:
    return (
        None if response.rt_ms is None or not response.choice else round(response.rt_ms / 1000, 6)
    )


def _moment(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat(timespec="milliseconds")


def _plain(value: object) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False)


def write_csv(
    path: Path, head: Sequence[str], rows: Iterable[Sequence[Cell]], simulated: bool = False
) -> None:
    """Write a table as CSV; `simulated` adds the column that marks responses of robots."""
    if simulated:
        head, rows = (*head, SIMULATED_COLUMN), ((*row, 1) for row in rows)
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        # The module's default is CRLF on every system.
        table = csv.writer(file, lineterminator="\n")
        table.writerow(head)
        table.writerows([safe(cell) for cell in row] for row in rows)
