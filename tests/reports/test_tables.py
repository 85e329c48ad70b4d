"""Every number of the page's tables against the labels of its row, its column and its table."""

import re

import pytest

from report_shelf import BOUNDS, DASH, SCORES, SPACES, UNDER, Shelf, called

# Tables: where the numbers of each cell stand by its labels. None: what is compared or counted


def space_in(caption):
    """The label space in a caption, without the number of images after it."""
    return SPACES[re.sub(r", [\d,]+ images?( in [\d,]+ \w+)?$", "", caption)]


def leaderboard(shelf, table, part):
    start = "Models ranked by .+?" if "Rank" in table.heads else "All scores"
    space = space_in(re.fullmatch(rf"{start} in (.+)", table.caption)[1])
    for row in table.rows:
        assert shelf.names[row.name] == row.model
        for head, cell in zip(table.heads, row.cells, strict=True):
            title = head.removesuffix(" (16 categories)").removesuffix(" (%)")
            if title in SCORES:
                where = "entry16" if head.endswith("categories)") else space
                yield cell, shelf.estimate(shelf.overall(part, row.model, where, SCORES[title]))
            else:
                assert head in ("Model", "Rank", "Category", "Significantly ahead of")
                yield cell, None


def worst(shelf, home, title):
    """The place of the worst value of a score under any corruption; None if fewer than 2 have it.

    Low areas are bad, and high errors.
    """
    names = [name.replace("/", "~1") for name in shelf.get(f"{home}/corruptions")]
    if title in ("mCE", "Relative mCE"):
        score = {"mCE": "ce", "Relative mCE": "relative_ce"}[title]
        places = {name: f"{home}/corruption_error/{score}/{name}" for name in names}
    else:
        places = {name: f"{home}/corruptions/{name}/{UNDER[title]}" for name in names}
    values = {name: shelf.get(f"{place}/value") for name, place in places.items()}
    known = {name: own for name, own in values.items() if own is not None}
    if len(known) < 2:
        return None, None
    chosen = (min if title in ("Rₐ", "Rₚ") else max)(known, key=known.get)
    return chosen.replace("~1", "/"), places[chosen]


def summary(shelf, table, part):
    found = re.fullmatch(r"(?:Models ranked by (.+?)|Main scores) in (.+)", table.caption)
    space = space_in(found[2])
    titles = [own.removesuffix(" (16 categories)").removesuffix(" (%)") for own in table.heads]
    (main,) = [own for own in titles if own in SCORES and own not in ("Clean accuracy", "HMRIₐ")]
    assert found[1] in (None, main)
    for row in table.rows:
        for title, head, cell in zip(titles, table.heads, row.cells, strict=True):
            if title in SCORES:
                where = "entry16" if head.endswith("categories)") else space
                yield cell, shelf.estimate(shelf.overall(part, row.model, where, SCORES[title]))
            elif title == "Worst corruption":
                name, place = worst(shelf, shelf.space(part, row.model, space), main)
                yield cell, [] if place is None else shelf.estimate(place)
                assert (
                    cell.text == DASH
                    if name is None
                    else cell.text.lower().startswith(called(name))
                )
            else:
                assert title in ("Model", "Rank")
                yield cell, None


def overview(shelf, table, part):
    title, space = re.fullmatch(r"(.+?) by corruption: .+ \((.+)\)", table.caption).groups()
    name = space_in(space)
    assert table.choice in ("", f"{title}, {space.partition(', ')[0]}")
    for row in table.rows:
        for head, cell in zip(table.heads[1:], row.cells[1:], strict=True):
            home = shelf.space(part, shelf.names[head], name)
            if row.is_total:
                yield cell, shelf.estimate(f"{home}/means/{SCORES[title]}")
            else:
                own = f"{home}/corruptions/{shelf.corruption(part, row.name)}/{UNDER[title]}"
                yield cell, shelf.estimate(own)
    named = [row.name for row in table.rows if not row.is_total]
    assert len(named) == len(set(named)) == len(table.rows) - (not title.startswith("Δv"))


