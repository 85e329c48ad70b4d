"""The experiment in a real browser, from consent to the way back, whatever happens in between."""

from collections import Counter
from time import monotonic

import pytest
from sqlalchemy import func, select, update

from browser import AXE, SCREENSHOTS, launched, skip_without_browser, violations
from mturk_stub import mechanical_turk

skip_without_browser()

from experiment_pages import PLANNED, SURE, new_page, place  # noqa: E402
from eyechart_experiment.server.routes import is_built  # noqa: E402
from eyechart_experiment.simulate.robots import Robot  # noqa: E402
from eyechart_experiment.simulate.simulation import LOOK  # noqa: E402
from eyechart_experiment.storage.database_tables import (  # noqa: E402
    ParticipantRow,
    ResponseRow,
    SessionRow,
    StimulusImageRow,
    StimulusRow,
    StudyRow,
    TrialRow,
)
from eyechart_experiment.storage.withdrawal import withdraw  # noqa: E402

if not is_built():
    pytest.skip("no pages: run make frontend", allow_module_level=True)

KINDS = ["categorise", pytest.param("same-different", marks=pytest.mark.slow)]
TURK = {"assignmentId": "A1", "hitId": "H1", "workerId": "W1"}
PROLIFIC = {"PROLIFIC_PID": "p1", "STUDY_ID": "s1", "SESSION_ID": "x1"}


@pytest.fixture(scope="module")
def browser():
    with launched() as one:
        yield one


@pytest.mark.parametrize("kind", ["categorise", "same-different"])
def test_a_plain_link_leads_from_consent_to_a_code(browser, tmp_path, kind):
    with place(tmp_path, kind=kind) as here, new_page(browser, here) as page:
        page.goto(here.address())
        assert here.go(page) == "debrief"
        with here.database.reading() as db:
            person = db.scalar(select(ParticipantRow))
        # one code and not two similar ones: it says who it was as well
        (code,) = page.locator("[data-code]").all_inner_texts()
        assert person.code not in page.inner_text("body")
        here.check()
        # whoever comes again sees the end again
        page.reload()
        page.wait_for_selector("[data-screen='debrief']")
        here.check()
        assert withdraw(here.study, code.strip()).n_responses == PLANNED
        assert here.count(ParticipantRow) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_mechanical_turk_frames_the_study_and_gets_its_form_once(browser, tmp_path, kind):
    with (
        mechanical_turk() as turk,
        place(tmp_path, more_hosts=(turk.host,), kind=kind) as here,
        new_page(browser, here) as page,
    ):
        turk.task = here.address(**TURK, turkSubmitTo=turk.host + "/")
        page.goto(turk.host)
        frame = page.frame_locator("iframe").owner.element_handle().content_frame()
        assert here.go(frame) == "debrief"
        here.check()
        frame.locator("[data-action='complete']").dblclick()
        frame.wait_for_selector("#result")
        assert frame.inner_text("#result") == "Thank you"
        # the code alone tells the outcome: a worker could change any other field
        assert turk.submitted["A1"].keys() == {"assignmentId", "code"} and not turk.rejected


def test_a_preview_shows_what_awaits_and_creates_nothing(browser, tmp_path):
    with (
        mechanical_turk() as turk,
        place(tmp_path, more_hosts=(turk.host,)) as here,
        new_page(browser, here) as page,
    ):
        page.goto(
            here.address(
                assignmentId="ASSIGNMENT_ID_NOT_AVAILABLE", hitId="H1", turkSubmitTo=turk.host
            )
        )
        page.wait_for_selector("[data-screen='preview']")
        for table in (ParticipantRow, SessionRow, TrialRow):
            assert here.count(table) == 0


