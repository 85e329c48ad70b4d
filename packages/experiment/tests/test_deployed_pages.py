"""Full sessions in a browser as a lab serves them: with TLS and PostgreSQL."""

from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from time import monotonic

import pytest
from sqlalchemy import select, update

from browser import AXE, launched, skip_without_browser
from mturk_stub import mechanical_turk

skip_without_browser()

from experiment_deployment import DOMAIN, deployed  # noqa: E402
from experiment_pages import QUICK, SURE, Place, new_page  # noqa: E402
from experiment_postgres import postgresql  # noqa: E402
from experiment_studies import Sizes, make_study  # noqa: E402
from experiment_visits import (  # noqa: E402
    ENLARGED,
    LAPTOP,
    NETBOOK,
    OUTER_WIDTH,
    SCROLLED_WHEN_ENLARGED,
    SLOW_FEEDBACK,
    WINDOWS,
    Look,
    Walk,
    study_texts,
)
from eyechart_experiment.languages import LANGUAGES, read_texts  # noqa: E402
from eyechart_experiment.payments import PayRates, read_payments  # noqa: E402
from eyechart_experiment.server.routes import is_built  # noqa: E402
from eyechart_experiment.simulate.robots import Robot  # noqa: E402
from eyechart_experiment.simulate.simulation import (  # noqa: E402
    CLICK,
    LOOK,
    question_of,
)
from eyechart_experiment.storage.database_tables import (  # noqa: E402
    ParticipantRow,
    ResponseRow,
    SessionRow,
    StudyRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import connect_study  # noqa: E402

if not is_built():
    pytest.skip("no pages: run make frontend", allow_module_level=True)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is not there: make browser gets it"),
]
PLANNED = 10
SESSION = {
    "consent", "eyesight", "instructions", "trial", "feedback", "qualification", "main", "break",
    "debrief",
}  # fmt: skip
# the real hosts, which the server's policy allows; a stand-in responds instead of them
TURK, PROLIFIC = "https://workersandbox.mturk.com", "https://app.prolific.com"
TURK_IDS = {"hitId": "H1", "turkSubmitTo": f"{TURK}/"}


@pytest.fixture(scope="module")
def browser():
    # participants come by the name in the certificate
    names = f"--host-resolver-rules=MAP {DOMAIN} 127.0.0.1"
    # a page of a platform may frame a study elsewhere, but not one on its own machine
    local = "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"
    with launched(names, local) as one:
        yield one


@pytest.fixture(scope="module", params=LANGUAGES)
def lab(request, tmp_path_factory):
    """A study in one language as a lab serves it."""
    room = tmp_path_factory.mktemp("lab")
    config = QUICK | study_texts(request.param)
    config |= {"practice": 2, "qualification": 2, "trials": 5, "prolific_screened": "CFEW"}
    sizes = Sizes(main=60, stimuli=1, practice=24, qualification=24, catch=24)
    with postgresql() as url:
        folder = make_study(room / "study", sizes=sizes, url=url, **config)
        with connect_study(folder) as study, deployed(folder, room) as where:
            yield Place(study, where)


@contextmanager
def visitor(browser, lab, **settings):
    """A page of a new participant, who has accepted that the certificate signs itself."""
    lab.problems.clear()
    with new_page(browser, lab, ignore_https_errors=True, **settings) as page:
        page.context.add_init_script(OUTER_WIDTH)
        page.context.add_init_script(SLOW_FEEDBACK)
        yield page
    assert lab.problems == []


def watcher(page, lab, name, scrolls=()):
    return Look(page, f"{lab.folder.config.language}-{name}", scrolls)


def check_session(lab, look, before):
    """All was seen and is open to all, in the study's language; every response is stored once."""
    assert look.found == []
    assert set(look.screens) >= SESSION
    assert look.page.evaluate("document.documentElement.lang") == lab.folder.config.language
    assert read_texts(lab.folder.config.language)["debrief.heading"] in look.page.inner_text("h1")
    assert lab.count(ResponseRow) == before + PLANNED
    assert lab.count(TrialRow, TrialRow.state == "live") == 0


