"""Whole visits in both languages, by keys alone, in small windows, and open to all."""

from time import monotonic

import pytest
from sqlalchemy import select

from browser import AXE, SCREENSHOTS, Opened, launched, skip_without_browser, violations

skip_without_browser()

from experiment_pages import new_page, place  # noqa: E402
from experiment_studies import Visitor, in_process, make_study  # noqa: E402
from eyechart.experiment.export.study_export import export  # noqa: E402
from eyechart.experiment.languages import read_texts  # noqa: E402
from eyechart.experiment.server.routes import is_built  # noqa: E402
from eyechart.experiment.simulate.browser_robots import LOOK  # noqa: E402
from eyechart.experiment.storage.database_tables import (  # noqa: E402
    ParticipantRow,
    ResponseRow,
    SessionRow,
)
from eyechart.experiment.storage.withdrawal import withdraw  # noqa: E402

if not is_built():
    pytest.skip("no pages: run make frontend", allow_module_level=True)

LAPTOP, NETBOOK = {"width": 1440, "height": 900}, {"width": 1024, "height": 600}
# what 200 % leaves of a window of 1440 × 900
ENLARGED = {"viewport": {"width": 720, "height": 450}, "device_scale_factor": 2}
OUTER_WIDTH = "Object.defineProperty(window, 'outerWidth', { value: 1440 })"
BEYOND = """() => {
  const root = document.documentElement;
  const beyond = [...document.querySelectorAll('#app *')].filter(each => {
    const box = each.getBoundingClientRect();
    const shown = each.offsetParent && getComputedStyle(each).visibility !== 'hidden';
    return shown && (box.right > innerWidth + 1 || box.left < -1
      || (each.clientWidth && each.scrollWidth > each.clientWidth + 1));
  });
  return {
    wide: root.scrollWidth - innerWidth, high: root.scrollHeight - innerHeight,
    beyond: beyond.map(each => `${each.tagName}.${each.className}`),
  };
}"""
MADE = {
    "survey": "eyesight", "institution": "Institute of Vision", "approval": "2026-117",
    "contact": "lab@example.org", "payment": "2.00 EUR",
}  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with launched() as one:
        yield one


class Walk:
    """A visit by keys alone: Tab and Enter on pages, one key in trials.

    Screenshots are kept under `name`, unless it is empty.
    """

    def __init__(self, page, name):
        self.page, self.name = page, name
        self.screens, self.found = [], []

    def until_the_end(self, scrolls=()):
        began, declined = monotonic(), False
        while True:
            assert monotonic() - began < 100, self.screens
            seen = self.page.evaluate(LOOK)
            screen = seen["screen"]
            if screen == "trial" and seen["phase"] == "response":
                self.look("trial", scrolls)
                self.page.keyboard.press("f")
            elif screen not in ("", "trial", "waiting"):
                self.look(screen, scrolls)
                if screen in ("debrief", "failed"):
                    return
                if screen == "consent" and not declined:
                    declined = True
                    self.press("decline")
                elif screen == "declined":
                    self.press("reconsider")
                elif seen["action"]:
                    self.press(seen["action"])
            self.page.wait_for_timeout(20)

    def press(self, action):
        """Reach a button with Tab, as somebody without a pointer does, and press it."""
        for _ in range(12):
            self.page.keyboard.press("Tab")
            focused = self.page.evaluate("document.activeElement?.dataset.action ?? ''")
            if focused == action:
                self.page.keyboard.press("Enter")
                return
            if self.page.locator(f"[data-action='{action}']").count() == 0:
                return
        raise AssertionError(f"{action} cannot be reached by keys")

    def look(self, screen, scrolls):
        if screen in self.screens:
            return
        self.screens.append(screen)
        size = self.page.evaluate(BEYOND)
        if size["wide"] > 0 or size["beyond"] or (size["high"] > 0 and screen not in scrolls):
            self.found.append((screen, size))
        if AXE.exists() and screen not in ("trial", "feedback"):
            self.found += [(screen, each) for each in violations(Opened(self.page))]
        if self.name:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            path = SCREENSHOTS / f"experiment-{self.name}-{screen}.png"
            self.page.screenshot(path=path, full_page=True)


