"""The report in a real browser: what a reader sees, does and prints."""

import re
from contextlib import contextmanager

import pytest

from browser import AXE, SCREENSHOTS, launched, opened, skip_without_browser, violations
from eyechart.reports.html.report_page import write_report
from eyechart.reports.series.report import load_report
from report_pages import entry16_run
from report_runs import DULL, HOSTILE, MODELS, hostile_run, human_run, levels_run, make_once

skip_without_browser()

WIDE, PHONE = 1440, 390

SHOWN = """() => {
    const found = {};
    const plots = document.querySelectorAll(".panel:not([hidden]) .js-plotly-plot");
    plots.forEach((plot) => plot.data.forEach((trace) => {
        const model = trace.meta && trace.meta.model;
        if (!model) return;
        const all = (found[model] ||= {on: 0, off: 0});
        all[trace.visible === undefined || trace.visible === true ? "on" : "off"] += 1;
    }));
    return found;
}"""
"""How many traces of each model the charts of the chosen corruption show, and how many not."""

CUT = """() => Array.from(document.querySelectorAll(".js-plotly-plot")).filter((chart) => {
    const room = chart.getBoundingClientRect();
    const drawing = chart.querySelector(".main-svg").getBoundingClientRect();
    return drawing.right > Math.min(room.right, window.innerWidth) + 2;
}).map((chart) => chart.dataset.chart)"""
"""The charts that reach over the edge of their place or of the page."""

WIDER = """() => Array.from(document.querySelectorAll("main > *, section > *, .bar, header"))
    .filter((own) => own.getBoundingClientRect().right > window.innerWidth + 1)
    .map((own) => own.outerHTML.slice(0, 80))"""
"""The parts of the page that reach over its edge."""

CONTRAST = """(element) => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const light = (color) => {
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        const parts = Array.from(canvas.getImageData(0, 0, 1, 1).data).slice(0, 3).map((own) => {
            const share = own / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const ink = light(getComputedStyle(element).color);
    const paper = light(getComputedStyle(document.body).backgroundColor);
    const both = [ink, paper].sort((one, two) => one - two);
    return {paper: paper, ratio: (both[1] + 0.05) / (both[0] + 0.05)};
}"""
"""Relative luminance of the page, and the contrast of an element's text with it, as WCAG has it."""


@pytest.fixture(scope="module")
def browser():
    with launched() as own:
        yield own


def make_page(home):
    """A report on the runs that are in a folder."""
    report = load_report([home / "vcr", home / "imagenet-c"])
    return write_report(report, home / "report.html")


def make_hostile_page(home):
    return write_report(load_report([home / HOSTILE / "run"]), home / HOSTILE / "report.html")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    for make in (human_run, levels_run):
        make_once(tmp_path_factory, make)
    return make_once(tmp_path_factory, make_page)


@pytest.fixture(scope="module")
def hostile_path(tmp_path_factory):
    make_once(tmp_path_factory, hostile_run)
    return make_once(tmp_path_factory, make_hostile_page)


@contextmanager
def ready(browser, path, width=WIDE, **settings):
    """Open a report, wait until it is drawn, and see that nothing goes wrong until it is closed."""
    with opened(browser, path, width, **settings) as found:
        found.page.wait_for_function("() => window.eyechartReady === true")
        yield found
        assert found.problems == []
        fetched = [url for url in found.requests if not url.startswith(("data:", "blob:"))]
        assert fetched == [path.resolve().as_uri()]


@pytest.fixture
def wide(browser, path):
    with ready(browser, path) as found:
        yield found


def numbers(table, column):
    """The full values of a column of a table, from top to bottom."""
    cells = table.locator(f"tbody tr > :nth-child({column + 1}) > data:first-of-type")
    return [float(own) for own in cells.evaluate_all("all => all.map(own => own.value)")]


def column_of(table, title):
    heads = table.locator("tr.heads th").all_inner_texts()
    return next(place for place, own in enumerate(heads) if own.strip().lower().startswith(title))


def pick(page, title):
    """Choose a corruption by what it is called."""
    page.get_by_label("Corruption", exact=True).select_option(label=title)


def look_through(page, within="main"):
    """Scroll to every chart within an element that can be seen, and wait until it is drawn."""
    for chart in page.locator(f"{within} .chart:visible").all():
        chart.scroll_into_view_if_needed()
        chart.locator(".main-svg").first.wait_for()