def outcome_of(lab, code):
    """Return the platform and the outcome of the session with a code, by the server's records."""
    payments = read_payments(lab.study, PayRates(Decimal(1)), datetime.now(UTC))
    (payment,) = [payment for payment in payments if payment.code == code]
    return payment.platform, payment.outcome


def test_a_plain_link_ends_with_a_code_of_the_session(browser, lab):
    before = lab.count(ResponseRow)
    with visitor(browser, lab, viewport=LAPTOP) as page:
        reply = page.goto(lab.address())
        assert reply.url.startswith(f"https://{DOMAIN}") and reply.security_details()["protocol"]
        look = watcher(page, lab, "link-1440")
        assert lab.go(page, meddle=look) == "debrief"
        check_session(lab, look, before)
        (code,) = page.locator("[data-code]").all_inner_texts()
        assert outcome_of(lab, code.strip()) == ("link", "finished")


def test_mechanical_turk_frames_the_session_and_gets_its_code(browser, lab):
    before = lab.count(ResponseRow)
    with mechanical_turk() as turk, visitor(browser, lab, viewport=LAPTOP) as page:
        turk.task = lab.address(**TURK_IDS, assignmentId="A1", workerId="W1")
        stand_in = lambda route: route.fulfill(  # noqa: E731
            response=route.fetch(url=route.request.url.replace(TURK, turk.host))
        )
        page.route(f"{TURK}/**", stand_in)
        page.goto(f"{TURK}/projects/1/tasks/2")
        frame = page.frame_locator("iframe").owner.element_handle().content_frame()
        frame.wait_for_selector("[data-screen]")
        look = watcher(frame, lab, "mturk-1440", ("consent", "instructions", "debrief"))
        assert lab.go(frame, meddle=look) == "debrief"
        check_session(lab, look, before)
        frame.locator("[data-action='complete']").click()
        frame.wait_for_selector("#result")
        assert frame.inner_text("#result") == "Thank you" and turk.rejected == []
        assert outcome_of(lab, turk.submitted["A1"]["code"]) == ("mturk", "finished")


def test_prolific_gets_its_participant_back_who_used_keys_alone(browser, lab):
    before, visited = lab.count(ResponseRow), []

    def prolific(route):
        visited.append((route.request.url, lab.count(ResponseRow) - before))
        route.fulfill(body="<h1>Prolific</h1>", content_type="text/html")

    def correct_key(seen):
        truth = question_of(lab.database, seen["trial"]).truth
        return page.get_attribute(f"[data-choice='{truth}']", "aria-keyshortcuts").lower()

    with visitor(browser, lab, viewport=NETBOOK) as page:
        page.route(f"{PROLIFIC}/**", prolific)
        page.goto(lab.address(PROLIFIC_PID="p1", STUDY_ID="s1", SESSION_ID="x1"))
        look = watcher(page, lab, "prolific-1024")
        walk = Walk(page, look, correct_key)
        assert walk.until_the_end() == "debrief"
        check_session(lab, look, before)
        assert "declined" in look.screens
        walk.press("complete")
        page.wait_for_url(f"{PROLIFIC}/**")
        assert visited == [(f"{PROLIFIC}/submissions/complete?cc=CDONE", PLANNED)]


def test_a_session_fits_a_window_enlarged_to_200_percent(browser, lab):
    before = lab.count(ResponseRow)
    with visitor(browser, lab, **ENLARGED) as page:
        page.goto(lab.address())
        look = watcher(page, lab, "link-enlarged", SCROLLED_WHEN_ENLARGED)
        assert lab.go(page, meddle=look) == "debrief"
        check_session(lab, look, before)


def go_on_to_a_trial(page):
    """Press what leads on until a response is asked for."""
    began = monotonic()
    while (seen := page.evaluate(LOOK))["phase"] != "response":
        assert monotonic() - began < 60, seen
        if seen["action"]:
            page.evaluate(CLICK, f"[data-action='{seen['action']}']")
        page.wait_for_timeout(50)


