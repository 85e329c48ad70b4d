"""Small studies for tests: real folders, files and databases, with images of noise."""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from PIL import Image
from sqlalchemy import select

from eyechart.images.labels.imagenet import CATEGORIES
from eyechart_experiment.storage.database import open_database
from eyechart_experiment.storage.database_tables import (
    InstallationRow,
    SourceImageRow,
    StimulusImageRow,
    StimulusRow,
    StudyRow,
)
from eyechart_experiment.storage.experiment_folder import StudyFolder, open_study
from eyechart_experiment.study_config import StudyConfig, config_from, config_text

SIDE = 24
SMALL = {
    "practice": 2, "qualification": 4, "catch": 2, "trials": 8, "block": 5, "side": SIDE, "k": 2,
    "clean_k": 2, "fixation_ms": 0, "stimulus_ms": 50, "mask_ms": 0, "response_ms": 0,
    "prolific_code": "CDONE", "prolific_failed": "CFAIL",
}  # fmt: skip
CORRUPTIONS = ("vcr/gaussian_noise", "vcr/median_blur")


@dataclass(frozen=True)
class Sizes:
    """How many images a study has for each role; main ones have so many stimuli each."""

    main: int = 40
    stimuli: int = 2
    practice: int = 8
    qualification: int = 8
    catch: int = 8


def make_study(
    path: Path,
    name: str = "small",
    sizes: Sizes | None = None,
    url: str | None = None,
    secret: str | None = None,
    **more: Any,
) -> StudyFolder:
    """Write a study's folder and database and return it; `more`: of StudyConfig."""
    config = config_from({"name": name, "title": "A small study", **SMALL, **more}, "a test")
    (path / "stimuli").mkdir(parents=True)
    (path / "study.yaml").write_text(config_text(config), encoding="utf-8")
    (path / "secret").write_text(secret or secrets.token_hex(32))
    (path / "secret").chmod(0o600)
    if url is not None:
        (path / "database.txt").write_text(url + "\n")
    folder = open_study(path)
    database = open_database(folder.database_url, create=True)
    with database.writing() as db:
        if db.scalar(select(InstallationRow)) is None:
            fingerprint = hashlib.sha256(folder.secret).hexdigest()
            db.add(InstallationRow(secret=fingerprint))
        study = StudyRow(
            name=name,
            config=config.plain(),
            config_hash=config.digest,
            status="open",
            created_at=datetime.now(UTC),
        )
        db.add(study)
        db.flush()
        _fill(db, path, config, study, sizes or Sizes())
    database.close()
    return folder


def _fill(db: Any, path: Path, config: StudyConfig, study: StudyRow, sizes: Sizes) -> None:
    random = np.random.default_rng(0)
    pairs = config.kind == "same-different"
    number = 0
    for role in ("main", "practice", "qualification", "catch"):
        for _ in range(getattr(sizes, role)):
            category = CATEGORIES[number % 16]
            sources = [_source(db, number, category)]
            number += 1
            if pairs:
                sources.append(_source(db, number, category))
                number += 1
            for each in range(sizes.stimuli if role == "main" else 1):
                _stimulus(db, path, config, study, role, sources, each, random)


def _source(db: Any, number: int, category: str) -> SourceImageRow:
    digest = hashlib.sha256(f"image {number}".encode()).hexdigest()
    known = db.scalar(select(SourceImageRow).where(SourceImageRow.digest == digest))
    if known is None:
        known = SourceImageRow(digest=digest, name=f"{category}-{number}.png", category=category)
        db.add(known)
        db.flush()
    return known


