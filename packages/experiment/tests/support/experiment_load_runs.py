"""Runs a load against a study's server in a process of its own, which is killed now and then."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import cv2
import numpy as np
from sqlalchemy import insert, select

from experiment_load_figures import Load, Result, Summary, summarize
from experiment_studies import Sizes, make_study
from eyechart.images.labels.imagenet import CATEGORIES
from eyechart_experiment.storage.database import open_database
from eyechart_experiment.storage.database_tables import (
    SourceImageRow,
    StimulusImageRow,
    StimulusRow,
    StudyRow,
)
from eyechart_experiment.storage.experiment_folder import StudyFolder, open_study

HERE = Path(__file__).parent
SIDE, NOISY = 224, 20
FAST = (cv2.IMWRITE_PNG_COMPRESSION, 1)
NAME = "load"
RECOVERY_S = 5.0
"""How long after a restart it takes until everybody has asked again: see the page's pauses."""


@dataclass(frozen=True)
class LoadImages:
    """Images of numbered images in a folder, and what they show."""

    folder: Path
    names: tuple[str, ...]

    @property
    def key(self) -> Path:
        """By the digest of the pixels: the category, and the number of the image."""
        return self.folder / "key.json"


def draw(folder: Path, counts: Sizes) -> LoadImages:
    """Write different images of numbered images: of the main part first, then others."""
    folder.mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (NOISY, SIDE, 3), dtype=np.uint8)
    key: dict[str, tuple[str, int]] = {}
    for number, image in enumerate(_images(counts)):
        pixels = np.full((SIDE, SIDE, 3), 128, np.uint8)
        pixels[:NOISY] = noise
        pixels[-1].reshape(-1)[:4] = np.frombuffer(number.to_bytes(4), np.uint8)
        digest = hashlib.sha256(pixels.tobytes()).hexdigest()
        cv2.imwrite(str(folder / f"{digest}.png"), pixels[..., ::-1], FAST)
        key[digest] = (CATEGORIES[image % 16], image)
    (folder / "key.json").write_text(json.dumps(key), encoding="utf-8")
    return LoadImages(folder, tuple(key))


def _images(counts: Sizes) -> list[int]:
    """Return which image each stimulus shows."""
    main = [number for number in range(counts.main) for _ in range(counts.stimuli)]
    others = counts.practice + counts.qualification + counts.catch
    return main + list(range(counts.main, counts.main + others))


def make_load_study(
    path: Path,
    images: LoadImages,
    counts: Sizes,
    url: str | None = None,
    **more: float,
) -> StudyFolder:
    """Return a study of numbered images: first those of the main part, then the others."""
    make_study(path, NAME, Sizes(0, 0, 0, 0, 0), url=url, side=SIDE, **{"min_trials": 1} | more)
    for name in images.names:
        os.link(images.folder / f"{name}.png", path / "stimuli" / f"{name}.png")
    folder = open_study(path)
    roles = ["main"] * counts.main
    for role in ("practice", "qualification", "catch"):
        roles += [role] * getattr(counts, role)
    database = open_database(folder.database_url)
    random = np.random.default_rng(1)
    with database.writing() as db:
        study = db.scalars(select(StudyRow.id)).one()
        sources = [
            {"id": number + 1, "digest": hashlib.sha256(f"p{number}".encode()).hexdigest(),
             "name": f"{number}.png", "category": CATEGORIES[number % 16]}
            for number in range(len(roles))
        ]  # fmt: skip
        db.execute(insert(SourceImageRow), sources)
        stimuli, shown = [], []
        for number, image in enumerate(_images(counts)):
            role = roles[image]
            stimuli.append({
                "id": number + 1, "study_id": study, "role": role, "taken": 0, "pair": None,
                "truth": CATEGORIES[image % 16], "shuffle": float(random.random()),
                "capacity": folder.config.k if role == "main" else None,
            })  # fmt: skip
            shown.append({
                "stimulus_id": number + 1, "place": 0, "source_id": image + 1, "row": 0,
                "corruption": "clean", "parameters": {}, "delta_v": 0.0,
                "sha256": images.names[number],
            })  # fmt: skip
        db.execute(insert(StimulusRow), stimuli)
        db.execute(insert(StimulusImageRow), shown)
    database.close()
    return folder


@contextmanager
def process(*words: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python file of this folder; it is gone afterwards, whatever happened."""
    with log.open("ab") as out:
        one = subprocess.Popen([sys.executable, str(HERE / words[0]), *words[1:]],
                               stdout=subprocess.PIPE, stderr=out)  # fmt: skip
    try:
        yield one
    finally:
        one.kill()
        one.wait()
        assert one.stdout is not None
        one.stdout.close()


class Server:
    """A server process on one port, which can be killed and started again."""

    def __init__(self, folder: StudyFolder, pace: float) -> None:
        self.folder, self.pace = folder, pace
        self.log = folder.path / "server.log"
        self.port = 0
        self._one: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, mode: str = "usual") -> None:
        """Start it and wait until it has its port; one that runs is killed first."""
        self.kill()
        words = [str(self.folder.path), str(self.port), str(self.pace), mode]
        with self.log.open("ab") as out:
            self._one = subprocess.Popen(
                [sys.executable, str(HERE / "experiment_load_server.py"), *words],
                stdout=subprocess.PIPE, stderr=out,
            )  # fmt: skip
        assert self._one.stdout is not None
        line = self._one.stdout.readline()
        assert line, self.log.read_text(encoding="utf-8")
        self.port = int(line)

    def kill(self) -> None:
        """End it as a loss of power to the process would: signal 9."""
        if self._one is not None:
            self._one.kill()
            self._one.wait()
            assert self._one.stdout is not None
            self._one.stdout.close()
            self._one = None


def run_load(server: Server, load: Load, kills_at: Sequence[float] = ()) -> tuple[Summary, Result]:
    """Run a load; the server is killed and started again after so many seconds each."""
    path = server.folder.path
    given, target = path / "load.json", path / "result.json"
    given.write_text(json.dumps(asdict(load)), encoding="utf-8")
    began = time.monotonic()
    with process("experiment_load.py", str(given), str(target), log=path / "load.log") as crowd:
        away = []
        for moment in kills_at:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            if crowd.poll() is not None:
                break
            killed = time.time()
            server.kill()
            server.start()
            away.append((killed, time.time() + RECOVERY_S))
        crowd.wait(timeout=load.seconds + 90)
    assert crowd.returncode == 0, (path / "load.log").read_text(encoding="utf-8")
    result = Result(**json.loads(target.read_text(encoding="utf-8")))
    return summarize(result, away), result
