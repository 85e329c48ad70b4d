"""Whole visits in both languages, by keys alone, in small windows, and open to all."""

import pytest
from sqlalchemy import select

from browser import launched, skip_without_browser

skip_without_browser()

from experiment_pages import new_page, place  # noqa: E402
from experiment_studies import Visitor, in_process, make_study  # noqa: E402
from experiment_visits import (  # noqa: E402
    NETBOOK,
    OUTER_WIDTH,
    SCROLLED_WHEN_ENLARGED,
    SLOW_FEEDBACK,
    WINDOWS,
    Look,
    Walk,
    study_texts,
)
from eyechart_experiment.export.study_export import export  # noqa: E402
from eyechart_experiment.languages import read_texts  # noqa: E402
from eyechart_experiment.server.routes import is_built  # noqa: E402
from eyechart_experiment.storage.database_tables import (  # noqa: E402
    ParticipantRow,
    ResponseRow,
    SessionRow,
)
from eyechart_experiment.storage.withdrawal import withdraw  # noqa: E402

if not is_built():
    pytest.skip("no pages: run make frontend", allow_module_level=True)


@pytest.fixture(scope="module")
def browser():
    with launched() as one:
        yield one


def visit(browser, tmp_path, language, kind, name, scrolls=(), **settings):
    texts = read_texts(language)
    config = study_texts(language, kind) | {"pass_share": 0.0}
    with place(tmp_path, **config) as here, new_page(browser, here, **settings) as page:
        page.add_init_script(OUTER_WIDTH)
        page.add_init_script(SLOW_FEEDBACK)
        page.goto(here.address())
        look = Look(page, name and f"{language}-{kind}-{name}", scrolls)
        assert Walk(page, look).until_the_end() == "debrief"
        assert look.found == []
        expected = {"consent", "declined", "eyesight", "instructions", "trial", "break", "debrief"}
        assert expected | {"feedback"} <= set(look.screens)
        assert page.evaluate("document.documentElement.lang") == language
        assert texts["debrief.heading"] in page.inner_text("h1")
        here.check()
        with here.database.reading() as db:
            assert db.scalar(select(SessionRow.eyesight)) == "normal"
            # whatever participants read, data have the same names
            wanted = {"keyboard", "bird", "same", "different"}
            assert set(db.scalars(select(ResponseRow.choice))) <= wanted


@pytest.mark.slow
def test_a_german_visit_by_keys_fits_a_small_screen_and_is_open_to_all(browser, tmp_path):
    visit(browser, tmp_path, "de", "categorise", "", viewport=NETBOOK)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["categorise", "same-different"])
@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("name", WINDOWS)
def test_every_visit_fits_its_window_and_is_open_to_all(browser, tmp_path, language, kind, name):
    scrolls = SCROLLED_WHEN_ENLARGED if name == "enlarged" else ()
    visit(browser, tmp_path, language, kind, name, scrolls, **WINDOWS[name])


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
        withdraw(here.study, code)
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