def _stimulus(
    db: Any,
    path: Path,
    config: StudyConfig,
    study: StudyRow,
    role: str,
    sources: list[SourceImageRow],
    each: int,
    random: np.random.Generator,
) -> None:
    same = bool(random.integers(2))
    truth = sources[0].category
    if len(sources) == 2:
        truth = "same" if same else "different"
    stimulus = StimulusRow(
        study_id=study.id,
        role=role,
        truth=truth,
        capacity=config.k if role == "main" else None,
        taken=0,
        shuffle=float(random.random()),
        pair="|".join(CORRUPTIONS) if len(sources) == 2 else None,
    )
    db.add(stimulus)
    db.flush()
    for place, source in enumerate(sources):
        # the first of an image's stimuli is the clean one, as in a study that was drawn
        is_clean = role != "main" or (each == 0 and len(sources) == 1)
        other = place if not same else 0
        corruption = "clean" if is_clean else CORRUPTIONS[(each + other) % 2]
        db.add(
            StimulusImageRow(
                stimulus_id=stimulus.id,
                place=place,
                source_id=source.id,
                row=stimulus.id,
                corruption=corruption,
                parameters={"strength": 0.5},
                delta_v=0.0 if is_clean else float(random.uniform(0.05, 0.95)),
                sha256=_write(path, config.side, random),
            )
        )


def _write(path: Path, side: int, random: np.random.Generator) -> str:
    pixels = random.integers(0, 256, (side, side, 3), dtype=np.uint8)
    name = hashlib.sha256(pixels.tobytes()).hexdigest()
    Image.fromarray(pixels).save(path / "stimuli" / f"{name}.png")
    return name


def stamps_of(rt_ms: float) -> dict[str, float]:
    """Return the stamps that a page sends for a trial with the durations of SMALL."""
    onsets = {"stimulus": 0.0, "blank": 50.0, "response": 66.7}
    return {**onsets, "end": 66.7 + min(rt_ms, 3_000_000.0), "hz": 60.0}


@dataclass
class Visitor:
    """A participant without a browser: speaks to the server as the page does."""

    client: Any
    study: str = "small"
    platform: str = "link"
    ids: dict[str, str] | None = None
    token: str = ""
    tab: str = ""
    browser: str = field(default_factory=lambda: str(uuid4()))

    def join(self, expect: int = 201, **more: Any) -> Any:
        if self.ids is None:
            self.ids = {"client": str(uuid4())}
        body = {"platform": self.platform, "ids": self.ids, "consent": True, "screen": {},
                "browser": self.browser} | more  # fmt: skip
        reply = self.client.post(f"/api/studies/{self.study}/sessions", json=body)
        assert reply.status_code == expect, reply.text
        if reply.status_code in (200, 201):
            self.token = reply.json()["token"]
        return reply.json()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "X-Tab": self.tab}

    def claim(self) -> Any:
        self.tab = str(uuid4())
        body = {"tab": self.tab, "hz": 60}
        return self.client.post("/api/session/tab", json=body, headers=self.headers)

    def begin(self) -> "Visitor":
        self.join()
        assert self.claim().status_code == 200
        return self

    def ask(self, key: str | None = None) -> Any:
        body = {"key": key or str(uuid4())}
        return self.client.post("/api/trials", json=body, headers=self.headers)

    def next(self, key: str | None = None) -> Any:
        reply = self.ask(key)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def image(self, name: str) -> Any:
        return self.client.get(f"/api/images/{name}", headers=self.headers)

    def response(self, trial: str, choice: str = "cat", **more: Any) -> Any:
        body = {"uuid": str(uuid4()), "choice": choice, "rt_ms": 500.0, "flags": []} | more
        return self.put(trial, {"stamps": stamps_of(body["rt_ms"] or 0.0)} | body)

    def put(self, trial: str, body: dict[str, Any]) -> Any:
        return self.client.put(f"/api/trials/{trial}/response", json=body, headers=self.headers)

    def state(self) -> Any:
        return self.client.get("/api/session", headers=self.headers).json()

    def finish(self) -> Any:
        return self.client.post("/api/session/finish", headers=self.headers)


@contextmanager
def in_process(folder: StudyFolder, **options: Any) -> Iterator[Any]:
    """Give a client of the study's server, which runs in this process."""
    from starlette.testclient import TestClient

    from eyechart_experiment.server.request_limits import RateLimit
    from eyechart_experiment.server.routes import make_app
    from eyechart_experiment.storage.experiment_folder import connect_study

    study = connect_study(folder)
    database = study.database
    plenty = RateLimit(1e6, 1e6)
    options = {"per_token": plenty, "per_address": plenty, "joins": plenty} | options
    with TestClient(make_app(study, **options)) as client:
        client.database, client.study = database, study
        yield client
    database.close()
