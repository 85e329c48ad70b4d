"""Numbers of the report's page against the labels beside them and against a second computation."""

import re
from base64 import b64decode
from dataclasses import replace
from io import BytesIO
from itertools import combinations

import numpy as np
import pytest
from PIL import Image
from scipy.stats import rankdata

from eyechart.evaluation.comparison import HIGHER_IS_BETTER, stand
from eyechart.evaluation.rankings import fixed_against_continuous, rank_in_ways
from eyechart.evaluation.runs import make_boards, read_run
from eyechart.reports.page.render import render_report
from report_pages import KINDS, Page, at, files_of, maker
from report_runs import BLIND, DULL, SHARP

SCORES = {
    "Clean accuracy": "clean_accuracy", "Error": "error", "mCE": "mce",
    "Relative mCE": "relative_mce", "Rₐ": "r_a", "Rₚ": "r_p", "HMRIₐ": "hmri_a", "MRSIₐ": "mrsi_a",
    "HMRIₚ": "hmri_p", "MRSIₚ": "mrsi_p",
}  # fmt: skip
UNDER = {
    "Error": "error", "Rₐ": "accuracy/robustness", "Rₚ": "consistency/robustness",
    "HMRIₐ": "accuracy/people/hmri", "MRSIₐ": "accuracy/people/mrsi",
    "HMRIₚ": "consistency/people/hmri", "MRSIₚ": "consistency/people/mrsi",
}  # fmt: skip
"""Where a score under one corruption stands."""

BOUNDS = {
    "Rₐ": "accuracy/bounds", "Rₚ": "consistency/bounds",
    "HMRIₐ": "accuracy/people/hmri_bounds", "HMRIₚ": "consistency/people/hmri_bounds",
}  # fmt: skip
SPACES = {"the models’ own classes": "native", "people’s 16 categories": "entry16"}
SUITES = {"vcr": "VCR-Bench", "imagenet-c": "ImageNet-C"}
DASH = "–"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return maker(tmp_path_factory)


@pytest.fixture(params=KINDS)
def any_page(request, made):
    return made(request.param)


def called(corruption):
    """What a corruption is called, in small letters."""
    return corruption.rsplit("/", 1)[-1].replace("_", " ").lower()


class Shelf:
    """Where in the files of a report stands what the page's labels name."""

    def __init__(self, report):
        self.files = files_of(report)
        self.names = {own.short: own.name for own in report.models}
        assert len(self.names) == len(report.models)
        suites = list(dict.fromkeys(file["config"]["suite"] for file in self.files))
        self.parts = [
            [place for place, file in enumerate(self.files) if file["config"]["suite"] == suite]
            for suite in suites
        ]
        self.suites = {
            SUITES.get(suite, suite.rsplit("/", 1)[-1]): place for place, suite in enumerate(suites)
        }

    def model(self, part, name):
        """The place of a model: of the first run of the part that has it."""
        for run in self.parts[part]:
            for place, own in enumerate(self.files[run]["models"]):
                if own["name"] == name:
                    return f"{run}/models/{place}"
        raise AssertionError(name)

    def space(self, part, name, space):
        return f"{self.model(part, name)}/spaces/{space}"

    def corruption(self, part, title):
        """The name of a corruption in the part's file, as it stands in a place."""
        names = self.files[self.parts[part][0]]["config"]["corruptions"]
        (found,) = [name for name in names if called(name) == title.lower()]
        return found.replace("/", "~1")

    def get(self, place):
        """What stands at a place, None if there is no such place."""
        try:
            return at(self.files, place)
        except (KeyError, TypeError, IndexError):
            return None

    def there(self, *places):
        """The places at which there is something."""
        return [place for place in places if self.get(place) is not None]

    def estimate(self, place):
        """The places of a score and of the ends of its interval, as far as there are any."""
        if self.get(f"{place}/value") is None:
            return []
        return [
            f"{place}/value", *self.there(f"{place}/interval95/0", f"{place}/interval95/1")
        ]  # fmt: skip

    def overall(self, part, name, space, score):
        """The place of an overall score of a model; people's are in their own label space."""
        folder = {"clean_accuracy": "", "mce": "/corruption_error", "relative_mce":
                  "/corruption_error"}.get(score, "/means")  # fmt: skip
        spaces = (space, "entry16") if score.startswith(("hmri", "mrsi")) else (space,)
        places = [f"{self.space(part, name, own)}{folder}/{score}" for own in spaces]
        return self.there(*places)[0]