def bounds(shelf, table, part):
    title, space = re.match(r"Bounds of (\w+), (.+), over", table.caption).groups()
    name = space_in(space)
    assert table.choice in ("", f"{title}, {space.partition(', ')[0]}")
    for row in table.rows:
        for head, cell in zip(table.heads[1:], row.cells[1:], strict=True):
            home = shelf.space(part, shelf.names[head], name)
            own = f"{home}/corruptions/{shelf.corruption(part, row.name)}/{BOUNDS[title]}"
            ends = shelf.there(f"{own}/0", f"{own}/1")
            yield cell, ends if len(ends) == 2 else []


def errors(shelf, table, part):
    title, baseline, space = re.match(
        r"(CE|Relative CE) as a percentage of the errors of (.+), and clean error .+ \((.+)\)",
        table.caption,
    ).groups()
    one, mean = {"CE": ("ce", "mce"), "Relative CE": ("relative_ce", "relative_mce")}[title]
    for row in table.rows:
        assert shelf.names[row.name] == row.model
        home = shelf.space(part, row.model, SPACES[space])
        errors = f"{home}/corruption_error"
        name = shelf.get(f"{errors}/baseline")
        assert shelf.names.get(baseline, baseline) == name
        for head, group, cell in zip(table.heads, table.groups, row.cells, strict=True):
            if head == "Clean error":
                yield cell, clean_error(shelf, home, cell)
            elif head in ("mCE", "Rel. mCE"):
                assert (head == "mCE") == (mean == "mce")
                yield cell, shelf.estimate(f"{errors}/{mean}")
            elif head != "Model":
                names = shelf.get(f"{errors}/{one}")
                full = {head.lower(), f"{head} {group}".lower(), f"{head} compression".lower()}
                (found,) = [name for name in names if called(name) in full]
                yield cell, shelf.there(f"{errors}/{one}/{found.replace('/', '~1')}/value")


def clean_error(shelf, home, cell):
    """What clean accuracy leaves."""
    (number,) = cell.numbers
    left = 1 - shelf.get(f"{home}/clean_accuracy/value")
    assert float(number.own["value"]) == pytest.approx(left, abs=1e-12)


def classes(shelf, table, part):
    short, space = re.match(r"(.+) by class in (.+):", table.caption).groups()
    assert table.choice in ("", f"{short}, {space}")
    home = f"{shelf.space(part, shelf.names[short], SPACES[space])}/by_class"
    known = [
        (own["corrupted"]["value"], place)
        for place, own in enumerate(shelf.get(home))
        if own["n_images"] >= 3
    ]
    hardest = [place for _, place in sorted(known)][:20]
    assert len(table.rows) == len(hardest)
    for row, place in zip(table.rows, hardest, strict=True):
        own, record = f"{home}/{place}", shelf.get(f"{home}/{place}")
        by_head = dict(zip(table.heads, row.cells, strict=True))
        assert row.name == record["name"]
        yield by_head["Images"], [f"{own}/n_images"]
        yield by_head["Clean accuracy (%)"], shelf.there(f"{own}/clean")
        yield by_head["Corrupted accuracy (%)"], shelf.estimate(f"{own}/corrupted")
        for head, word, share in (
            ("Worst under", called(record["worst"]), "worst_rate"),
            ("Predicts instead", record["instead"].lower(), "instead_share"),
        ):
            said = by_head[head].text.lower()
            assert said.startswith(word) if word else said == DASH
            yield by_head[head], shelf.there(f"{own}/{share}")