def test_the_page_opens_from_disk_without_errors_and_fetches_nothing(wide):
    page = wide.page
    assert page.title() == "How robust are 3 models?"
    headings = page.locator("h2").all_inner_texts()
    assert headings == [
        "Are they robust enough?", "What are the scores in detail?", "Where does it break?",
        "How certain are the results?", "How can it be reproduced?",
    ]  # fmt: skip
    # down to its end, so that every chart is drawn
    look_through(page)
    assert page.locator(".chart:visible").count() > 3


IN_VIEW = """() => {
    const good = document.querySelector("#good");
    const parts = [".summaries", "table", ".js-plotly-plot"].map((own) => good.querySelector(own));
    return parts.map((own) => {
        const box = own.getBoundingClientRect();
        return box.top >= 0 && box.bottom <= window.innerHeight && box.right <= window.innerWidth;
    });
}"""
"""Whether the sentences, the table and the chart of the first part are seen without scrolling."""


def make_single_page(home):
    return write_report(load_report([home / "entry16"]), home / "single.html")


@pytest.fixture(scope="module")
def single_path(tmp_path_factory):
    make_once(tmp_path_factory, entry16_run)
    return make_once(tmp_path_factory, make_single_page)


@pytest.mark.parametrize("kind", ["several", "single"])
def test_the_first_screen_answers_without_scrolling(browser, path, single_path, kind):
    with ready(browser, path if kind == "several" else single_path) as found:
        page = found.page
        page.set_viewport_size({"width": WIDE, "height": 900})
        page.locator("#good .js-plotly-plot .main-svg").first.wait_for()
        assert page.evaluate(IN_VIEW) == [True, True, True]
        page.set_viewport_size({"width": PHONE, "height": 844})
        first = page.locator("#good .summary").first.bounding_box()
        assert first["y"] + first["height"] < 844
        assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE


def test_the_page_of_one_model_works_without_a_choice_of_models(browser, single_path):
    with ready(browser, single_path) as found:
        page = found.page
        panel = page.locator(".panel:visible")
        assert panel.locator(".prediction:visible").count() == panel.locator(".frame").count()
        panel.get_by_role("slider").focus()
        page.keyboard.press("End")
        assert panel.locator("[data-viewer-prediction] li").count() == 1
        assert page.locator("select#predictions, [data-model-toggle]").count() == 0


def test_every_model_has_a_sentence(wide):
    for model in MODELS:
        verdicts = wide.page.locator(f'[data-verdict="{model}"]')
        assert verdicts.count() == 2  # of VCR and of ImageNet-C
        for text in verdicts.all_inner_texts():
            assert re.search(r"\d", text) and text.strip().endswith(".")


def test_clicks_sort_the_leaderboard(wide):
    table = wide.page.locator("table[data-sortable]").first
    column = column_of(table, "rₐ")
    head = table.locator("tr.heads th").nth(column)
    assert head.get_attribute("aria-sort") is None
    button = head.get_by_role("button")
    button.click()
    first = head.get_attribute("aria-sort")
    values = numbers(table, column)
    assert len(values) == len(MODELS) and len(set(values)) > 1
    assert values == sorted(values, reverse=first == "descending")
    button.click()
    assert {first, head.get_attribute("aria-sort")} == {"ascending", "descending"}
    assert numbers(table, column) == values[::-1]


def test_keys_sort_the_leaderboard_and_one_column_at_a_time_is_marked(wide):
    page = wide.page
    table = page.locator("table[data-sortable]").first
    for title in ("clean accuracy", "model"):
        place = column_of(table, title)
        table.locator("tr.heads th").nth(place).get_by_role("button").focus()
        page.keyboard.press("Enter")
        marked = table.locator("th[aria-sort]")
        assert marked.count() == 1 and marked.inner_text().strip().lower().startswith(title)
    names = table.locator("tbody tr > :first-child").all_inner_texts()
    assert names == sorted(names) or names == sorted(names, reverse=True)
    page.keyboard.press("Space")
    assert table.locator("tbody tr > :first-child").all_inner_texts() == names[::-1]


def test_numbers_are_sorted_as_numbers(wide):
    table = wide.page.locator("table[data-sortable]").first
    column = column_of(table, "rₐ")
    cells = table.locator(f"tbody tr > :nth-child({column + 1}) > data:first-of-type")
    cells.evaluate_all("all => ['10', '9', '1e-7'].forEach((own, n) => { all[n].value = own; })")
    head = table.locator("tr.heads th").nth(column)
    while head.get_attribute("aria-sort") != "ascending":
        head.get_by_role("button").click()
    assert numbers(table, column) == [1e-7, 9, 10]


