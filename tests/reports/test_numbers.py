"""Numbers of the report's page as they are read: of whom, how rounded, none without a source."""

import re

from nonempty import at_least_one
from report_pages import files_of
from report_shelf import SPACES, Shelf


def test_numbers_beside_a_models_name_are_of_that_model(any_page):
    report, page = any_page
    shelf = Shelf(report)
    seen = 0
    for place, verdicts in enumerate(page.root.all("ul", kind="verdicts")):
        for verdict in verdicts.all("li"):
            name = verdict.own["data-verdict"]
            home = shelf.model(place, name)
            assert verdict.all("strong", kind="name")[0].text == shelf_short(shelf, name)
            known = numbers_in(shelf.get(home))
            assert verdict.values
            assert all(value in known or value.is_integer() for value in verdict.values)
            seen += 1
    assert seen == sum(len(part.models) for part in report.sections)


def numbers_in(value):
    """All numbers of a results.json or of a part of it."""
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return set().union(*map(numbers_in, inside))
    return {value} if isinstance(value, int | float) else set()


def test_every_score_of_the_page_is_in_results_json(any_page):
    report, page = any_page
    known = numbers_in(files_of(report))
    checked = 0
    for number in page.root.numbers:
        table = number.within("table")
        # ranks and tests of pairs come from a comparison, the clean error is a difference
        if table is None or not re.match("pairs|ranks|ce|relative-ce", table.own["id"]):
            value = float(number.own["value"])
            assert value in known or value.is_integer(), number.own
            checked += value in known
    assert checked > 40


def shelf_short(shelf, name):
    (short,) = [short for short, own in shelf.names.items() if own == name]
    return short


def test_every_number_stands_where_something_looks_at_it(any_page):
    _, page = any_page
    kinds = (
        ("ol", "strip"), ("li", "verdict"), ("li", "summary"), ("p", "caption"), ("p", "lede"),
        ("dl", "facts"), ("ul", "notes"), ("p", "note"),
    )  # fmt: skip
    for number in at_least_one(page.root.numbers):
        assert number.within("table") or any(number.within(tag, kind=kind) for tag, kind in kinds)


def test_the_summary_counts_corruptions_and_images(any_page):
    report, page = any_page
    shelf = Shelf(report)
    (lede,) = page.root.all("p", kind="lede")
    firsts = [shelf.files[runs[0]] for runs in shelf.parts]
    counts = [len(file["config"]["corruptions"]) for file in firsts]
    used = dict.fromkeys(file["images"]["used"] for file in shelf.files)
    assert lede.values == [*counts, *used]


# Rounding


def scale_of(number):
    """100 where the number is read as a percentage: by its sign, its column or its caption."""
    if number.text.endswith("%"):
        return 100
    table, cell = number.within("table"), number.within("td", "th")
    if table is None:
        return 1
    head = table.all("tr", kind="heads")[0].all("th")[cell.above.all("td", "th").index(cell)].text
    is_errors = re.match(r"(relative-)?ce-", table.own["id"]) is not None
    return 100 if "(%)" in head or is_errors else 1


def test_what_is_read_is_the_number_rounded(any_page):
    _, page = any_page
    for number in at_least_one(page.root.numbers):
        shown = number.text.replace("\u00a0", "").replace(" ", "").replace("−", "-")
        shown = shown.replace(",", "").rstrip("%")
        value = scale_of(number) * float(number.own["value"])
        if shown.startswith("<"):
            assert value < float(shown[1:])
            continue
        half = 0.5 * 10.0 ** -len(shown.partition(".")[2])
        if number.within("span", kind="strength"):
            # of parameters three digits are shown
            half = max(half, 0.005 * abs(value)) if abs(value) >= 1 else 0.005 * abs(value)
        assert abs(float(shown) - value) <= half * 1.000001, (number.own, shown)


def test_tables_in_percent_say_so(any_page):
    _, page = any_page
    for table in at_least_one(page.tables):
        if re.match(r"(relative-)?ce-", table.id):
            assert "in percent" in table.caption
        for head in table.heads:
            assert head.removesuffix(" (%)") not in ("mCE", "Relative mCE") or (
                "(%)" in head or "in percent" in table.caption
            )


# What no element says the source of


