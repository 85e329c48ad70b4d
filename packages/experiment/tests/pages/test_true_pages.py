"""What pages say is true, and a double click on a button does not answer the page that follows."""

from pathlib import Path

import pytest
import yaml
from sqlalchemy import select, update

from browser import launched, skip_without_browser

skip_without_browser()

from experiment_pages import new_page, place  # noqa: E402
from experiment_visits import study_texts  # noqa: E402
from eyechart_experiment.design.study_settings import StudyRequest, gather_settings  # noqa: E402
from eyechart_experiment.languages import LANGUAGES, read_texts  # noqa: E402
from eyechart_experiment.server.routes import is_built  # noqa: E402
from eyechart_experiment.server.sessions import PARTS_OF_NAMES, changes_of  # noqa: E402
from eyechart_experiment.storage.database_tables import (  # noqa: E402
    ParticipantRow,
    SessionRow,
    StimulusImageRow,
    StimulusRow,
    StudyRow,
)
from eyechart_experiment.storage.withdrawal import withdraw  # noqa: E402
from places import ROOT  # noqa: E402

if not is_built():
    pytest.skip("no pages: run make frontend", allow_module_level=True)

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
# When each page appeared, and when each click was received, on the page's own clock.
CLOCK = """
window.pages = {}; window.clicks = [];
new MutationObserver(() => {
  const name = document.querySelector('[data-screen]')?.dataset.screen;
  const isThere = document.querySelector('article.sheet');
  if (name && isThere && !(name in window.pages)) window.pages[name] = performance.now();
}).observe(document, {subtree: true, childList: true, attributes: true});
window.addEventListener('pointerdown', event => window.clicks.push(performance.now()), true);
"""


@pytest.fixture(scope="module")
def browser():
    with launched() as one:
        yield one


@pytest.mark.parametrize(
    ("width", "height"), [(1024, 600), (1280, 800), (1366, 768), (1440, 900), (1920, 1080)]
)
def test_a_second_click_within_400_ms_does_not_answer_the_next_page(
    browser, tmp_path, width, height
):
    size = {"width": width, "height": height}
    with place(tmp_path, survey="eyesight") as here:
        for _ in range(10):
            with new_page(browser, here, viewport=size) as page:
                page.add_init_script(CLOCK)
                page.goto(here.address())
                page.wait_for_selector("[data-screen='consent'] [data-action='agree']")
                page.wait_for_timeout(450)
                page.locator("[data-action='agree']").click()
                # known only now: the page is laid out when it appears
                box = page.locator("[data-action='eyesight-corrected']").bounding_box()
                point = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
                page.mouse.click(*point)
                shown, clicked = page.evaluate("[window.pages.eyesight, window.clicks.at(-1)]")
                page.wait_for_timeout(600)
                is_quick = clicked - shown < 350
                if is_quick:
                    assert page.locator("[data-screen='eyesight']").count() == 1
                    assert here.count(SessionRow) == 0
                    # later, a click answers
                    page.mouse.click(*point)
                    page.wait_for_selector("[data-screen='instructions']")
                    return
        pytest.fail("no click was fast enough to try this")


def test_keys_are_not_held_up(browser, tmp_path):
    with place(tmp_path, survey="eyesight") as here, new_page(browser, here) as page:
        page.goto(here.address())
        for action in ("agree", "eyesight-normal"):
            page.locator(f"[data-action='{action}']").press("Enter")
        page.wait_for_selector("[data-screen='instructions']")


@pytest.mark.parametrize("language", LANGUAGES)
def test_who_is_withdrawn_during_a_session_reads_that_the_responses_are_deleted(
    browser, tmp_path, language
):
    texts = read_texts(language)
    with (
        place(tmp_path, **study_texts(language) | {"survey": "none"}) as here,
        new_page(browser, here) as page,
    ):
        page.goto(here.address())
        page.locator("[data-action='agree']").click()
        code = page.locator("[data-code='participant']").inner_text()
        withdraw(here.study, code.strip())
        page.locator("[data-action='start']").click()
        page.wait_for_selector("[data-screen='withdrawn'], [data-screen='another-tab']")
        assert texts["withdrawn.heading"] in page.inner_text("h1")
        assert here.count(ParticipantRow) == 0
        # whoever wants to may take part again
        page.reload()
        page.wait_for_selector("[data-screen='consent']")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_closed_study_says_that_it_is_closed(browser, tmp_path, language):
    texts = read_texts(language)
    with place(tmp_path, language=language) as here, new_page(browser, here) as page:
        with here.database.writing() as db:
            db.execute(update(StudyRow).values(status="closed"))
        page.goto(here.address())
        page.wait_for_selector("[data-screen='closed'], [data-screen='full']")
        assert page.inner_text("h1") == texts["rejected.closed.heading"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_phone_shows_the_link_to_copy(browser, tmp_path, language):
    with place(tmp_path, language=language) as here, new_page(browser, here, **PHONE) as page:
        address = here.address(PROLIFIC_PID="abc", STUDY_ID="s", SESSION_ID="x")
        page.goto(address)
        assert page.locator("[data-screen='phone'] [data-code='link']").inner_text() == address
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator(".codebox button").tap()
        page.wait_for_timeout(100)
        assert page.evaluate("navigator.clipboard.readText()") == address
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_last_page_names_the_corruptions_of_the_study_and_no_other(browser, tmp_path, language):
    texts = read_texts(language)
    with place(tmp_path, language=language) as here, new_page(browser, here) as page:
        with here.database.writing() as db:
            main = select(StimulusRow.id).where(StimulusRow.role == "main")
            for number, name in enumerate(("vcr/median_blur", "frost", "clean")):
                own = main.where(StimulusRow.id % 3 == number)
                db.execute(
                    update(StimulusImageRow)
                    .where(StimulusImageRow.stimulus_id.in_(own))
                    .values(corruption=name)
                )
        page.goto(here.address())
        assert here.go(page) == "debrief"
        words = page.locator("[data-screen='debrief'] .prose, .prose").first.inner_text()
        for key, word in texts.items():
            if key.startswith("debrief.change."):
                assert (word in words) == (key in ("debrief.change.blur", "debrief.change.frost"))


def test_there_is_a_word_for_every_corruption():
    files = (ROOT / "src" / "eyechart" / "corruptions" / "suites" / "data").glob("*.yaml")
    suites = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    names = [one["name"] for suite in suites for one in suite["corruptions"] if "name" in one]
    assert len(names) > 50
    assert [name for name in names if changes_of([name]) == ["other"]] == []
    # each part of a name is needed
    assert [part for part in PARTS_OF_NAMES if not any(part in name for name in names)] == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", ["categorise", "same-different"])
def test_the_default_consent_says_that_the_answer_about_eyesight_is_stored(language, kind):
    request = StudyRequest(folder=Path("blur"), testset=Path("t.parquet"))
    options = {"language": language, "kind": kind}
    word = read_texts(language)["study.consent.eyesight"]
    assert {"en": "how well you see, and store", "de": "speichern"}[language] in word
    assert word in gather_settings(request, options)[0].consent
    without = gather_settings(request, options | {"survey": "none"})[0].consent
    assert word not in without