# Tables: what each cell must point to by its labels. None: a number that is compared or counted


def leaderboard(shelf, table, part):
    space = SPACES[re.fullmatch(r"Models ranked by .+ in (.+)", table.caption)[1]]
    for row in table.rows:
        assert shelf.names[row.name] == row.model
        for head, cell in zip(table.heads, row.cells, strict=True):
            title = head.removesuffix(" (16 categories)").removesuffix(" (%)")
            if title in SCORES:
                where = "entry16" if head.endswith("categories)") else space
                yield cell, shelf.estimate(shelf.overall(part, row.model, where, SCORES[title]))
            else:
                assert head in ("Model", "Rank", "Category", "Clearly ahead of")
                yield cell, None


def overview(shelf, table, part):
    title, space = re.fullmatch(r"(\w+) by corruption: .+ \((.+)\)", table.caption).groups()
    assert table.choice in ("", f"{title}, {space}")
    for row in table.rows:
        for head, cell in zip(table.heads[1:], row.cells[1:], strict=True):
            home = shelf.space(part, shelf.names[head], SPACES[space])
            if row.is_total:
                yield cell, shelf.estimate(f"{home}/means/{SCORES[title]}")
            else:
                own = f"{home}/corruptions/{shelf.corruption(part, row.name)}/{UNDER[title]}"
                yield cell, shelf.estimate(own)
    named = [row.name for row in table.rows if not row.is_total]
    assert len(named) == len(set(named)) == len(table.rows) - 1


def bounds(shelf, table, part):
    title, space = re.match(r"Between what (\w+), (.+), lies", table.caption).groups()
    assert table.choice in ("", f"{title}, {space}")
    for row in table.rows:
        for head, cell in zip(table.heads[1:], row.cells[1:], strict=True):
            home = shelf.space(part, shelf.names[head], SPACES[space])
            own = f"{home}/corruptions/{shelf.corruption(part, row.name)}/{BOUNDS[title]}"
            ends = shelf.there(f"{own}/0", f"{own}/1")
            yield cell, ends if len(ends) == 2 else []