def test_a_form_may_not_go_to_any_other_host(browser, tmp_path):
    with place(tmp_path) as here, new_page(browser, here) as page:
        page.goto(here.address(**TURK, turkSubmitTo="https://evil.example"))
        page.wait_for_selector("[data-screen='bad-link']")
        assert here.count(ParticipantRow) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_prolific_gets_its_participants_back_when_every_response_is_stored(browser, tmp_path, kind):
    with place(tmp_path, kind=kind) as here, new_page(browser, here) as page:
        visited = []

        def prolific(route):
            visited.append((route.request.url, here.count(ResponseRow)))
            route.fulfill(body="<h1>Prolific</h1>", content_type="text/html")

        page.route("https://app.prolific.com/**", prolific)
        page.goto(here.address(**PROLIFIC))
        assert here.go(page) == "debrief"
        if not visited:
            page.locator("[data-action='complete']").click()
        page.wait_for_url("https://app.prolific.com/**")
        assert visited == [("https://app.prolific.com/submissions/complete?cc=CDONE", PLANNED)]
        here.check()


@pytest.mark.slow
@pytest.mark.parametrize("parts", [("main",), ("practice", "qualification", "main")])
def test_a_reload_at_every_kind_of_moment_loses_and_repeats_nothing(browser, tmp_path, parts):
    config = {"practice": 2, "qualification": 2, "trials": 6, "pass_share": 0.0}
    with place(tmp_path, **config) as here, new_page(browser, here) as page:
        page.goto(here.address())
        done, acknowledged = set(), []
        page.on(
            "response",
            lambda reply: (
                acknowledged.append(reply.url)
                if reply.request.method == "PUT" and reply.status == 200
                else None
            ),
        )

        def reload_once(seen):
            moment = (seen["screen"], seen["part"], seen["phase"])
            if not seen["screen"] or moment in done or seen["screen"] == "continue":
                return False
            if seen["screen"] == "trial" and seen["part"] not in parts:
                return False
            done.add(moment)
            page.reload()
            page.wait_for_selector("[data-screen]")
            return True

        assert here.go(page, meddle=reload_once) == "debrief"
        here.check(planned=11)
        stored = {url.split("/")[-2] for url in acknowledged}
        with here.database.reading() as db:
            assert stored <= set(db.scalars(select(TrialRow.public_id).join(ResponseRow)))
        screens = {screen for screen, _, _ in done}
        assert {"consent", "instructions", "trial", "feedback", "break", "debrief"} <= screens
        for part in parts:
            phases = {phase for screen, own, phase in done if own == part}
            assert {"fixation", "stimulus", "mask", "response", ""} <= phases
        assert here.count(ParticipantRow) == 1


@pytest.mark.slow
def test_a_second_tab_goes_on_and_the_first_can_take_it_back(browser, tmp_path):
    with place(tmp_path) as here, new_page(browser, here) as first:
        first.goto(here.address())

        moved, opened = [], []

        def open_second(seen):
            if seen["phase"] == "response" and not moved and here.count(ResponseRow) >= 3:
                moved.append(seen["trial"])
                second = here.watch(first.context.new_page())
                opened.append(second)
                second.goto(here.address())
                second.locator("[data-action='continue'], [data-action='start']").first.click()
                second.wait_for_selector("[data-phase='response']")
                # a tab that is not in front draws a frame a second
                first.bring_to_front()
                return True
            if seen["screen"] == "another-tab":
                moved.append("told")
                first.locator("[data-action='take-over']").click()
                first.wait_for_function(
                    "() => !document.querySelector('[data-screen=another-tab]')"
                )
                return True
            return False

        assert here.go(first, meddle=open_second) == "debrief"
        assert moved[-1] == "told"
        # the second learns of it when it wants to go on, and what it had is not counted twice
        (second,) = opened
        second.bring_to_front()
        second.locator("[data-choice='cat']").click()
        second.wait_for_selector("[data-screen='another-tab'], [data-screen='debrief']")
        here.check()


