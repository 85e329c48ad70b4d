"""Pages in small windows: the status page on a phone, and the way on in an enlarged window."""

from decimal import Decimal
from importlib.resources import files

import pytest

from browser import launched, skip_without_browser

skip_without_browser()

from experiment_pages import new_page, place  # noqa: E402
from experiment_studies import Sizes, make_study  # noqa: E402
from experiment_visits import BEYOND, ENLARGED, OUTER_WIDTH, study_texts  # noqa: E402
from eyechart_experiment.languages import LANGUAGES  # noqa: E402
from eyechart_experiment.payments import PayRates  # noqa: E402
from eyechart_experiment.server.routes import is_built  # noqa: E402
from eyechart_experiment.server.status_page import page_html, read_monitor  # noqa: E402
from eyechart_experiment.storage.experiment_folder import connect_study  # noqa: E402
from filled_studies import START, Robot, attentive, fill, right_with  # noqa: E402

if not is_built():
    pytest.skip("no pages: run make frontend", allow_module_level=True)

FEE = "33.3 % (prolific: academic and non-profit; https://www.prolific.com/pricing, 2026-09-20)"


@pytest.fixture(scope="module")
def browser():
    with launched() as one:
        yield one


@pytest.mark.parametrize("kind", ["categorise", "same-different"])
def test_the_status_page_fits_a_phone(browser, tmp_path, kind):
    folder = make_study(
        tmp_path / "study", name="naming-objects-in-briefly-shown-photographs", k=5000, kind=kind,
        sizes=Sizes(main=30, stimuli=2),
    )  # fmt: skip
    if kind == "categorise":
        fill(folder, [Robot(right_with(attentive))] * 2, minutes=6)
    with connect_study(folder) as study:
        html = page_html(read_monitor(study, PayRates(Decimal(2)), START, 0.333, FEE))
    style = (files("eyechart_experiment") / "pages" / "status.css").read_text(encoding="utf-8")
    for width in (320, 390):
        phone = {"viewport": {"width": width, "height": 700}, "is_mobile": True}
        context = browser.new_context(**phone)
        page = context.new_page()
        page.set_content(html)
        page.add_style_tag(content=style)
        size = page.evaluate(BEYOND.replace("#app", "main"))
        assert (size["wide"], size["beyond"]) == (0, [])
        context.close()


@pytest.mark.parametrize("kind", ["categorise", "same-different"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_start_button_of_enlarged_instructions_is_in_view(browser, tmp_path, language, kind):
    settings = study_texts(language, kind)
    with place(tmp_path, **settings) as here, new_page(browser, here, **ENLARGED) as page:
        page.add_init_script(OUTER_WIDTH)
        page.goto(here.address())
        for action in ("agree", "eyesight-normal"):
            page.locator(f"[data-action='{action}']").press("Enter")
        page.wait_for_selector("[data-screen='instructions']")
        for action in ("start-full", "start"):
            box = page.locator(f"[data-action='{action}']").bounding_box()
            assert 0 <= box["y"] <= 450 - box["height"]
        # nothing is behind it when the focus arrives by keys
        copy = page.locator(".keep button")
        page.keyboard.press("Tab")
        while not copy.evaluate("button => button === document.activeElement"):
            page.keyboard.press("Tab")
        bottom = copy.bounding_box()["y"] + copy.bounding_box()["height"]
        assert bottom <= page.locator(".actions").bounding_box()["y"]