def visit(browser, tmp_path, language, kind, name, scrolls=(), **settings):
    texts = read_texts(language)
    consent = texts[f"study.consent.{kind}"].replace("{minutes}", "8")
    made = MADE | {"language": language, "kind": kind, "consent": consent, "pass_share": 0.0}
    made |= {"title": texts[f"study.title.{kind}"], "side": 224}
    with place(tmp_path, **made) as here, new_page(browser, here, **settings) as page:
        page.add_init_script(OUTER_WIDTH)
        page.goto(here.address())
        walk = Walk(page, name and f"{language}-{kind}-{name}")
        walk.until_the_end(scrolls)
        assert walk.found == []
        expected = {"consent", "declined", "eyesight", "instructions", "trial", "break", "debrief"}
        assert expected <= set(walk.screens)
        assert page.evaluate("document.documentElement.lang") == language
        assert texts["debrief.heading"] in page.inner_text("h1")
        here.check()
        with here.database.reading() as db:
            assert db.scalar(select(SessionRow.eyesight)) == "normal"
            # whatever participants read, data have the same names
            wanted = {"keyboard", "bird", "same", "different"}
            assert set(db.scalars(select(ResponseRow.choice))) <= wanted


def test_a_german_visit_by_keys_fits_a_small_screen_and_is_open_to_all(browser, tmp_path):
    visit(browser, tmp_path, "de", "categorise", "", viewport=NETBOOK)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["categorise", "same-different"])
@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("name", ["1440", "1024", "enlarged"])
def test_every_visit_fits_its_window_and_is_open_to_all(browser, tmp_path, language, kind, name):
    settings = {
        "1440": {"viewport": LAPTOP}, "1024": {"viewport": NETBOOK}, "enlarged": ENLARGED,
    }[name]  # fmt: skip
    # enlarged text may need scrolling, in one direction only
    scrolls = ("consent", "instructions", "debrief", "break") if name == "enlarged" else ()
    visit(browser, tmp_path, language, kind, name, scrolls, **settings)


def test_bad_ids_end_before_the_consent_and_who_leaves_early_has_the_code(browser, tmp_path):
    with place(tmp_path) as here, new_page(browser, here) as page:
        page.goto(here.address(PROLIFIC_PID="a b<c", STUDY_ID="s", SESSION_ID="x"))
        page.wait_for_selector("[data-screen='bad-link'], [data-screen='consent']")
        assert page.locator("[data-screen='bad-link']").count() == 1
        page.goto(here.address(PROLIFIC_PID="abc", STUDY_ID="s", SESSION_ID="x"))
        page.wait_for_selector("[data-screen='consent']")
        assert here.count(ParticipantRow) == 0
        page.locator("[data-action='agree']").click()
        code = page.locator("[data-screen='instructions'] [data-code='participant']").inner_text()
        page.close()
        assert here.count(ParticipantRow) == 1
        # the code alone deletes everything
        withdraw(here.database, here.folder.secret, code)
        assert here.count(ParticipantRow) == 0


def test_eyesight_is_exported_as_a_covariate(tmp_path):
    folder = make_study(tmp_path / "study")
    with in_process(folder) as client:
        for number, eyesight in enumerate(["corrected", None, "sharp"]):
            ids = {"platform": "link", "ids": {"client": f"c{number}"}}
            body = ids | {"consent": True, "eyesight": eyesight}
            reply = client.post("/api/studies/small/sessions", json=body)
            assert reply.status_code == (422 if eyesight == "sharp" else 201)
            if reply.status_code == 201:
                visitor = Visitor(client, token=reply.json()["token"])
                visitor.claim()
                visitor.response(visitor.next()["trial"]["id"])
            # nobody is asked twice, so a second answer changes nothing
            again = client.post("/api/studies/small/sessions", json=body | {"eyesight": "impaired"})
            assert again.status_code in (200, 201)
    out = export(folder).out
    head, *rows = (out / "trials.csv").read_text(encoding="utf-8").splitlines()
    column = head.split(",").index("eyesight")
    assert [row.split(",")[column] for row in rows] == ["corrected", ""]