PLAIN = {
    r"\d{4}-\d\d-\d\d": "dates",
    r"eyechart \d+\.\d+\.\d+\S*": "our version",
    r"the 16 human categories|\(16 categories\)|ImageNet-C\b|16 categories: see entry16": "names",
    r"Top-5 accuracy": "a name",
    r"(95|83) % (confidence|intervals|\(light\)|\(dark\)|of the replicates|bands)": "levels",
    r"visual changes from 0 to 1|change: 0 for|image, 1 if|; [01]: never": "what a score means",
    r"fewer than 40 images\. Bands": "from where on intervals are widened",
    r"^Insufficient data \(at least (40|5) images.*?; have [^)]+\)": "needs",
    r"39 equal bins": "what coverage is",
    r"in 15 bins of equal mass": "what a score is",
    r"with at least [\d and]+ samples?": "a setting, checked below",
    r"How robust are \d+ models\?": "counted, checked below",
    r"; at least (40|5) images.*? are needed": "what a claim needs",
    r"\brun \d+\b|^Run \d+:": "which run of the page",
    r"And [\d,]+ more in results": "counted, checked below",
    r"[\d,]+ more class(es have| has) fewer than 3": "counted, checked below",
    r"SHA-256": "a name",
}
"""Numbers in sentences: no result has a say in them, or they count what is listed."""

SETTINGS = ("versions", "settings", "files", "models")
"""Tables of text: versions, settings, digests."""


def strings_in(value):
    """All texts in a results.json: notes, names, paths; no numbers that are written as text."""
    if isinstance(value, str):
        yield from [value] if re.search("[A-Za-z]{3}", value) else ()
    elif isinstance(value, dict):
        for own in value.values():
            yield from strings_in(own)
    elif isinstance(value, list):
        for own in value:
            yield from strings_in(own)


def test_no_number_is_read_that_does_not_say_where_it_comes_from(any_page):
    report, page = any_page
    texts = {own for file in files_of(report) for own in strings_in(file) if re.search(r"\d", own)}
    texts |= {own.short for own in report.models} | set(report.notes)
    texts |= {report.discrete.note} if report.discrete and report.discrete.note else set()
    parts = {own.partition(": ")[2].rstrip(".") for own in texts if ": " in own}
    known = sorted({own.rstrip(".") for own in texts} | parts, key=len, reverse=True)
    known += [own.rsplit(", ", 1)[0] for own in known if ", " in own]
    for node, text in at_least_one(page.root.texts):
        inside = {own.tag for own in node.chain}
        table = node.within("table")
        if inside & {"data", "pre", "code", "noscript", "head"} or not re.search(r"\d", text):
            continue
        if node.within("dl", kind="facts") or (table and kind_of_id(table) in SETTINGS):
            continue
        rest = " ".join(text.split())
        for pattern in PLAIN:
            rest = re.sub(pattern, "", rest)
        for own in known:
            rest = rest.replace(" ".join(own.split()), "") if re.search(r"\d", rest) else rest
        assert not re.search(r"\d", rest), (rest, text)


def kind_of_id(table):
    return table.own["id"].partition("-")[0]


def test_what_is_counted_in_sentences_is_counted_right(any_page):
    report, page = any_page
    shelf = Shelf(report)
    models = {own["name"] for file in shelf.files for own in file["models"]}
    (title,) = [text for tag, text in page.headings if tag == "h1"]
    assert len(models) == 1 or f" {len(models)} models?" in title
    for place, file in enumerate(shelf.files):
        more = len(file["images"]["digests"]) - 5
        note = page.table(f"files-{place}").note
        assert note == (f"And {more} more in results.json." if more > 0 else "")
    min_per_bin = {file["config"]["fit"]["min_per_bin"] for file in shelf.files}
    for table in page.tables:
        if table.id == "coverage":
            (fewest,) = {max(1, count) for count in min_per_bin}
            assert f"at least {fewest:g} {'sample' if fewest == 1 else 'samples'}" in table.caption
        if table.id.startswith("classes-"):
            short, space = re.match(r"(.+) by class in (.+):", table.caption).groups()
            place = int(table.id.split("-")[1])
            home = shelf.space(place, shelf.names[short], SPACES[space])
            few = sum(own["n_images"] < 3 for own in shelf.get(f"{home}/by_class"))
            assert (f"{few} more have" in table.note) == bool(few)