def similar(shelf, table, part):
    short, space = re.fullmatch(
        r"(.+) under corruptions that look alike to humans \((.+)\)", table.caption
    ).groups()
    assert table.choice in ("", short)
    home = f"{shelf.space(part, shelf.names[short], SPACES[space])}/similar"
    assert len(table.rows) == len(shelf.get(home))
    for row in table.rows:
        pair = tuple(cell.text.lower() for cell in row.cells[:2])
        letter = {"accuracy": "a", "consistency": "p"}[row.cells[2].text]
        (place,) = [
            place
            for place, own in enumerate(shelf.get(home))
            if (called(own["first"]), called(own["second"])) == pair and own["property"] == letter
        ]
        curves = {"one curve": 1, "both corruptions": 2}[row.cells[3].text]
        assert curves == shelf.get(f"{home}/{place}/human_curves")
        own = f"{home}/{place}"
        for cell, name in zip(row.cells[4:6], ("hmri", "mrsi"), strict=True):
            assert table.heads[row.cells.index(cell)].startswith(name.upper())
            ends = (f"{own}/{name}_interval/0", f"{own}/{name}_interval/1")
            yield cell, shelf.there(f"{own}/delta_{name}", *ends)
        ranges = range(len(shelf.get(f"{own}/ranges")))
        ends = [f"{own}/ranges/{each}/{end}" for each in ranges for end in ("start", "end")]
        yield row.cells[6], ends


def agreement(shelf, table, part):
    runs = shelf.parts[part]
    assert len(table.rows) == sum(len(shelf.files[run]["agreements"]) for run in runs)
    for row in table.rows:
        first, second, space = (cell.text for cell in row.cells[:3])
        wanted = (shelf.names.get(first, first), shelf.names.get(second, second), SPACES[space])
        (place,) = [
            f"{run}/agreements/{place}"
            for run in runs
            for place, own in enumerate(shelf.files[run]["agreements"])
            if (own["first"], own["second"], own["space"]) == wanted
        ]
        assert table.heads[3:] == ("κ", "Predictions")
        yield row.cells[3], shelf.estimate(f"{place}/kappa")
        yield row.cells[4], [f"{place}/trials"]


def coverage(shelf, table, _):
    fields = {"Covered (%)": "paper", "Largest Δv": "largest", "Samples": "rows"}
    for row in table.rows:
        for head, group, cell in list(zip(table.heads, table.groups, row.cells, strict=True))[1:]:
            part = shelf.suites[group] if group else 0
            run = shelf.parts[part][0]
            names = {called(name): name for name in shelf.files[run]["coverage"]}
            name = names.get(row.name.lower(), "").replace("/", "~1")
            yield cell, shelf.there(f"{run}/coverage/{name}/{fields[head]}")


def models(shelf, table, run):
    for place, row in enumerate(table.rows):
        assert row.name == shelf.files[run]["models"][place]["name"]
        assert table.heads[1] == "Classes"
        yield row.cells[1], [f"{run}/models/{place}/classes"]


def compared(_, table, __):
    for row in table.rows:
        for cell in row.cells:
            yield cell, None


def bare(_, table, __):
    for row in table.rows:
        for cell in row.cells:
            yield cell, []


TABLES = {
    "leaderboard": leaderboard, "summary": summary, "overview": overview, "bounds": bounds,
    "ce": errors,
    "relative-ce": errors, "classes": classes, "similar": similar, "agreement": agreement,
    "coverage": coverage, "models": models, "pairs": compared, "ranks-discrete": compared,
    "ranks-benchmarks": compared, "versions": bare, "settings": bare, "files": bare,
}  # fmt: skip


def kind_of(table):
    """What a table is about, and the place of the part or run that it is of."""
    if table.id in TABLES:
        return table.id, 0
    name, place = re.match(r"([a-z-]+)-(\d+)", table.id).groups()
    return name, int(place)


def test_every_number_of_a_table_is_that_of_its_row_and_column(any_page):
    report, page = any_page
    shelf = Shelf(report)
    checked = 0
    for table in page.tables:
        kind, place = kind_of(table)
        expected = {id(cell): places for cell, places in TABLES[kind](shelf, table, place)}
        for row in table.rows:
            for cell in row.cells:
                places = expected.get(id(cell), [])
                if places is None:
                    continue
                assert cell.values == shelf.values(*places), (table.id, row.name)
                assert (cell.text == DASH) <= (not places)
                checked += len(places)
    assert checked > 20