def test_a_model_that_is_switched_off_is_in_no_chart_until_it_is_back(wide):
    page = wide.page
    pick(page, "Gaussian noise")
    look_through(page, ".panel")
    before = page.evaluate(SHOWN)
    assert all(before[model]["on"] > 1 and not before[model]["off"] for model in MODELS)
    assert before["humans"]["on"] > 0
    box = page.locator(f'[data-model-toggle="{DULL}"]')
    box.focus()
    page.keyboard.press("Space")
    assert not box.is_checked()
    look_through(page, ".panel")
    page.wait_for_function(f"() => !({SHOWN})()[{DULL!r}].on")
    without = page.evaluate(SHOWN)
    others = [model for model in MODELS if model != DULL]
    assert {name: without[name] for name in others} == {name: before[name] for name in others}
    # also in charts that are drawn only now
    pick(page, "Gaussian blur")
    look_through(page, ".panel")
    later = page.evaluate(SHOWN)
    assert later[DULL]["on"] == 0 < later[DULL]["off"]
    box.check()
    look_through(page, ".panel")
    page.wait_for_function(f"() => !({SHOWN})()[{DULL!r}].off")
    assert page.evaluate(SHOWN)[DULL]["on"] == later[DULL]["off"]


def test_the_picker_shows_one_corruption_and_its_charts(wide):
    page = wide.page
    panels = page.locator(".panel")
    assert panels.count() == 3 + 2
    assert page.locator(".panel:visible").count() == 1
    pick(page, "Gaussian blur")
    panel = page.locator(".panel:visible")
    assert panel.count() == 1 and "Gaussian blur" in panel.locator("h4").inner_text()
    look_through(page, ".panel")
    assert panel.locator(".chart").count() > 0
    page.get_by_role("button", name="Next").click()
    assert "Brightness" in page.locator(".panel:visible h4").inner_text()
    page.get_by_role("button", name="Previous").click()
    assert "Gaussian blur" in page.locator(".panel:visible h4").inner_text()


def test_the_slider_moves_the_image(wide):
    page = wide.page
    pick(page, "Gaussian noise")
    panel = page.locator(".panel:visible")
    slider = panel.get_by_role("slider")
    image, where = panel.locator("[data-viewer-image]"), panel.locator("[data-viewer-where]")
    seen = []
    slider.focus()
    page.keyboard.press("Home")
    steps = int(slider.get_attribute("max"))
    assert steps >= 3
    for step in range(steps + 1):
        assert slider.input_value() == str(step)
        assert slider.get_attribute("aria-valuetext") == where.inner_text()
        assert image.evaluate("own => own.complete && own.naturalWidth") > 0
        seen.append((image.get_attribute("src"), where.inner_text()))
        assert panel.locator("[data-viewer-prediction] li").count() == len(MODELS)
        page.keyboard.press("ArrowRight")
    # another picture at every step, of more and more visual change
    assert len({shown for shown, _ in seen}) == steps + 1
    where_to = [text for _, text in seen if not text.startswith("clean")]
    changes = [float(re.match(r"Δv (\d\.\d\d)", text)[1]) for text in where_to]
    assert changes == sorted(changes) and changes[-1] > changes[0]
    page.keyboard.press("Home")
    assert image.get_attribute("src") == seen[0][0]
    # by hand: to the right end
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    assert image.get_attribute("src") == seen[-1][0]


def test_the_first_failure_is_marked_where_a_model_first_errs(wide):
    page = wide.page
    pick(page, "Gaussian noise")
    page.get_by_label("Predictions of").select_option(label=DULL)
    frames = page.locator(".panel:visible .frame")
    said = [frame.locator(".prediction:visible").inner_text() for frame in frames.all()]
    wrong = [place for place, text in enumerate(said) if "wrong" in text]
    marked = [place for place, text in enumerate(said) if "first failure" in text]
    assert marked == wrong[:1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_system_chooses_the_theme_and_the_reader_overrules_it(browser, path, scheme):
    with ready(browser, path, color_scheme=scheme) as found:
        page = found.page
        title = page.locator("h1")
        first = title.evaluate(CONTRAST)
        assert (first["paper"] > 0.5) == (scheme == "light") and first["ratio"] > 7
        page.locator(".chart:visible").first.scroll_into_view_if_needed()
        page.locator(".main-svg").first.wait_for()
        font = "() => document.querySelector('.js-plotly-plot')._fullLayout.font.color"
        ink = page.evaluate(font)
        page.locator("#theme").click()
        second = title.evaluate(CONTRAST)
        assert (second["paper"] > 0.5) == (scheme == "dark") and second["ratio"] > 7
        page.wait_for_function(f"() => ({font})() !== {ink!r}")
        page.reload()
        page.wait_for_function("() => window.eyechartReady === true")
        assert title.evaluate(CONTRAST) == second
        found.requests.pop()  # the reload's


@pytest.mark.parametrize("width", [PHONE, WIDE])
def test_nothing_reaches_over_the_edge(browser, path, width):
    with ready(browser, path, width) as found:
        assert found.page.evaluate("document.scrollingElement.scrollWidth") <= width
        assert found.page.evaluate(WIDER) == [] and found.page.evaluate(CUT) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [PHONE, WIDE])
