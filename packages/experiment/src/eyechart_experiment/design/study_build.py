"""Build a study's folder: check it first, then fill it; an interrupted build can resume."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from pydantic import JsonValue
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as Db

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance
from eyechart.core.records import Record
from eyechart.core.storage.files import atomic_file, remove_leftovers
from eyechart.core.storage.locks import try_lock
from eyechart.images.identity import content_keys
from eyechart.images.image_files import write_image
from eyechart.images.imageset import ImageSet
from eyechart.testsets.render import render_each
from eyechart.testsets.testset import TestSet
from eyechart_experiment.design.planning import StudyPlan
from eyechart_experiment.design.stimulus_design import PlannedStimulus
from eyechart_experiment.storage import experiment_folder as study_files
from eyechart_experiment.storage.database import Database, open_database
from eyechart_experiment.storage.database_tables import (
    InstallationRow,
    SourceImageRow,
    StimulusImageRow,
    StimulusRow,
    StudyRow,
)
from eyechart_experiment.storage.experiment_folder import STIMULI, image_path, read_pixels
from eyechart_experiment.study_config import StudyConfig, config_text, read_config

RENDERED = "rendered.csv"
LINE = re.compile(r"(\d+),([0-9a-f]{64})")


def make_images(
    testset: TestSet,
    images: ImageSet,
    rows: Collection[int],
    study: Path,
    *,
    device: torch.device,
    side: int,
    step: Advance,
) -> dict[int, str]:
    """Write the missing images for these rows and return the SHA-256 of every row's image."""
    done = good_images(testset, rows, study, side)
    step(len(done), "")
    left = np.array(sorted(set(rows) - done.keys()), dtype=np.int64)
    groups = [
        samples.select(np.flatnonzero(np.isin(samples.row, left)))
        for samples in testset.samples(images)
    ]
    try:
        (study / STIMULI).mkdir(exist_ok=True)
        with (study / RENDERED).open("a", encoding="ascii") as record:
            # Start on a new line: an interrupted build may have left a partial one.
            record.write("\n")
            for samples, index, image in render_each(testset, images, device, groups):
                row, sha256 = int(samples.row[index]), hashlib.sha256(image.tobytes()).hexdigest()
                write_image(Image.fromarray(image), image_path(study, sha256))
                # After the image, so that a row that is listed always has its file.
                record.write(f"{row},{sha256}\n")
                record.flush()
                done[row] = sha256
                step(1, "")
    except OSError as error:
        raise UsageError(f"Cannot write into {study}: {error.strerror or error}.") from None
    return done


def good_images(testset: TestSet, rows: Collection[int], study: Path, side: int) -> dict[int, str]:
    """Return the SHA-256 of each row whose image file exists and matches the test set."""
    known = zip(testset.table["row"].to_pylist(), testset.table["pixels"].to_pylist(), strict=True)
    shown = set(rows)
    wanted = {row: pixels for row, pixels in known if row in shown}
    good = {}
    for row, sha256 in recorded_images(study).items():
        if row not in wanted:
            continue
        try:
            pixels = read_pixels(study, sha256, side)
        except UsageError:
            continue
        levels = np.frombuffer(pixels, dtype=np.uint8).reshape(side, side, 3)
        planes = torch.from_numpy(np.ascontiguousarray(levels.transpose(2, 0, 1)))[None]
        if int(content_keys(planes).numpy().view(np.uint64)[0]) == wanted[row]:
            good[row] = sha256
    return good


def recorded_images(study: Path) -> dict[int, str]:
    """Return the recorded SHA-256 of each row's image; truncated lines are ignored."""
    try:
        lines = (study / RENDERED).read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ValueError):
        return {}
    matches = (LINE.fullmatch(line) for line in lines)
    return {int(match[1]): match[2] for match in matches if match}


RECORD = "making.json"

AT_ONCE = 500
"""Number of source images looked up in one query."""


class StudyIdentity(Record):
    """Settings, except the secret, that must be unchanged for an interrupted build to resume."""

    config: dict[str, JsonValue]
    testset: str
    seed: int
    design: dict[str, JsonValue]
    database: str | None
    secret: str | None


class StudyOrigin(Record):
    """Where the stimuli of a study come from, for its readers.

    Files are named without their folders: those of a machine are nobody else's business.
    """

    testset: str
    images: str
    suite: str
    sampling: str
    n: int
    seed: int


class BuildRecord(Record):
    """Content of the file that is written to a study's folder when the build begins."""

    began: datetime
    settings: StudyIdentity
    origin: StudyOrigin


