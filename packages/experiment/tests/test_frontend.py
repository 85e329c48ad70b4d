"""The built pages of the experiment: what they are made of, and how they behave in a browser."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from browser import AXE, Opened, launched, skip_without_browser, violations
from experiment_studies import Sizes, make_study
from experiment_timing import served
from eyechart_experiment.server.routes import is_built
from eyechart_experiment.storage.database import open_database
from eyechart_experiment.storage.database_tables import ParticipantRow, ResponseRow, SessionRow
from eyechart_experiment.storage.experiment_folder import StudyFolder
from places import EXPERIMENT, PACKAGE

FRONTEND = EXPERIMENT / "frontend"

needs_pages = pytest.mark.skipif(not is_built(), reason="no pages: make frontend")


def test_the_lock_file_names_no_host_and_all_versions_are_exact() -> None:
    lock = (FRONTEND / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock
    assert lock.count('"integrity"') > 5
    package = json.loads((FRONTEND / "package.json").read_text(encoding="utf-8"))
    for name, version in (package["dependencies"] | package["devDependencies"]).items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), name


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    page = (PACKAGE / "pages" / "study.html").read_text(encoding="utf-8")
    assert "<style" not in page and " style=" not in page and " on" not in page.lower()
    assert re.findall(r"<script([^>]*)>([^<]*)<", page) == [(' src="/assets/app.js" defer', "")]
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == [
        "data:,",
        "/assets/app.css",
        "/assets/app.js",
    ]


@needs_pages
def test_the_built_files_are_small_and_bring_no_fonts_and_load_nothing_from_outside() -> None:
    script = (PACKAGE / "static" / "app.js").read_text(encoding="utf-8")
    style = (PACKAGE / "static" / "app.css").read_text(encoding="utf-8")
    assert len(script) < 150_000 and len(style) < 20_000
    assert "@font-face" not in style and "url(" not in style and "@import" not in style
    # the name of SVG, and addresses in the words of jsPsych's messages and citation
    hosts = set(re.findall(r"https?://([^/\"'`\\ ]+)", script))
    assert hosts <= {"www.w3.org", "www.jspsych.org", "doi.org", "joss.theoj.org"}
    assert not re.search(r"\beval\(|new Function\(|importScripts", script)
    assert "Permission is hereby granted" in script


@pytest.mark.skipif(
    shutil.which("npm") is None or not (FRONTEND / "node_modules").exists(),
    reason="no npm packages: make frontend",
)
def test_the_parts_that_need_no_browser_do_what_they_say() -> None:
    done = subprocess.run(
        ["npm", "test", "--silent"], cwd=FRONTEND, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


class Person:
    """Somebody in front of the page."""

    def __init__(self, browser: Any, address: str, width: int = 1024, **settings: Any) -> None:
        size = {"width": width, "height": 700}
        self.context = browser.new_context(viewport=size, **settings)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.opened = Opened(self.page)
        self.page.on("pageerror", lambda error: self.opened.problems.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", lambda request: self.opened.requests.append(request.url))
        self.page.goto(address)

    def _note(self, said: Any) -> None:
        if said.type in ("error", "warning"):
            self.opened.problems.append(said.text)

    def sees(self, screen: str) -> None:
        self.page.wait_for_selector(f'#app[data-screen="{screen}"]')

    def does(self, action: str) -> None:
        self.page.click(f'[data-action="{action}"]')

    def begins(self) -> None:
        self.sees("consent")
        self.does("agree")
        self.sees("instructions")
        self.does("start")

    def waits_for(self, phase: str, after: str = "") -> str:
        """Wait for a phase of a trial other than `after`; return the trial's id."""
        trial = f'.stage[data-phase="{phase}"]' + (f':not([data-trial="{after}"])' if after else "")
        found = self.page.wait_for_selector(trial)
        return str(found.get_attribute("data-trial"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    skip_without_browser()
    with launched() as found:
        yield found


@pytest.fixture
def study(tmp_path: Path) -> StudyFolder:
    nothing = {"practice": 0, "qualification": 0, "catch": 0}
    times = {"fixation_ms": 400, "stimulus_ms": 50, "mask_ms": 50, "response_ms": 800}
    return make_study(
        tmp_path / "study", sizes=Sizes(12), trials=4, block=2, **(nothing | times), contact="us"
    )


def stored(folder: StudyFolder, table: Any) -> list[Any]:
    database = open_database(folder.database_url)
    with database.reading() as db:
        rows = list(db.scalars(select(table)).all())
        for row in rows:
            db.expunge(row)
    database.close()
    return rows


@needs_pages
def test_the_last_response_counts_by_key_or_pointer_and_none_is_none(
    study: StudyFolder, browser: Any
) -> None:
    with served(study) as address:
        person = Person(browser, address)
        page = person.page
        person.begins()
        first = person.waits_for("response")
        page.keyboard.press("q")
        page.click('[data-choice="dog"]')
        second = person.waits_for("response", first)
        page.click('[data-choice="dog"]')
        page.keyboard.press("2")
        person.sees("break")
        (own,) = page.locator("[data-code='participant']").all_inner_texts()
        assert page.locator("progress").get_attribute("value") == "2"
        assert "%" in page.inner_text(".share")
        person.does("continue")
        third = person.waits_for("response", second)
        # too early for the fourth, and then no key of the grid
        person.waits_for("fixation", third)
        page.keyboard.press("1")
        person.waits_for("response", third)
        page.keyboard.press("p")
        person.sees("debrief")
        (code,) = page.locator("[data-code]").all_inner_texts()
        person.context.close()
    responses = sorted(stored(study, ResponseRow), key=lambda row: row.received_at)
    assert [row.choice for row in responses] == ["dog", "bicycle", "", ""]
    assert [row.rt_ms is None for row in responses] == [False, False, True, True]
    assert all(0 <= row.rt_ms <= 900 for row in responses[:2])
    assert own == stored(study, ParticipantRow)[0].code and len(code) >= 6 and code != own
    for row in responses:
        order = [
            row.stamps[name]
            for name in ("fixation", "stimulus", "blank", "mask", "response", "end")
        ]
        assert order == sorted(order) and order[0] == 0
        assert row.stamps["end"] - row.stamps["response"] == pytest.approx(800, abs=40)
    assert 10 < stored(study, SessionRow)[0].hz < 500


@needs_pages
def test_every_page_can_be_used_by_all_and_nothing_is_fetched_from_elsewhere(
    study: StudyFolder, browser: Any
) -> None:
    with served(study) as address:
        person = Person(browser, address)
        page = person.page
        before = page.evaluate("() => Object.keys(window)")
        person.sees("consent")
        found = violations(person.opened.page) if AXE.exists() else []
        person.does("agree")
        person.sees("instructions")
        found += violations(person.opened.page) if AXE.exists() else []
        assert page.locator(".sample .choice").count() == 16
        drawn = page.eval_on_selector_all(
            ".sample .choice svg", "all => all.map(each => each.getBBox().width)"
        )
        assert len(drawn) == 16 and min(drawn) > 25
        assert page.evaluate("() => document.documentElement.scrollHeight <= innerHeight")
        person.does("start")
        person.sees("break")
        found += violations(person.opened.page) if AXE.exists() else []
        person.does("continue")
        person.sees("debrief")
        found += violations(person.opened.page) if AXE.exists() else []
        assert found == []
        assert person.opened.problems == []
        host = address.split("/s/")[0]
        assert {url.split("/api/")[0].split("/assets/")[0] for url in person.opened.requests} <= {
            host, address, "data:,",
        }  # fmt: skip
        # nothing by which a visitor could reach into the study
        page.goto(f"{host}/healthz")
        usual = page.evaluate("() => Object.keys(window)")
        assert set(before) - set(usual) <= {"jsPsych"}
        person.context.close()


@needs_pages
def test_a_small_screen_or_a_finger_is_rejected_kindly_and_nothing_is_made(
    study: StudyFolder, browser: Any
) -> None:
    with served(study) as address:
        narrow = Person(browser, address, width=900)
        narrow.sees("phone")
        assert "900" in narrow.page.inner_text("article")
        narrow.page.set_viewport_size({"width": 1100, "height": 700})
        narrow.sees("consent")
        phone = Person(browser, address, width=390, has_touch=True, is_mobile=True)
        phone.sees("phone")
        preview = Person(browser, f"{address}?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=H")
        preview.sees("preview")
        assert preview.page.locator("button").count() == 0
        for each in (narrow, phone, preview):
            each.context.close()
    database = open_database(study.database_url)
    with database.reading() as db:
        assert db.scalar(select(func.count()).select_from(ParticipantRow)) == 0
    database.close()
