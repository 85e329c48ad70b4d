"""A study that is served to a real browser, and robots or keys that take part in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import func, select

from experiment_studies import Sizes, make_study
from eyechart_experiment.design.psychometric import Psychometric
from eyechart_experiment.simulate.robots import Robot
from eyechart_experiment.simulate.simulation import serving, take_part
from eyechart_experiment.storage.database_tables import (
    ResponseRow,
    SessionRow,
    StimulusImageRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy, connect_study

QUICK = {
    "practice": 1, "qualification": 1, "catch": 1, "trials": 4, "block": 3, "side": 64, "k": 50,
    "fixation_ms": 60, "stimulus_ms": 100, "mask_ms": 60, "response_ms": 0, "show_ms": 0,
}  # fmt: skip
PLANNED = 7
SURE = Psychometric(middle=2.0, lapse=0.0, tell=1.0)


class Place:
    """A study that is served, with what the tests look at."""

    def __init__(self, study: OpenStudy, base: str) -> None:
        self.study, self.base = study, base
        self.study, self.folder, self.database = study, study.folder, study.database
        self.problems: list[str] = []

    def address(self, **ids: str) -> str:
        return f"{self.base}/s/{self.folder.config.name}" + (f"?{urlencode(ids)}" if ids else "")

    def watch(self, page: Any) -> Any:
        """Note whatever goes wrong in a page; the policy's rejections are errors of the console."""
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on(
            "console",
            lambda said: self.problems.append(said.text) if is_problem(said) else None,
        )
        return page

    def go(self, page: Any, robot: Robot | None = None, **more: Any) -> str:
        robot = robot or Robot("attentive", (1,), SURE)
        return take_part(page, robot, self.study, **more)

    def count(self, table: Any, *conditions: Any) -> int:
        with self.database.reading() as db:
            return db.scalar(select(func.count()).select_from(table).where(*conditions))

    def check(self, planned: int = PLANNED, humans: int = 1) -> None:
        """Every response is there once; an image comes again only where its trial was dropped."""
        assert self.count(TrialRow, TrialRow.state == "responded") == planned * humans
        assert self.count(TrialRow, TrialRow.state == "live") == 0
        assert self.count(ResponseRow) == planned * humans
        with self.database.reading() as db:
            rows = db.execute(
                select(
                    SessionRow.participant_id,
                    StimulusImageRow.source_id,
                    TrialRow.stimulus_id,
                    TrialRow.state,
                )
                .select_from(TrialRow)
                .join(SessionRow)
                .join(StimulusImageRow, StimulusImageRow.stimulus_id == TrialRow.stimulus_id)
            ).all()
        responded = [row[:2] for row in rows if row.state == "responded"]
        assert len(responded) == len(set(responded))
        # never another version of the same image
        assert len({row[:2] for row in rows}) == len({row[:3] for row in rows})
        assert not self.problems


def is_problem(said: Any) -> bool:
    # a reply that is lost or rejected is noted by the browser itself
    return said.type in ("error", "warning") and "Failed to load resource" not in said.text


@contextmanager
def place(tmp_path: Path, more_hosts: tuple[str, ...] = (), **config: Any) -> Iterator[Place]:
    # every reload gives up what was fetched ahead, so there must be plenty
    sizes = Sizes(main=60, stimuli=1, practice=24, qualification=24, catch=24)
    folder = make_study(tmp_path / "study", sizes=sizes, **(QUICK | config))
    with connect_study(folder) as study, serving(folder, more_hosts=more_hosts) as base:
        yield Place(study, base)


@contextmanager
def new_page(browser: Any, where: Place, **settings: Any) -> Iterator[Any]:
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | settings)
    try:
        yield where.watch(context.new_page())
    finally:
        context.close()