def test_the_page_fits_and_can_be_used_by_everyone(browser, path, width):
    with ready(browser, path, width) as found:
        page = found.page
        page.evaluate("document.querySelectorAll('details').forEach(own => { own.open = true; })")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            look_through(page)
            page.evaluate("window.scrollTo(0, 0)")
            found.shoot(f"report-{width}-{scheme}")
            assert page.evaluate("document.scrollingElement.scrollWidth") <= width
            # tables scroll in boxes of their own; nothing else reaches over the edge
            assert page.evaluate(WIDER) == [] and page.evaluate(CUT) == []
            if AXE.is_file():
                # all but contrast is the same in both
                rules = ["color-contrast"] if scheme == "dark" else []
                assert violations(found.page, *rules) == []
    if not AXE.is_file():
        pytest.skip("no axe-core: tests/support/browser_setup.sh gets it where there is npm")


def test_the_first_tab_leads_past_the_controls(wide):
    page = wide.page
    page.keyboard.press("Tab")
    focused = "document.activeElement.textContent"
    assert page.evaluate(focused).startswith("Skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Shift+Tab")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) not in ("none", "")


def test_the_page_can_be_read_without_scripts(browser, path):
    with opened(browser, path, java_script_enabled=False) as found:
        page = found.page
        assert page.locator(".panel:visible").count() == 5
        assert page.locator("[data-verdict]:visible").count() == 2 * len(MODELS)
        assert page.locator("#theme").is_hidden()


def test_all_corruptions_and_charts_are_printed(wide):
    page = wide.page
    # in a browser's order: pages hear of it while they are still on the screen
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator(".panel:visible").count() == 5
    every = "Array.from(document.querySelectorAll('.chart')).every"
    page.wait_for_function(f"{every}(own => own.querySelector('.main-svg'))")
    assert page.locator(".chart:visible").count() == page.locator(".chart").count()
    for control in ("#theme", ".chips", "#corruption", "input[type=range]"):
        assert page.locator(f"{control}:visible").count() == 0
    # on A4 with its margins, 186 mm, no chart is cut off
    page.set_viewport_size({"width": 703, "height": 1016})
    assert page.evaluate(CUT) == []
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.locator(".panel:visible").count() == 1


def test_the_page_prints_on_a4(wide):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    printed = wide.page.pdf(path=SCREENSHOTS / "report.pdf", format="A4", print_background=True)
    assert printed.startswith(b"%PDF") and printed.count(b"/Type /Page\n") > 3


def test_hostile_names_are_text(browser, hostile_path):
    with ready(browser, hostile_path) as found:
        page = found.page
        look_through(page)
        # what only shows on the way: the slider's answers, hints of charts, messages
        panel = page.locator(".panel:visible")
        panel.get_by_role("slider").focus()
        page.keyboard.press("End")
        page.locator("[data-model-toggle]").first.uncheck()
        page.locator("[data-model-toggle]").first.check()
        plot = panel.locator(".js-plotly-plot").first
        plot.hover()
        for table in page.locator("table[data-sortable]:visible").all():
            table.locator("tr.heads th button").first.click()
        found.shoot("report-hostile")
        assert page.evaluate("window.hacked") is None
        assert page.locator("img[onerror], img[src='x']").count() == 0
        text = page.locator("body").inner_text()
        assert HOSTILE in text
        # as a model, as a class, in a path
        assert page.locator("[data-verdict]", has_text=HOSTILE).count() == 1
        assert f"red {HOSTILE}" in text
        assert HOSTILE in page.locator("#again").inner_text()
        svg = page.locator(".chart text", has_text="<img src=x onerror=").count()
        assert svg > 0
