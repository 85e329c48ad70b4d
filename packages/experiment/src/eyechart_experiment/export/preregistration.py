"""Write a study's plan for pre-registration, with a hash that every export repeats."""

import hashlib
import re
import shlex
from collections import Counter
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session as Db

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.options import fields_of
from eyechart.core.storage.files import write_text
from eyechart.core.version import __version__
from eyechart.stats.curve_settings import BINS, DEFAULT_ESTIMATOR, N_BOOTSTRAP
from eyechart.stats.intervals import CONFIDENCE
from eyechart_experiment.design.study_build import RECORD, StudyOrigin, read_record
from eyechart_experiment.quality.rules import rules_text
from eyechart_experiment.storage.database_tables import (
    ResponseRow,
    SessionRow,
    SourceImageRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import (
    PLAN,
    OpenStudy,
    StudyFolder,
    connect_study,
)
from eyechart_experiment.study_config import StudyConfig

FILE = "preregistration.md"
WRITTEN = re.compile(r"Responses collected when this plan was written: ([0-9,]+)\.")
HASH = re.compile(r"\nSHA-256 of the text above: `([0-9a-f]{64})`\n\Z")
HIDDEN = ("consent", "title", "name")
"""Settings that are not listed in the table, because they are printed elsewhere in the plan."""


def preregister(folder: StudyFolder, hypotheses: str | None = None) -> tuple[Path, str, int]:
    """Write the plan of a study into its folder, unless it already exists.

    Args:
        folder: The study.
        hypotheses: What the study tests, as Markdown; None if its analysis is exploratory.

    Returns:
        The file, its hash, and the number of responses that had been collected when it was written.

    Raises:
        UsageError: If the file was edited, or has other hypotheses.
    """
    path = folder.path / FILE
    if not path.exists():
        with connect_study(folder) as study:
            with study.database.reading() as db:
                n_responses = db.scalar(
                    select(func.count())
                    .select_from(ResponseRow)
                    .join(TrialRow, TrialRow.id == ResponseRow.trial_id)
                    .join(SessionRow, SessionRow.id == TrialRow.session_id)
                    .where(SessionRow.study_id == study.id)
                )
            text = plan_document(study, n_responses or 0, hypotheses)
        write_text(path, f"{text}{_hash_line(text)}")
    digest = read_hash(folder)
    text = path.read_text(encoding="utf-8")
    if hypotheses is not None and _hypotheses(hypotheses) not in text:
        raise UsageError(
            f"{path} is written once and has other hypotheses: omit --hypotheses, or delete the"
            " file to give up the pre-registration."
        )
    written = WRITTEN.search(text)
    assert digest is not None and written is not None
    return path, digest, int(written[1].replace(",", ""))


def read_hash(folder: StudyFolder) -> str | None:
    """Return the hash of a study's pre-registration, or None if it has none.

    Raises:
        UsageError: If the text no longer has the hash that its last line states.
    """
    path = folder.path / FILE
    try:
        text = regular_file(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UsageError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(f"Cannot read {path}: {' '.join(str(error).split())}.") from None
    stated = HASH.search(text)
    if stated is None or _hash_line(text[: stated.start()]) != stated[0]:
        raise UsageError(
            f"{path} was edited after it was written, so its hash is wrong: restore it, or delete"
            " it to give up the pre-registration."
        )
    return stated[1]


def plan_document(study: OpenStudy, n_responses: int, hypotheses: str | None = None) -> str:
    """Return the plan as Markdown, without its hash; the same study gives the same text."""
    config, folder = study.config, study.folder
    record = read_record(folder.path / RECORD)
    origin, testset, seed = None, "unknown", "unknown"
    if record is not None:
        origin, seed = record.origin, str(record.settings.seed)
        testset = (
            f"`{origin.testset}` (digest `{record.settings.testset}`), {origin.n:,} samples for"
            f" each corruption of {origin.suite}, sampling {origin.sampling}, seed {origin.seed}"
        )
    with study.database.reading() as db:
        stimuli, images = _stimuli(db, study.id), _images(db, study.id)
    plan = folder.path / PLAN
    # Without the codes of recruitment platforms, which decide who is paid.
    settings = {
        name: getattr(config, name) for name in fields_of(StudyConfig) if name not in HIDDEN
    }
    rows = [f"| {name} | {value} |" for name, value in settings.items() if value != ""]
    parts = [
        f"# Pre-registration of the study {config.name}",
        f"Title: *{config.title}* Created: {study.row.created_at:%Y-%m-%d %H:%M} UTC, with eyechart"
        f" {__version__}. Responses collected when this plan was written: {n_responses:,}.",
        _hypotheses(hypotheses),
        "## Design",
        "\n".join(["| setting | value |", "|---|---|", *rows]),
        "Participants agree to this text:",
        "\n".join(f"> {line}".rstrip() for line in config.consent.splitlines()),
        "## Stimuli",
        stimuli,
        f"Images: {'' if origin is None else f'`{origin.images}`, '}{images}.",
        f"Test set: {testset}. Settings: `{config.digest}`.",
        "## Sample size",
        f"```\n{plan.read_text(encoding='utf-8').strip()}\n```"
        if plan.is_file()
        else "No plan is stored.",
        "## Exclusion",
        "Quality rules, written before the data:",
        f"```\n{rules_text().strip()}\n```",
        "## Analysis",
        _analysis(config, origin),
        "## Seeds",
        f"Choice and order of stimuli: {seed}. Bootstrap: 0.",
    ]
    return "\n\n".join(parts) + "\n"


def _hypotheses(text: str | None) -> str:
    return f"## Hypotheses\n\n{text or 'None are stated: the analysis is exploratory.'}"


def _analysis(config: StudyConfig, origin: StudyOrigin | None) -> str:
    name = config.name
    images = "IMAGES" if origin is None else shlex.quote(origin.images)
    commands = [f"eyechart experiment export {name}"]
    if config.kind == "same-different":
        commands.append(f"eyechart humans similar {name}")
        how = (
            "For each pair: the test over participants with Holm's correction over pairs, and the"
            f" {CONFIDENCE:.0%} interval of the accuracy."
        )
    else:
        commands.append(
            f"eyechart evaluate MODEL --images {images} --labels entry16 --humans {name}"
        )
        how = (
            f"Human curves: estimator {DEFAULT_ESTIMATOR}, at most {BINS} bins,"
            f" {CONFIDENCE:.0%} intervals from {N_BOOTSTRAP:,} bootstrap replicates over images."
        )
    return "```console\n" + "\n".join(f"$ {line}" for line in commands) + f"\n```\n\n{how}"


def _stimuli(db: Db, study_id: int) -> str:
    """Return a table of the stimuli by role and corruption, and a digest of all of them."""
    query = (
        select(
            StimulusRow.role,
            StimulusRow.pair,
            StimulusRow.capacity,
            StimulusImageRow.corruption,
            StimulusImageRow.sha256,
        )
        .join(StimulusImageRow, StimulusImageRow.stimulus_id == StimulusRow.id)
        .where(StimulusRow.study_id == study_id)
        .order_by(StimulusRow.id, StimulusImageRow.place)
    )
    groups: Counter[tuple[str, str, int | None]] = Counter()
    digest = hashlib.sha256()
    for role, pair, capacity, corruption, sha256 in db.execute(query):
        groups[role, pair or corruption, capacity] += 1
        digest.update(f"{role} {pair} {capacity} {corruption} {sha256}\n".encode())
    rows = [
        f"| {role} | {name.replace('|', ' and ')} | {count:,} |"
        f" {'as needed' if capacity is None else capacity} |"
        for (role, name, capacity), count in sorted(groups.items(), key=str)
    ]
    head = ["| role | corruption | images | responses each |", "|---|---|---|---|"]
    text = "\n".join([*head, *rows])
    return f"{text}\n\nSHA-256 of roles and pixels: `{digest.hexdigest()}`."


def _images(db: Db, study_id: int) -> str:
    """Return how many source images the stimuli show, and a digest of their names and files."""
    shown = (
        select(StimulusImageRow.source_id)
        .join(StimulusRow, StimulusRow.id == StimulusImageRow.stimulus_id)
        .where(StimulusRow.study_id == study_id)
    )
    images = db.scalars(
        select(SourceImageRow).where(SourceImageRow.id.in_(shown)).order_by(SourceImageRow.digest)
    ).all()
    digest = hashlib.sha256()
    for image in images:
        digest.update(f"{image.digest} {image.name}\n".encode())
    return f"{len(images):,} files; SHA-256 of their digests and names: `{digest.hexdigest()}`"


def _hash_line(text: str) -> str:
    return f"\nSHA-256 of the text above: `{hashlib.sha256(text.encode()).hexdigest()}`\n"
