"""How visual change is spread over a test set, and how much of it is covered.

ImageNet-C's fixed strengths stand above VCR's continuous ones where a report has both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eyechart.humans.transfer import bare_name
from eyechart.reports.html.charts.chart import (
    HATCH,
    Chart,
    Spec,
    axis,
    escape,
    names_axis,
    note,
    numbers,
    rounded,
    slug,
)
from eyechart.reports.series.palette import SUITE_COLOURS
from eyechart.reports.series.report import Part, Report, pointer
from eyechart.reports.words import corruption_title, corruption_words, suite_title
from eyechart.results.rankings import SHARED
from eyechart.results.schema import CorruptionCoverage

FIXED, CONTINUOUS = ("imagenet-c", "imagenet-c-extra"), ("vcr",)
PANEL, ROW, AROUND = 170, 30, 120
"""Heights of a panel, of a bar, and of what is around, in pixels."""


@dataclass(frozen=True)
class Spread:
    """One corruption's Δv in one test set; `run`: the place in the report of its run."""

    suite: str
    corruption: str
    run: int
    coverage: CorruptionCoverage


def histogram_charts(report: Report, place: int) -> Iterator[Chart]:
    """Yield a chart for each corruption of a part, unless VCR's shows both."""
    for corruption in report.parts[place].corruptions:
        own = _spread(report, report.parts[place], corruption)
        if own is None or not own.coverage.rows:
            continue
        partner = _partner(report, own)
        if partner and own.suite in FIXED:
            continue
        both = _in_order([own, *partner])
        yield Chart(
            slug("histogram", place, corruption),
            "histogram",
            place,
            "",
            corruption,
            f"{corruption_title(corruption)}: visual change in the test set",
            f"Shares of pictures in {len(own.coverage.histogram)} steps of visual change Δv under"
            f" {corruption_words(corruption)}: {'; '.join(_in_words(each) for each in both)}.",
            {"data": [_histogram(*each) for each in enumerate(both)], "layout": _layout(both)},
        )


def coverage_charts(report: Report, place: int) -> Iterator[Chart]:
    """Yield a chart of what a part's corruptions cover, VCR's next to ImageNet-C's if any."""
    found = [_spread(report, report.parts[place], name) for name in report.parts[place].corruptions]
    own = [each for each in found if each is not None]
    is_continuous = report.parts[place].suite in CONTINUOUS
    # what VCR's chart shows beside its own is not shown again
    if is_continuous is False and all(_partner(report, each) for each in own):
        return
    others = [other for each in own for other in _partner(report, each)] if is_continuous else []
    sets = [own, others]
    sets = sorted((each for each in sets if each), key=lambda each: each[0].suite in CONTINUOUS)
    suites = [suite_title(each[0].suite) for each in sets]
    yield Chart(
        slug("coverage", place),
        "coverage",
        place,
        "",
        "",
        f"How much of visual change is covered: {' and '.join(suites)}",
        f"{'; '.join(_covered_in_words(each) for each in sets)}.",
        {"data": [_bars(each) for each in sets], "layout": _coverage_layout(len(own), len(sets))},
    )


def _spread(report: Report, part: Part, corruption: str) -> Spread | None:
    run = part.runs[0]
    coverage = run.coverage.get(corruption)
    if coverage is None:
        return None
    return Spread(part.suite, corruption, report.runs.index(run), coverage)


def _partner(report: Report, own: Spread) -> list[Spread]:
    """Return the same corruption in ImageNet-C if this is of VCR, or the other way round."""
    name = bare_name(own.corruption)
    wanted = CONTINUOUS if own.suite in FIXED else FIXED if own.suite in CONTINUOUS else ()
    for part in report.parts:
        if name in SHARED and part.suite in wanted:
            for corruption in part.corruptions:
                other = _spread(report, part, corruption)
                if bare_name(corruption) == name and other is not None:
                    return [other]
    return []


def _in_order(spreads: Sequence[Spread]) -> list[Spread]:
    return sorted(spreads, key=lambda each: each.suite in CONTINUOUS)