def errors(shelf, table, part):
    title, baseline, space = re.match(
        r"(CE|Relative CE) in percent of the errors of (.+), and clean error .+ \((.+)\)",
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
    """Any of the places that say it, if all say the same, or what clean accuracy leaves."""
    names = [name.replace("/", "~1") for name in shelf.get(f"{home}/corruptions")]
    places = [f"{home}/corruptions/{name}/clean_error/value" for name in names]
    if cell.places:
        assert len({shelf.get(place) for place in shelf.there(*places)}) == 1
        return [next(place for place in places if place in cell.places)]
    (number,) = cell.numbers
    left = 1 - shelf.get(f"{home}/clean_accuracy/value")
    assert float(number.own["value"]) == pytest.approx(left, abs=1e-12)
    return None


def classes(shelf, table, part):
    short, space = re.match(r"(.+) by class in (.+):", table.caption).groups()
    assert table.choice in ("", f"{short}, {space}")
    home = f"{shelf.space(part, shelf.names[short], SPACES[space])}/by_class"
    known = [
        (own["corrupted"]["value"], place)
        for place, own in enumerate(shelf.get(home))
        if own["pictures"] >= 3
    ]
    hardest = [place for _, place in sorted(known)][:20]
    assert len(table.rows) == len(hardest)
    for row, place in zip(table.rows, hardest, strict=True):
        own, record = f"{home}/{place}", shelf.get(f"{home}/{place}")
        by_head = dict(zip(table.heads, row.cells, strict=True))
        assert row.name == record["name"]
        yield by_head["Pictures"], [f"{own}/pictures"]
        yield by_head["Clean right (%)"], shelf.there(f"{own}/clean")
        yield by_head["Corrupted right (%)"], shelf.estimate(f"{own}/corrupted")
        for head, word, share in (
            ("Worst under", called(record["worst"]), "worst_rate"),
            ("Says instead", record["instead"].lower(), "instead_share"),
        ):
            said = by_head[head].text.lower()
            assert said.startswith(word) if word else said == DASH
            yield by_head[head], shelf.there(f"{own}/{share}")


def similar(shelf, table, part):
    short, space = re.fullmatch(
        r"(.+) under corruptions that look alike to people \((.+)\)", table.caption
    ).groups()
    assert table.choice in ("", short)
    home = f"{shelf.space(part, shelf.names[short], SPACES[space])}/similar"
    assert len(table.rows) == len(shelf.get(home))
    for row in table.rows:
        pair = tuple(cell.text.lower() for cell in row.cells[:2])
        (place,) = [
            place
            for place, own in enumerate(shelf.get(home))
            if (called(own["first"]), called(own["second"])) == pair
        ]
        own = f"{home}/{place}"
        for cell, name in zip(row.cells[2:4], ("hmri", "mrsi"), strict=True):
            assert table.heads[row.cells.index(cell)].startswith(name.upper())
            ends = (f"{own}/{name}_interval/0", f"{own}/{name}_interval/1")
            yield cell, shelf.there(f"{own}/delta_{name}", *ends)
        ranges = range(len(shelf.get(f"{own}/ranges")))
        ends = [f"{own}/ranges/{each}/{end}" for each in ranges for end in ("start", "end")]
        yield row.cells[4], ends


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
        assert table.heads[3:] == ("κ", "Answers")
        yield row.cells[3], shelf.estimate(f"{place}/kappa")
        yield row.cells[4], [f"{place}/trials"]


def coverage(shelf, table, _):
    fields = {"Covered (%)": "paper", "Largest Δv": "largest", "Pictures": "rows"}
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
    "leaderboard": leaderboard, "overview": overview, "bounds": bounds, "ce": errors,
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
                    assert not cell.places
                    continue
                assert cell.places == places, (table.id, row.name)
                assert len(cell.numbers) == len(places)
                assert (cell.text == DASH) <= (not places)
                for number in cell.numbers:
                    assert float(number.own["value"]) == shelf.get(number.own["data-at"])
                    checked += 1
    assert checked > 20


def test_numbers_beside_a_models_name_are_of_that_model(any_page):
    report, page = any_page
    shelf = Shelf(report)
    seen = 0
    for place, verdicts in enumerate(page.root.all("ul", kind="verdicts")):
        for verdict in verdicts.all("li"):
            name = verdict.own["data-verdict"]
            home = shelf.model(place, name)
            assert verdict.all("strong", kind="name")[0].text == shelf_short(shelf, name)
            assert verdict.places
            assert all(own.startswith(f"{home}/") for own in verdict.places)
            seen += 1
    assert seen == sum(len(part.models) for part in report.parts)


def shelf_short(shelf, name):
    (short,) = [short for short, own in shelf.names.items() if own == name]
    return short


def test_every_number_stands_where_something_looks_at_it(any_page):
    _, page = any_page
    for number in page.root.numbers:
        around = list(number.chain)
        origin = number.own.get("data-from")
        if number.within("table"):
            continue
        if number.within("ol", kind="strip"):
            assert re.match(r"\d+/examples/", number.own["data-at"])
        elif number.within("li", kind="verdict"):
            assert origin in (None, "count")
        elif number.within("p", kind="lede") or number.within("dl", kind="facts"):
            assert origin == "count" or "/images/" in number.own["data-at"]
        elif number.within("ul", kind="notes"):
            assert origin == "count" or re.search(
                r"/(left_out|unmeasurable)$", number.own["data-at"]
            )
        else:
            # how often orders change, below a table of ranks
            assert origin == "count" and number.within("p", kind="note"), around


def test_the_summary_counts_corruptions_and_pictures(any_page):
    report, page = any_page
    shelf = Shelf(report)
    (lede,) = page.root.all("p", kind="lede")
    counts = [float(own.own["value"]) for own in lede.numbers if "data-from" in own.own]
    firsts = [shelf.files[runs[0]] for runs in shelf.parts]
    assert counts == [len(file["config"]["corruptions"]) for file in firsts]
    used = {file["images"]["used"] for file in shelf.files}
    assert {shelf.get(place) for place in lede.places} == used


# Comparisons, computed a second time


def boards_of(report):
    return make_boards([read_run(run.folder) for run in report.runs])


def overall_values(shelf, part, standings):
    """The score that models are ranked by, of each model, from results.json."""
    return {
        name: shelf.get(
            f"{shelf.overall(part, name, standings.space, standings.by)}/value"
        )
        for name in standings.board.models
    }  # fmt: skip


def test_ranks_are_those_of_the_scores(any_page):
    report, page = any_page
    shelf = Shelf(report)
    for place, board in enumerate(boards_of(report)):
        standings, table = stand(board), page.table(f"leaderboard-{place}")
        values = overall_values(shelf, place, standings)
        sign = -1 if HIGHER_IS_BETTER[standings.by] else 1
        ranks = rankdata([sign * own for own in values.values()])
        expected = dict(zip(values, ranks, strict=True))
        column = table.heads.index("Rank")
        shown = []
        for row in table.rows:
            rank, *ends = (float(own.own["value"]) for own in row.cells[column].numbers)
            assert rank == expected[row.model]
            assert tuple(ends) == standings.ranks.intervals[row.model]
            shown.append(rank)
        assert shown == sorted(shown) and len(shown) == len(values)


def p_values_of(standings):
    """p-values of all pairs, in any order of the two, and corrected by Holm's method by hand."""
    own = {frozenset((pair.first, pair.second)): pair.p_value for pair in standings.pairs}
    corrected, largest = {}, 0.0
    for place, (pair, value) in enumerate(sorted(own.items(), key=lambda each: each[1])):
        largest = max(largest, (len(own) - place) * value)
        corrected[pair] = min(1.0, largest)
    return own, corrected


def test_paired_differences_have_their_sign_and_their_p_values(any_page):
    report, page = any_page
    shelf = Shelf(report)
    for place, board in enumerate(boards_of(report)):
        standings = stand(board)
        tables = [own for own in page.tables if own.id == f"pairs-{place}"]
        pairs = list(combinations(board.models, 2))
        assert len(tables) == bool(pairs)
        values, (single, corrected) = (
            overall_values(shelf, place, standings),
            p_values_of(standings),
        )
        drawn = {name: own.replicates for name, own in standings.scores[standings.by].items()}
        seen = []
        for row in tables[0].rows if tables else ():
            first, second = (shelf.names[cell.text] for cell in row.cells[:2])
            pair = frozenset((first, second))
            seen.append(pair)
            found, low, high, p_value, holm = (
                float(own.own["value"]) for own in row.cells[2].numbers + row.cells[3].numbers
                + row.cells[4].numbers
            )  # fmt: skip
            assert found == pytest.approx(values[first] - values[second], abs=1e-12)
            ends = np.quantile(drawn[first] - drawn[second], [0.025, 0.975])
            assert not np.isfinite(ends).all() or [low, high] == pytest.approx(list(ends))
            assert (p_value, holm) == (single[pair], pytest.approx(corrected[pair]))
            is_sure = corrected[pair] < 0.05
            said = "no claim" if standings.verdict else "yes" if is_sure else "no"
            assert row.cells[5].text == said
        assert sorted(map(sorted, seen)) == sorted(map(sorted, pairs))


def test_clearly_ahead_of_names_those_that_are_behind_by_more_than_chance(any_page):
    report, page = any_page
    shelf = Shelf(report)
    for place, board in enumerate(boards_of(report)):
        standings, table = stand(board), page.table(f"leaderboard-{place}")
        values, (_, corrected) = overall_values(shelf, place, standings), p_values_of(standings)
        sign = 1 if HIGHER_IS_BETTER[standings.by] else -1
        order = [row.model for row in table.rows]
        for row in table.rows:
            behind = [
                name
                for name in order
                if name != row.model
                and sign * (values[row.model] - values[name]) > 0
                and corrected[frozenset((row.model, name))] < 0.05
                and not standings.verdict
            ]
            assert behind == standings.worse_than(row.model)
            said = row.cells[table.heads.index("Clearly ahead of")].text
            named = [] if said == DASH else re.split(r", | and ", said)
            assert [shelf.names[short] for short in named] == behind


def test_some_models_of_the_pages_are_clearly_ahead_and_some_are_not(made):
    report, _ = made("two runs")
    (standings,) = map(stand, boards_of(report))
    assert [len(standings.worse_than(name)) for name in (SHARP, DULL, BLIND)] == [2, 1, 0]
    assert standings.order == [SHARP, DULL, BLIND] != list(standings.board.models)


def test_cells_of_ranks_are_those_of_the_scores_under_each_corruption(made):
    report, page = made("both")
    shelf = Shelf(report)
    table = page.table("ranks-discrete")
    names = [shelf.names[head] for head in table.heads[1:-1]]
    for row in table.rows:
        ways = []
        for suite, field in (
            ("ImageNet-C", "error"),
            ("VCR-Bench", "accuracy/robustness"),
            ("VCR-Bench", "consistency/robustness"),
        ):
            part = shelf.suites[suite]
            corruption = shelf.corruption(part, row.name)
            values = [
                shelf.get(
                    f"{shelf.space(part, name, 'native')}/corruptions/{corruption}/{field}/value"
                )
                for name in names
            ]
            ways.append(rankdata(values if field == "error" else [-own for own in values]))
        for place, cell in enumerate(row.cells[1:-1]):
            shown = [float(own.own["value"]) for own in cell.numbers]
            assert shown == [ranks[place] for ranks in ways]


def mixed(report):
    """The report with models that change places: in R_a the last is first, in R_p the second is."""
    order = {"r_a": (BLIND, DULL, SHARP), "r_p": (DULL, SHARP, BLIND)}
    runs = []
    for run in report.runs:
        scores = dict(run.scores)
        for model, space, corruption, score in run.scores:
            if run.config["suite"] == "vcr" and score in order and corruption:
                source = (SHARP, DULL, BLIND)[order[score].index(model)]
                scores[model, space, corruption, score] = run.scores[
                    source, space, corruption, score
                ]
        runs.append(replace(run, scores=scores))
    return make_boards(runs)


def test_ranks_that_differ_are_shown_in_the_order_that_the_note_names(made):
    report, _ = made("both")
    boards = mixed(report)
    discrete = fixed_against_continuous(boards)
    errors = [board.overall("native", "error") for board in boards]
    reverse = {SHARP: errors[1][BLIND], DULL: errors[1][DULL], BLIND: errors[1][SHARP]}
    ways = {"imagenet-c": (errors[1], False), "imagenet-noc": (reverse, False)}
    changed = replace(
        report, discrete=discrete, benchmarks=(rank_in_ways("error", ways, ""),)
    )  # fmt: skip
    page = Page(render_report(changed))
    short = {own.name: own.short for own in report.models}
    table = page.table("ranks-discrete")
    # by hand: accuracy has SHARP, DULL, BLIND; R_a BLIND, DULL, SHARP; R_p DULL, SHARP, BLIND
    expected = {SHARP: "1 / 3 / 2", DULL: "2 / 2 / 1", BLIND: "3 / 1 / 3"}
    noise, brightness = table.rows
    for name, shown in expected.items():
        assert noise.cells[table.heads.index(short[name])].text == shown
    # they change places three times, once and twice; under brightness all are equal
    assert [row.cells[-1].text for row in (noise, brightness)] == ["6", "0"]
    named = [table.note.index(way) for way in ("ImageNet-C", "Rₐ", "Rₚ")]
    assert named == sorted(named)
    sure = [
        (short[swap.first], short[swap.second])
        for each in discrete.corruptions
        for _, _, swap in each.swaps
        if max(swap.p_values) < 0.05 and not each.verdict
    ]
    any_name = "|".join(map(re.escape, short.values()))
    said = re.findall(f"({any_name}).*?({any_name})", table.note)
    assert sure and said == sure
    other = page.table("ranks-benchmarks")
    (row,) = other.rows
    expected = {SHARP: "1 / 3", DULL: "2 / 2", BLIND: "3 / 1"}
    for name, shown in expected.items():
        assert row.cells[other.heads.index(short[name])].text == shown
    assert row.name == "Error" and row.cells[-1].text == "3"


# What is read


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
    for number in page.root.numbers:
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
    for table in page.tables:
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
    r"people’s 16 categories|\(16 categories\)|ImageNet-C\b|16 categories: see entry16": "names",
    r"(95|83) % (of resampled|\(light\)|\(dark\)|of what came out|bands)": "levels of intervals",
    r"from 0 to 1 is|change: 0 for|picture, 1 if|; [01]: nowhere": "what a score means",
    r"fewer than 40 pictures\. Bands": "from where on intervals are widened",
    r"39 equal bins": "what coverage is",
    r"with at least [\d and]+ pictures": "a setting, checked below",
    r"\d+ models? see": "counted, checked below",
    r"\brun \d+\b|^Run \d+:": "which run of the page",
    r"And [\d,]+ more in results": "counted, checked below",
    r"[\d,]+ more have fewer than 3": "counted, checked below",
    r"SHA-256": "a name",
}
"""Numbers in sentences: no result has a say in them, or they count what is listed."""

