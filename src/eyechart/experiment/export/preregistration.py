"""Write a study's plan for pre-registration, with a hash that every export repeats."""

import hashlib
import re
from collections import Counter
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session as Db

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.options import fields_of
from eyechart.core.storage.files import atomic_file
from eyechart.core.version import __version__
from eyechart.curves.curve_settings import BINS, N_BOOTSTRAP
from eyechart.curves.estimator_registry import DEFAULT_ESTIMATOR
from eyechart.experiment.design.study_build import RECORD, read_record
from eyechart.experiment.quality.judging import find_rules
from eyechart.experiment.storage.database_tables import (
    ResponseRow,
    SessionRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)
from eyechart.experiment.storage.experiment_folder import (
    PLAN,
    OpenStudy,
    StudyFolder,
    connect_study,
)
from eyechart.experiment.study_config import StudyConfig
from eyechart.stats.intervals import CONFIDENCE

FILE = "preregistration.md"
HASH = re.compile(r"\nSHA-256 of the text above: `([0-9a-f]{64})`\n\Z")
HIDDEN = ("consent", "title", "name")
"""Settings that are not listed in the table, because they are printed elsewhere in the plan."""


def preregister(folder: StudyFolder) -> tuple[Path, str, int]:
    """Write the plan of a study into its folder, unless it already exists.

    Returns:
        The file, its hash, and the number of responses that had been collected.

    Raises:
        UsageError: If the file was edited.
    """
    path = folder.path / FILE
    with connect_study(folder) as study:
        n_responses = _n_responses(study)
        if not path.exists():
            text = plan_document(study, n_responses)
            with atomic_file(path) as temporary:
                temporary.write_text(f"{text}{_hash_line(text)}", encoding="utf-8")
    digest = read_hash(folder)
    assert digest is not None
    return path, digest, n_responses


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


def plan_document(study: OpenStudy, n_responses: int) -> str:
    """Return the plan as Markdown, without its hash; the same study gives the same text."""
    config, folder = study.config, study.folder
    record = read_record(folder.path / RECORD)
    with study.database.reading() as db:
        stimuli = _stimuli(db, study.id)
    plan = folder.path / PLAN
    parts = [
        f"# Pre-registration of the study {config.name}",
        f"Title: *{config.title}* Created: {study.row.created_at:%Y-%m-%d %H:%M} UTC, with eyechart"
        f" {__version__}. Responses collected when this plan was written: {n_responses:,}.",
        "## Design",
        _settings(config),
        "Participants agree to this text:",
        "\n".join(f"> {line}".rstrip() for line in config.consent.splitlines()),
        "## Stimuli",
        stimuli,
        f"Test set: `{'unknown' if record is None else record.settings.testset}`. Settings:"
        f" `{config.digest}`.",
        "## Sample size",
        f"```\n{plan.read_text(encoding='utf-8').strip()}\n```"
        if plan.is_file()
        else "No plan is stored.",
        "## Exclusion",
        f"Quality rules of version {config.rules}, written before the data:",
        f"```\n{find_rules(config.rules).text.strip()}\n```",
        "## Analysis",
        _analysis(config),
        "## Seeds",
        f"Choice and order of stimuli: {'unknown' if record is None else record.settings.seed}."
        " Bootstrap: 0.",
    ]
    return "\n\n".join(parts) + "\n"


def _settings(config: StudyConfig) -> str:
    # Without the codes of recruitment platforms, which decide who is paid.
    settings = {
        name: getattr(config, name) for name in fields_of(StudyConfig) if name not in HIDDEN
    }
    rows = [f"| {name} | {value} |" for name, value in settings.items() if value != ""]
    return "\n".join(["| setting | value |", "|---|---|", *rows])


def _analysis(config: StudyConfig) -> str:
    name = config.name
    commands = [f"eyechart experiment export {name} --rules {config.rules}"]
    if config.kind == "same-different":
        commands.append(f"eyechart humans similar {name}")
        how = (
            "For each pair: the test over participants with Holm's correction over pairs, and the"
            f" {CONFIDENCE:.0%} interval of the accuracy."
        )
    else:
        commands.append(f"eyechart evaluate MODEL --humans {name} --labels entry16")
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


def _n_responses(study: OpenStudy) -> int:
    with study.database.reading() as db:
        count = db.scalar(
            select(func.count())
            .select_from(ResponseRow)
            .join(TrialRow, TrialRow.id == ResponseRow.trial_id)
            .join(SessionRow, SessionRow.id == TrialRow.session_id)
            .where(SessionRow.study_id == study.id)
        )
    return count or 0


def _hash_line(text: str) -> str:
    return f"\nSHA-256 of the text above: `{hashlib.sha256(text.encode()).hexdigest()}`\n"