def _histogram(panel: int, spread: Spread) -> Spec:
    counts, rows = spread.coverage.histogram, spread.coverage.rows
    step = 1 / len(counts)
    return {
        "type": "bar",
        "name": escape(suite_title(spread.suite)),
        "x0": rounded(step / 2),
        "dx": rounded(step),
        "y": numbers(100 * count / rows for count in counts),
        "width": rounded(step),
        "yaxis": "y" if panel == 0 else "y2",
        "showlegend": False,
        "marker": _look(spread.suite),
        "hovertemplate": "Δv %{x:.2f}: %{y:.1f} % of pictures<extra></extra>",
        "meta": {
            "model": "",
            "from": pointer(spread.run, "coverage", spread.corruption, "histogram"),
            "rows": rows,
        },
    }


def _look(suite: str) -> Spec:
    colour, pattern = SUITE_COLOURS.get(suite, SUITE_COLOURS[""])
    return {"color": colour, "pattern": {**HATCH, "shape": pattern}}


def _layout(spreads: Sequence[Spread]) -> Spec:
    high = max(100 * max(own.coverage.histogram) / own.coverage.rows for own in spreads)
    count = len(spreads)
    layout: Spec = {
        "height": PANEL * count + 90,
        "bargap": 0,
        "xaxis": axis("visual change Δv", range=[0, 1], anchor="y" if count == 1 else "y2"),
        "annotations": [],
    }
    for panel, spread in enumerate(spreads):
        own = "yaxis" if panel == 0 else "yaxis2"
        domain = [0, 1] if count == 1 else [[0.56, 1], [0, 0.44]][panel]
        layout[own] = axis(
            "% of pictures", range=[0, rounded(high * 1.12)], domain=domain, nticks=4
        )
        text = f"<b>{escape(suite_title(spread.suite))}</b>, {spread.coverage.rows:,} pictures"
        where = {"xref": "x domain", "yref": f"{'y' if panel == 0 else 'y2'} domain"}
        layout["annotations"].append(
            note(text, 0, 1, xanchor="left", yanchor="bottom", **where)
        )  # fmt: skip
    return layout


def _in_words(spread: Spread) -> str:
    counts = spread.coverage.histogram
    top = counts.index(max(counts))
    filled = [place for place, count in enumerate(counts) if count]
    step = 1 / len(counts)
    return (
        (
            f"{suite_title(spread.suite)} has pictures from {filled[0] * step:.2f} to"
            f" {(filled[-1] + 1) * step:.2f}, most at {(top + 0.5) * step:.2f}"
        )
        if filled
        else f"{suite_title(spread.suite)} has none whose change is known"
    )


def _bars(spreads: Sequence[Spread]) -> Spec:
    suite = spreads[0].suite
    return {
        "type": "bar",
        "orientation": "h",
        "name": escape(suite_title(suite)),
        "x": numbers(each.coverage.paper for each in spreads),
        "y": [escape(corruption_title(each.corruption)) for each in spreads],
        "marker": _look(suite),
        "texttemplate": "%{x:.1%}",
        "textposition": "auto",
        "hovertemplate": "%{y}: %{x:.1%} of Δv<extra>%{fullData.name}</extra>",
        "meta": {
            "model": "",
            "each": [pointer(each.run, "coverage", each.corruption, "paper") for each in spreads],
            "of": "x",
        },
    }


def _coverage_layout(rows: int, sets: int) -> Spec:
    return {
        "height": AROUND + rows * (12 + (ROW - 12) * sets),
        "bargap": 0.25,
        "xaxis": axis("share of visual change covered", range=[0, 1.02], tickformat=".0%"),
        "yaxis": names_axis(),
        "showlegend": sets > 1,
    }


def _covered_in_words(spreads: Sequence[Spread]) -> str:
    most = max(spreads, key=lambda each: each.coverage.paper)
    least = min(spreads, key=lambda each: each.coverage.paper)
    return (
        f"{suite_title(spreads[0].suite)} covers from {least.coverage.paper:.1%} of visual change"
        f" ({corruption_words(least.corruption)}) to {most.coverage.paper:.1%}"
        f" ({corruption_words(most.corruption)})"
    )