def offline(browser, tmp_path, seconds):
    with place(tmp_path) as here, new_page(browser, here) as page:
        page.goto(here.address())
        cut = []

        def cut_off(seen):
            if not cut and seen["phase"] == "response" and here.count(ResponseRow) >= 3:
                cut.append(monotonic())
                page.context.set_offline(True)
            if cut and cut[-1] and monotonic() - cut[0] > seconds:
                page.context.set_offline(False)
                cut.append(0)
            return False

        assert here.go(page, meddle=cut_off) == "debrief"
        assert cut[-1] == 0
        here.check()


@pytest.mark.slow
def test_without_a_connection_for_some_seconds_nothing_is_lost(browser, tmp_path):
    offline(browser, tmp_path, 3)


@pytest.mark.slow
def test_without_a_connection_for_thirty_seconds_nothing_is_lost(browser, tmp_path):
    offline(browser, tmp_path, 30)


def test_a_response_whose_reply_is_lost_is_sent_again_and_stored_once(browser, tmp_path):
    with place(tmp_path) as here, new_page(browser, here) as page:
        lost = Counter()

        def lose(route):
            trial = route.request.url.split("/")[-2]
            lost[trial] += 1
            if lost[trial] > 1:
                route.continue_()
                return
            # it reaches the server, and is on disk, but the page never hears of it
            route.fetch()
            route.abort()

        page.route("**/api/trials/*/response", lose)
        page.goto(here.address())
        assert here.go(page) == "debrief"
        assert len(lost) == PLANNED and min(lost.values()) == 2
        here.check()


def test_whoever_fails_the_qualification_is_sent_back_kindly(browser, tmp_path):
    with place(tmp_path, qualification=3) as here, new_page(browser, here) as page:
        page.goto(here.address())
        robot = Robot("one-button", (5,), SURE)
        robot._favourite = "oven"
        with here.database.reading() as db:
            ovens = db.scalar(select(func.count()).select_from(StimulusImageRow))
        assert ovens
        assert here.go(page, robot) == "failed"
        assert here.count(TrialRow, TrialRow.role == "main") == 0
        assert page.locator("[data-code='completion']").count() == 1


def test_the_keyboard_is_enough(browser, tmp_path):
    with place(tmp_path, response_ms=1500) as here, new_page(browser, here) as page:
        page.goto(here.address())
        page.wait_for_selector("[data-action='agree']")
        pressed, since = 0, monotonic()
        while (seen := page.evaluate(LOOK))["screen"] not in ("debrief", "failed"):
            assert monotonic() - since < 60
            if seen["phase"] == "response":
                page.keyboard.press("q")
                pressed += 1
                page.wait_for_timeout(50)
            elif seen["action"]:
                page.locator(f"[data-action='{seen['action']}']").focus()
                page.keyboard.press("Enter")
                page.wait_for_timeout(50)
            else:
                page.wait_for_timeout(20)
        assert pressed
        with here.database.reading() as db:
            chosen = set(db.scalars(select(ResponseRow.choice)))
        # where q lies in the grid; a key can come too late now and then
        assert "airplane" in chosen and chosen <= {"airplane", ""}


def test_phones_are_rejected_kindly(browser, tmp_path):
    with place(tmp_path) as here:
        context = browser.new_context(
            viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True
        )
        page = here.watch(context.new_page())
        page.goto(here.address())
        page.wait_for_selector("[data-screen='phone']")
        assert here.count(ParticipantRow) == 0
        context.close()


def test_a_full_study_says_so(browser, tmp_path):
    with place(tmp_path) as here, new_page(browser, here) as page:
        with here.database.writing() as db:
            db.execute(update(StimulusRow).values(taken=50))
        page.goto(here.address())
        page.wait_for_selector("[data-screen='full']")
        assert "No more responses are needed" in page.inner_text("h1")
        assert here.count(ParticipantRow) == 0 and not here.problems