class StudyBuild:
    """The build of a study, checked against its folder; `carry_out` writes it.

    `is_finished` means that the study exists and lacks only image files.

    Raises:
        UsageError: If the folder contains anything other than this study.
    """

    def __init__(self, plan: StudyPlan) -> None:
        request, where = plan.request, plan.request.folder
        self._plan, self._folder = plan, where
        self._database = (
            None if request.database is None else study_files.full_url(request.database)
        )
        shared = None if request.secret is None else study_files.read_secret(request.secret)
        self._identity = _identity(plan, self._database, shared)
        began = _look(where, self._identity)
        self.is_finished = (where / study_files.CONFIG).exists()
        if self.is_finished:
            side = read_config(where / study_files.CONFIG).side
            rows = self._shown()
            if len(good_images(plan.testset, rows, where, side)) == len(rows):
                raise UsageError(f"{where} is already a study: choose another folder.")
        if (where / study_files.SECRET).exists():
            self._secret = study_files.read_secret(where / study_files.SECRET)
        else:
            self._secret = shared or study_files.new_secret()
        self._created_at = began or datetime.now(UTC)
        if self._database is not None:
            opened = open_database(self._database, create=True)
            # For its checks: another study of this name is rejected before images are rendered.
            with closing(opened) as database, database.reading() as db:
                self._is_stored(db, plan.config)

    def carry_out(self, images: ImageSet, device: torch.device, text: str, step: Advance) -> int:
        """Build the study and return the number of images it shows.

        `text` is the plan in words, which is stored with the study; `step` is called after each
        image.
        """
        plan, where = self._plan, self._folder
        config = replace(plan.config, side=side_of(plan, images))
        try:
            where.mkdir(exist_ok=True)
            with try_lock(where / RECORD) as ours:
                if not ours:
                    raise UsageError(
                        f"Another run is building {where}: wait until it has finished."
                    )
                remove_leftovers([where, where / study_files.STIMULI])
                self._begin()
                rows = self._shown() if self.is_finished else plan.rows
                digests = make_images(
                    plan.testset, images, rows, where, device=device, side=config.side, step=step
                )
                if not self.is_finished:
                    with atomic_file(where / study_files.PLAN) as temporary:
                        temporary.write_text(text, encoding="utf-8")
                    opened = open_database(study_files.database_url(where), create=True)
                    with closing(opened) as database:
                        self._store(database, config, digests)
                    # Written last: a folder without this file is not yet a study.
                    with atomic_file(where / study_files.CONFIG) as temporary:
                        temporary.write_text(config_text(config), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"Cannot write into {where}: {error.strerror or error}.") from None
        return len(digests)

    def _shown(self) -> set[int]:
        """Return the test-set rows that a finished study shows, even if its image list was lost."""
        return self._plan.rows | recorded_images(self._folder).keys()

    def _begin(self) -> None:
        plan, where = self._plan, self._folder
        request = plan.request
        # The record first: without it, the other files would count as those of another program.
        if not (where / RECORD).exists():
            origin = StudyOrigin(
                testset=request.testset.resolve().name,
                images="demo images" if request.images is None else request.images.resolve().name,
                suite=plan.testset.plan.suite,
                sampling=str(plan.testset.plan.sampling),
                n=plan.testset.plan.n,
                seed=plan.testset.plan.seed,
            )
            record = BuildRecord(began=self._created_at, settings=self._identity, origin=origin)
            with atomic_file(where / RECORD) as temporary:
                temporary.write_text(record.model_dump_json(indent=1), encoding="utf-8")
        if not (where / study_files.SECRET).exists():
            study_files.write_private(where / study_files.SECRET, f"{self._secret.hex()}\n")
        if self._database is not None and not (where / study_files.DATABASE).exists():
            # The database URL may contain a password.
            study_files.write_private(where / study_files.DATABASE, f"{self._database}\n")

    def _is_stored(self, db: Db, config: StudyConfig) -> bool:
        """Return whether this study is already stored, as a resumed build may find it.

        Raises:
            UsageError: If another study has the same name, or the database has a different secret.
        """
        known = db.scalar(select(InstallationRow.secret))
        if known is not None and known != study_files.fingerprint(self._secret):
            raise UsageError(
                "The studies in the database use a different secret, so their participants would"
                " not be recognized: pass --secret with the folder of the first study."
            )
        study = db.scalar(select(StudyRow).where(StudyRow.name == config.name))
        if study is None:
            return False
        if study.created_at != self._created_at:
            raise UsageError(
                f"The database already has a study named '{config.name}': choose another --name."
            )
        return True

    def _store(self, database: Database, config: StudyConfig, digests: Mapping[int, str]) -> None:
        """Write the study in one transaction; `digests` maps test-set rows to pixel SHA-256."""
        try:
            with database.writing() as db:
                if self._is_stored(db, config):
                    return
                if db.scalar(select(InstallationRow.id)) is None:
                    db.add(InstallationRow(id=1, secret=study_files.fingerprint(self._secret)))
                study = StudyRow(
                    name=config.name,
                    config=config.plain(),
                    config_hash=config.digest,
                    status="open",
                    created_at=self._created_at,
                )
                db.add(study)
                db.flush()
                self._add_stimuli(db, study.id, digests)
        except IntegrityError:
            raise UsageError(
                "Another process wrote a study into the database at the same time: run the command"
                " again."
            ) from None

    def _add_stimuli(self, db: Db, study_id: int, digests: Mapping[int, str]) -> None:
        stimuli = self._plan.stimuli
        source_ids = _add_sources(db, stimuli)
        orders = np.random.default_rng(self._plan.request.seed).random(len(stimuli))
        db.add_all(
            StimulusRow(
                study_id=study_id,
                role=planned.role,
                truth=planned.truth,
                capacity=planned.capacity,
                taken=0,
                shuffle=float(order),
                pair=planned.pair,
                images=[
                    StimulusImageRow(
                        place=index,
                        source_id=source_ids[row.digest],
                        row=row.row,
                        corruption=row.corruption,
                        parameters=dict(row.parameters),
                        delta_v=row.delta_v,
                        sha256=digests[row.row],
                    )
                    for index, row in enumerate(planned.images)
                ],
            )
            for planned, order in zip(stimuli, orders, strict=True)
        )