@pytest.mark.parametrize("window", WINDOWS)
def test_every_page_beside_a_session_fits_and_is_open_to_all(browser, lab, window):
    scrolls = SCROLLED_WHEN_ENLARGED if window == "enlarged" else ()
    settings, found, n = WINDOWS[window], [], lab.count(ParticipantRow)

    @contextmanager
    def coming(screen, address):
        with visitor(browser, lab, **settings) as page:
            page.goto(address)
            page.wait_for_selector(f"[data-screen='{screen}']")
            look = watcher(page, lab, f"beside-{window}", scrolls)
            look.look(screen)
            yield page, look
            found.extend(look.found)

    def then(page, look, screen):
        page.wait_for_selector(f"[data-screen='{screen}']")
        look.look(screen)

    def close(status):
        with lab.database.writing() as db:
            db.execute(update(StudyRow).values(status=status))

    ids = {"PROLIFIC_PID": f"b-{window}", "STUDY_ID": "s1", "SESSION_ID": "x1"}
    with coming("preview", lab.address(**TURK_IDS, assignmentId="ASSIGNMENT_ID_NOT_AVAILABLE")):
        pass
    with coming("bad-link", lab.address(**(ids | {"SESSION_ID": "a b<c"}))):
        pass
    with coming("unknown", f"{lab.base}/s/another"):
        pass
    assert lab.count(ParticipantRow) == n
    # who fails the qualification, after a reload, without a connection, and in a second tab
    with coming("consent", lab.address(**ids)) as (page, look):
        page.locator("[data-action='agree']").click()
        page.locator("[data-action='eyesight-corrected']").click()
        page.locator("[data-action='start']").click()
        # nobody has to read the instructions again who has responded once
        page.locator("[data-phase='response'] [data-choice='oven']").click()
        page.wait_for_selector("[data-screen='feedback']")
        page.reload()
        then(page, look, "continue")
        go_on_to_a_trial(page)
        page.context.set_offline(True)
        page.locator("[data-choice='cat']").click()
        then(page, look, "offline")
        page.context.set_offline(False)
        go_on_to_a_trial(page)
        second = page.context.new_page()
        second.goto(lab.address(**ids))
        go_on_to_a_trial(second)
        page.bring_to_front()
        page.locator("[data-choice='oven']").click()
        then(page, look, "another-tab")
        second.close()
        page.locator("[data-action='take-over']").click()
        robot = Robot("one-button", (5,), SURE)
        robot._favourite = "oven"
        assert lab.go(page, robot, meddle=look) == "failed"
        assert "cc=CFAIL" in page.get_attribute("[data-action='complete']", "href")
    with lab.database.writing() as db:
        newest = db.scalar(select(SessionRow.id).order_by(SessionRow.id.desc()).limit(1))
        db.execute(update(SessionRow).where(SessionRow.id == newest).values(state="finished"))
    with coming("consent", lab.address(**(ids | {"STUDY_ID": "s2"}))) as (page, look):
        page.locator("[data-action='agree']").click()
        page.locator("[data-action='eyesight-normal']").click()
        then(page, look, "again")
    try:
        with coming("consent", lab.address()) as (page, look):
            page.locator("[data-action='agree']").click()
            close("closed")
            page.locator("[data-action='eyesight-undisclosed']").click()
            then(page, look, "closed")
            page.reload()
            then(page, look, "closed")
    finally:
        close("open")
    assert found == []


@pytest.mark.parametrize("is_touch", [False, True])
def test_phones_and_narrow_windows_are_told_what_to_do(browser, lab, is_touch):
    size = {"width": 390, "height": 844} if is_touch else {"width": 900, "height": 700}
    with new_page(browser, lab, ignore_https_errors=True, viewport=size, is_mobile=is_touch,
                  has_touch=is_touch) as page:  # fmt: skip
        page.goto(lab.address())
        page.wait_for_selector("[data-screen='phone']")
        look = watcher(page, lab, "touch" if is_touch else "narrow")
        look.look("phone")
        assert look.found == []