SETTINGS = ("versions", "settings", "files", "models")
"""Tables of text: versions, settings, digests."""


def strings_in(value):
    """All texts in a results.json: notes, names, paths."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, own in value.items():
            yield key
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
    for node, text in page.root.texts:
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
    assert len(models) == 1 or f" {len(models)} models " in title
    for place, file in enumerate(shelf.files):
        more = len(file["images"]["digests"]) - 5
        note = page.table(f"files-{place}").note
        assert note == (f"And {more} more in results.json." if more > 0 else "")
    least = {f"{file['config']['fit']['least']:g}" for file in shelf.files}
    for table in page.tables:
        if table.id == "coverage":
            assert f"at least {' and '.join(sorted(least))} pictures" in table.caption
        if table.id.startswith("classes-"):
            short, space = re.match(r"(.+) by class in (.+):", table.caption).groups()
            place = int(table.id.split("-")[1])
            home = shelf.space(place, shelf.names[short], SPACES[space])
            few = sum(own["pictures"] < 3 for own in shelf.get(f"{home}/by_class"))
            assert (f"{few} more have" in table.note) == bool(few)


# Strips of pictures


MARKS = {(True, None): "✓", (False, None): "✗", (None, True): "=", (None, False): "≠"}


def strips(report, page):
    """Yield the strip of every corruption, with its name and its run."""
    shelf = Shelf(report)
    for place, part in enumerate(shelf.parts):
        names = shelf.files[part[0]]["config"]["corruptions"]
        for number, name in enumerate(names):
            panel = page.by_id(f"corruption-{place}-{number}")
            title = panel.all("h4")[0].text.removesuffix(list(shelf.suites)[place]).strip()
            assert title.lower() == called(name)
            yield shelf, place, name, panel


def examples_of(file, corruption):
    """The places of the pictures that a strip must show, in its order."""
    own = [place for place, each in enumerate(file["examples"]) if each["corruption"] == corruption]
    pictures = {file["examples"][place]["picture"] for place in own}
    clean = [
        place
        for place, each in enumerate(file["examples"])
        if each["corruption"] == "clean" and {each["picture"]} == pictures
    ]
    return [*clean, *own]


def answer_to(shelf, part, example, name):
    """A model's answer to an example, and its place, from the model's own run; None if not kept."""
    run = int(shelf.model(part, name).split("/")[0])
    for place, own in enumerate(shelf.files[run]["examples"]):
        same = all(own[key] == example[key] for key in ("corruption", "row", "picture"))
        if same and name in own["answers"]:
            return f"{run}/examples/{place}/answers/{name.replace('~', '~0').replace('/', '~1')}"
    return None


def test_strips_hold_the_examples_of_their_corruption_in_order(any_page):
    report, page = any_page
    options = page.by_id("answers").all("option")
    for shelf, part, name, panel in strips(report, page):
        run = shelf.parts[part][0]
        expected = examples_of(shelf.files[run], name)
        frames = panel.all("li", kind="frame")
        assert len(frames) == len(expected) > 0
        failed = set()
        changes = []
        for frame, place in zip(frames, expected, strict=True):
            example = shelf.files[run]["examples"][place]
            is_clean = example["corruption"] == "clean"
            home = f"{run}/examples/{place}"
            where = frame.all("p", kind="where")[0].all("strong")[0]
            assert where.places == ([] if is_clean else shelf.there(f"{home}/delta_v"))
            changes += [] if is_clean or example["delta_v"] is None else [example["delta_v"]]
            strength = frame.all("span", kind="strength")[0]
            own = [
                f"{home}/severity",
                *(f"{home}/parameters/{key}" for key in example["parameters"]),
            ]
            assert strength.places == ([] if is_clean else shelf.there(*own))
            truth = frame.all("p", kind="truth")[0]
            assert [own.text for own in truth.all("q")] == [example["truth"]] * bool(
                example["truth"]
            )
            said = {}
            for line in frame.all("p", kind="said"):
                (option,) = [own for own in options if own.own["value"] == line.own["data-answers"]]
                said[shelf.names[option.text]] = line
            models = [own.name for own in report.parts[part].models]
            answers = {model: answer_to(shelf, part, example, model) for model in models}
            assert list(said) == [model for model in models if answers[model]]
            for model, line in said.items():
                answer = shelf.get(answers[model])
                assert line.all("q")[0].text == " ".join(answer["said"].split())
                assert line.places == [f"{answers[model]}/confidence"]
                is_right = answer["correct"]
                other = None if is_right is not None else answer["consistent"]
                assert line.all("b")[0].text.startswith(MARKS.get((is_right, other), "?"))
                fails = not is_clean and (is_right is False or other is False)
                is_first = fails and model not in failed
                failed |= {model} if fails else set()
                assert bool(line.all("strong", kind="first")) == is_first
        assert changes == sorted(changes)


def pixels(picture):
    return np.asarray(picture.convert("RGB").resize((24, 24)), dtype=float)


@pytest.mark.parametrize("kind", ["both", "two runs", "files", "chance"])
def test_strips_show_the_pictures_that_they_speak_of(made, kind):
    report, page = made(kind)
    seen = 0
    for shelf, part, name, panel in strips(report, page):
        run = shelf.parts[part][0]
        kept = shelf.files[run]["examples"]
        folder = report.runs[run].folder / "examples"
        known = {own["file"]: pixels(Image.open(folder / own["file"])) for own in kept}
        frames = panel.all("li", kind="frame")
        for frame, place in zip(frames, examples_of(shelf.files[run], name), strict=True):
            (shown,) = frame.all("img")
            data = b64decode(shown.own["src"].partition(",")[2])
            picture = pixels(Image.open(BytesIO(data)))
            distance = {file: np.abs(picture - own).mean() for file, own in known.items()}
            nearest = min(distance, key=distance.get)
            assert distance[kept[place]["file"]] == pytest.approx(distance[nearest], abs=0.5)
            assert distance[nearest] < 12
            change = kept[place]["delta_v"]
            is_clean = kept[place]["corruption"] == "clean"
            assert is_clean or change is None or f" {change:.2f}" in shown.own["alt"]
            seen += 1
    assert seen > 5