def test_another_browser_asks_for_the_participant_code(browser, tmp_path):
    with place(tmp_path) as here, new_page(browser, here) as first, new_page(browser, here) as page:
        first.goto(here.address(**PROLIFIC))
        first.locator("[data-action='agree']").click()
        code = first.locator("[data-code='participant']").inner_text()
        page.goto(here.address(**PROLIFIC))
        page.locator("[data-action='agree']").click()
        page.wait_for_selector("[data-screen='elsewhere']")
        assert AXE.exists() is False or violations(page) == []
        for typed, screen in (("PWRONG", "elsewhere"), (f" {code.lower()} ", "instructions")):
            page.locator("input").fill(typed)
            page.locator("[data-action='resume']").click()
            page.wait_for_selector(f"[data-screen='{screen}']")
        assert here.count(ParticipantRow) == 1
        # The browser that has the session resumes it without the code.
        page.reload()
        page.wait_for_selector("[data-screen='instructions']")


def test_the_browser_obeys_the_policy_and_nothing_outside_is_asked(browser, tmp_path):
    with place(tmp_path) as here, new_page(browser, here) as page:
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        reply = page.goto(here.address())
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors" in policy
        assert "unsafe" not in policy and "*" not in policy
        # an inline script does not run, and no other site may frame the page
        page.evaluate(
            "() => { const s = document.createElement('script'); s.textContent = 'window.bad = 1';"
            " document.head.append(s); }"
        )
        assert page.evaluate("window.bad") is None
        here.problems.clear()
        assert here.go(page) == "debrief"
        assert any(url.startswith(f"{here.base}/api/") for url in asked)
        assert all(url.startswith((here.base, "blob:", "data:")) for url in asked)
        here.check()


def test_another_site_may_not_frame_the_study(browser, tmp_path):
    with mechanical_turk() as other, place(tmp_path) as here, new_page(browser, here) as page:
        other.task = here.address()
        page.goto(other.host)
        page.wait_for_timeout(500)
        _, frame = page.frames
        assert frame.url.startswith("chrome-error:")
        assert frame.locator("[data-screen]").count() == 0


def test_whoever_cannot_take_part_is_told_why(browser, tmp_path):
    def sees(page, screen, words):
        page.wait_for_selector(f"[data-screen={screen}]")
        assert words in page.inner_text("h1")
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"experiment-{screen}.png")

    def change(statement):
        with here.database.writing() as db:
            db.execute(statement)

    with place(tmp_path) as here:
        with new_page(browser, here) as page:
            assert page.goto(f"{here.base}/s/another").status == 404
            sees(page, "unknown", "no such study")
            page.goto(here.address(**PROLIFIC))
            page.locator("[data-action=agree]").click()
            page.wait_for_selector("[data-screen=instructions]")
        change(update(SessionRow).values(state="finished"))
        with new_page(browser, here) as page:
            page.goto(here.address(**(PROLIFIC | {"STUDY_ID": "s2", "SESSION_ID": "x2"})))
            page.locator("[data-action=agree]").click()
            sees(page, "again", "before")
        with new_page(browser, here) as page:
            page.goto(here.address())
            page.wait_for_selector("[data-screen=consent]")
            change(update(StudyRow).values(status="closed"))
            page.locator("[data-action=agree]").click()
            sees(page, "closed", "closed")
            page.reload()
            sees(page, "closed", "closed")
        assert not here.problems


@pytest.mark.slow
@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not there: make browser gets it")
def test_pages_keep_nobody_out(browser, tmp_path):
    with place(tmp_path) as here, new_page(browser, here) as page:
        page.goto(here.address())
        looked, found = set(), []

        def look(seen):
            if seen["screen"] in ("", "trial") or seen["screen"] in looked:
                return False
            looked.add(seen["screen"])
            found.extend(f"{seen['screen']}: {each}" for each in violations(page))
            return False

        assert here.go(page, meddle=look) == "debrief"
        assert not found
        assert {"consent", "instructions", "break", "debrief"} <= looked