def side_of(plan: StudyPlan, images: ImageSet) -> int:
    """Return the width and height in px of a study's images, which must all be the same."""
    used = {row.digest for planned in plan.stimuli for row in planned.images}
    known = zip(images.digests, images.sizes, images.listed, strict=True)
    sizes = {size: image.name for digest, size, image in known if digest in used}
    not_square = next((size for size in sizes if size[0] != size[1]), None)
    if not_square is not None:
        raise UsageError(
            f"The images of a study must be square, but {sizes[not_square]} is {not_square[1]} ×"
            f" {not_square[0]} px: make the test set with --stimulus 224."
        )
    if len(sizes) > 1:
        (one, _), (two, _) = list(sizes)[:2]
        raise UsageError(
            f"All images of a study must have the same size, but {sizes[one, one]} is {one} px wide"
            f" and {sizes[two, two]} is {two}: make the test set with --stimulus 224."
        )
    # No size at all: none of the images is in the test set, which a later check reports by name.
    return next(iter(sizes), (plan.config.side, 0))[0]


def _identity(plan: StudyPlan, database: str | None, secret: bytes | None) -> StudyIdentity:
    request = plan.request
    # Plain JSON values, as they are read back from the record of the build.
    design: dict[str, JsonValue] = {
        "catch_pool": request.catch_pool, "pairs": [*request.pairs], "per_pair": request.per_pair,
    }  # fmt: skip
    for role, images in plan.chosen.items():
        design[role] = [*sorted(image.digest for image in images)]
    return StudyIdentity(
        config={name: value for name, value in plan.config.plain().items() if name != "side"},
        testset=plan.testset.digest,
        seed=request.seed,
        design=design,
        # Hashed, because the URL may contain a password.
        database=None if database is None else hashlib.sha256(database.encode()).hexdigest()[:16],
        secret=None if secret is None else study_files.fingerprint(secret),
    )


def _look(where: Path, identity: StudyIdentity) -> datetime | None:
    """Return when the build of the study in a folder began, or None for a new study.

    Raises:
        UsageError: If the folder contains anything other than this study.
    """
    if where.exists() and not where.is_dir():
        raise UsageError(f"{where} is a file, but a study must be a folder: choose another name.")
    if not where.parent.is_dir():
        raise UsageError(f"No such folder: {where.parent}.")
    if not where.exists():
        return None
    known = read_record(where / RECORD)
    if known is None:
        # The lock of a build that has not written its record yet.
        mine = (f".{RECORD}.lock",)
        if any(path.name not in mine for path in where.iterdir()):
            raise UsageError(
                f"{where} contains files that are not part of a study: choose another folder."
            )
        return None
    if known.settings != identity:
        if (where / study_files.CONFIG).exists():
            raise UsageError(f"{where} is already a study: choose another folder.")
        raise UsageError(
            f"{where} contains an unfinished study with different settings: delete it, or choose "
            "another folder."
        )
    return known.began


def read_record(path: Path) -> BuildRecord | None:
    """Return the record of a study's build, or None if it cannot be read."""
    try:
        return BuildRecord.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _add_sources(db: Db, stimuli: Sequence[PlannedStimulus]) -> dict[str, int]:
    """Return the ids of source images by digest; missing images are added to the database."""
    wanted = {row.digest: row for planned in stimuli for row in planned.images}
    digests = list(wanted)
    known: dict[str, SourceImageRow] = {}
    for start in range(0, len(digests), AT_ONCE):
        part = digests[start : start + AT_ONCE]
        rows = db.scalars(select(SourceImageRow).where(SourceImageRow.digest.in_(part)))
        known |= {source.digest: source for source in rows}
    for digest, row in wanted.items():
        source = known.get(digest)
        if source is None:
            source = SourceImageRow(digest=digest, name=row.name, category=row.category)
            known[digest] = source
            db.add(source)
        elif row.category and source.category and row.category != source.category:
            raise UsageError(
                f"{row.name} is labeled {row.category}, but it is labeled {source.category} in "
                "another study in the database: correct its label, or pass another --database."
            )
        elif row.category:
            # A same/different study may have stored the image without a category.
            source.category = row.category
    db.flush()
    return {digest: source.id for digest, source in known.items()}
