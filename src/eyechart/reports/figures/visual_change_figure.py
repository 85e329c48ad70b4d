"""How test sets spread over visual change: histograms, and the share of bins that are covered."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from eyechart.humans.transfer import bare_name
from eyechart.reports.figures.latex import latex_table
from eyechart.reports.figures.panels import VISUAL_CHANGE, label_outer, panels
from eyechart.reports.figures.plan import Plan, Plans, suite_words
from eyechart.reports.figures.style import COLUMN, INK, SMALL, drawable, legend
from eyechart.reports.series.report import Part, Report
from eyechart.reports.words import corruption_title, suite_title
from eyechart.results.schema import CorruptionCoverage

HEIGHT = 1.25
ROW = 0.16
FIXED = ("imagenet-c", "imagenet-c-extra")
LOOKS = (("#D55E00", "/////", 0.0), ("#0072B2", "", 0.45))
"""Colour, hatch and darkness of fixed severities and of continuous ones."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Test sets shown together: of each corruption, what every set covers, by the set's title."""

    suites: tuple[str, ...]
    corruptions: Mapping[str, Mapping[str, CorruptionCoverage]]


def plan_visual_change(report: Report) -> Plans:
    """Return histograms and coverage, ImageNet-C beside VCR where there are both."""
    plans, notes = [], []
    for words, parts in _together(report):
        spread = spread_of(parts)
        if not spread.corruptions:
            names = " and ".join(spread.suites)
            why = "they have no corruption in common" if len(parts) > 1 else "it was not measured"
            notes.append(f"No distribution of Δv of {names}: {why}.")
            continue
        names = " and ".join(spread.suites)
        plans.append(
            Plan(
                ("delta_v", *words),
                f"Share of the pictures of {names} in 39 bins of visual change.",
                partial(draw_histograms, spread),
            )
        )
        least = " and ".join(dict.fromkeys(f"{each:g}" for each in map(_least, parts)))
        plans.append(
            Plan(
                ("coverage", *words),
                f"Share of 39 bins of visual change with at least {least} pictures of {names}.",
                partial(draw_coverage, spread),
            )
        )
        caption = f"Share of 39 bins of visual change with at least {least} images, of {names}."
        make = partial(coverage_table, spread, caption)
        plans.append(Plan(("coverage-table", *words), caption, make, (".tex",)))
    return Plans(tuple(plans), tuple(notes))


def _least(part: Part) -> float:
    return float(part.runs[0].config["fit"]["least"])


def _together(report: Report) -> list[tuple[tuple[str, ...], list[Part]]]:
    """Return the parts that are drawn into one figure, and what its name adds."""
    fixed = [part for part in report.parts if part.suite in FIXED]
    vcr = [part for part in report.parts if part.suite == "vcr"]
    found: list[tuple[tuple[str, ...], list[Part]]]
    found = [(suite_words(report, part), [part]) for part in report.parts]
    return [((), [*fixed, *vcr]), *found] if fixed and vcr else found


def spread_of(parts: list[Part]) -> Spread:
    """Return what test sets cover, by the bare name of each corruption that all have."""
    found: dict[str, dict[str, CorruptionCoverage]] = {}
    alone = len(parts) == 1
    titles = tuple(dict.fromkeys(_title(part, alone) for part in parts))
    for part in parts:
        for name in part.corruptions:
            own = part.runs[0].coverage.get(name)
            if own is not None:
                found.setdefault(bare_name(name), {})[_title(part, alone)] = own
    shared = {name: own for name, own in found.items() if len(own) == len(titles)}
    return Spread(titles, shared)


def _title(part: Part, alone: bool) -> str:
    # next to others the extra corruptions belong to those that they extend
    return suite_title(FIXED[0] if part.suite in FIXED and not alone else part.suite)


def draw_histograms(spread: Spread) -> Figure:
    """Return a panel per corruption: the share of pictures in each bin, in percent."""
    figure, axes = panels(len(spread.corruptions), HEIGHT)
    for own, (name, sets) in zip(axes, spread.corruptions.items(), strict=True):
        own.set_title(drawable(corruption_title(name)))
        own.set_xlim(0, 1)
        own.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        own.locator_params(axis="y", nbins=3, integer=True)
        for title, coverage in sets.items():
            _draw_histogram(own, coverage, _look(spread, title))
        own.set_ylim(bottom=0)
    label_outer(axes, VISUAL_CHANGE, "pictures (%)", inner=True)
    _legend(figure, spread)
    return figure


def _look(spread: Spread, title: str) -> tuple[str, str, float]:
    return LOOKS[1] if len(spread.suites) == 1 else LOOKS[spread.suites.index(title)]


def _draw_histogram(axes: Axes, coverage: CorruptionCoverage, look: tuple[str, str, float]) -> None:
    colour, hatch, dark = look
    counts = np.array(coverage.histogram, dtype=np.float64)
    shares = 100 * counts / max(1.0, counts.sum())
    edges = np.linspace(0, 1, len(counts) + 1)
    if dark:
        axes.stairs(shares, edges, fill=True, color=colour, alpha=dark, linewidth=0)
    else:
        axes.stairs(shares, edges, fill=True, facecolor="none", edgecolor=colour, hatch=hatch,
                    linewidth=0)  # fmt: skip
    axes.stairs(shares, edges, color=colour, linewidth=0.9)


def _legend(figure: Figure, spread: Spread) -> None:
    if len(spread.suites) > 1:
        legend(figure, [_patch(spread, title) for title in spread.suites])


def _patch(spread: Spread, title: str) -> Patch:
    colour, hatch, dark = _look(spread, title)
    face = (*to_rgb(colour), dark) if dark else "none"
    return Patch(facecolor=face, edgecolor=colour, hatch=hatch, linewidth=0.8, label=title)


def draw_coverage(spread: Spread) -> Figure:
    """Return bars: the share of 39 bins that each test set covers, in percent."""
    count, sets = len(spread.corruptions), len(spread.suites)
    figure = Figure(figsize=(COLUMN, ROW * count * (0.7 + 0.3 * sets) + 0.5))
    axes = figure.subplots()
    thick = 0.8 / sets
    for place, own in enumerate(spread.corruptions.values()):
        for index, title in enumerate(spread.suites):
            if title not in own:
                continue
            colour, hatch, dark = _look(spread, title)
            middle = place + (index - (sets - 1) / 2) * thick
            share = 100 * own[title].paper
            axes.barh(
                middle, share, height=0.9 * thick, facecolor=(*to_rgb(colour), dark), hatch=hatch,
                edgecolor=colour, linewidth=0.6,
            )  # fmt: skip
            axes.text(102, middle, f"{share:.1f}", fontsize=SMALL, va="center", color=INK)
    names = [drawable(corruption_title(name)) for name in spread.corruptions]
    axes.set_yticks(range(count), names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set(xlim=(0, 100), ylim=(count - 0.4, -0.6), xlabel=r"covered bins of $\Delta_v$ (%)")
    _legend(figure, spread)
    return figure


def coverage_table(spread: Spread, caption: str) -> str:
    """Return a LaTeX table: a row per corruption, a column per test set, shares of 39 bins."""
    rows = [
        [corruption_title(name), *(f"{own[title].paper:.3f}" for title in spread.suites)]
        for name, own in spread.corruptions.items()
    ]
    return latex_table(caption, "l" + "r" * len(spread.suites), ["", *spread.suites], rows)
