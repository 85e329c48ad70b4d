"""A chart: a plotly spec of plain values, its subject, and a description in words.

Nothing is drawn here: templates/charts.js draws, and resolves colors such as "var(--…)".
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape as escape_html
from typing import Any

from eyechart.reports.series.report import ModelEntry
from eyechart.reports.titles import unique_names
from eyechart.stats.estimate import Estimate

Spec = dict[str, Any]

DECIMALS = 6
"""Number of decimals of every number in a chart."""

HUMANS = "humans"
"""Value of `meta.model` in a trace that shows humans."""

INK, MUTED, PAPER = "var(--ink)", "var(--muted)", "var(--paper)"
"""Colors of the page; "/0.2" after any color sets its opacity."""

INTERVAL: Spec = {
    "type": "data", "symmetric": False, "color": INK, "thickness": 1.2, "width": 3,
}  # fmt: skip
"""Style of error bars."""

HATCH: Spec = {"fillmode": "overlay", "fgcolor": f"{PAPER}/0.45", "size": 7, "solidity": 0.3}
"""Style of hatched bars."""

BARS: Spec = {
    "orientation": "h",
    "error_x": INTERVAL,
    "marker": {"pattern": HATCH},
    "hovertemplate": "%{y}: %{customdata}<extra>%{fullData.name}</extra>",
}
"""Style of bars next to names; their values as text are in `customdata`."""

LONGEST = 26
"""Maximum number of characters of a name next to a bar; longer names are shortened."""


@dataclass(frozen=True)
class Chart:
    """One chart of a report.

    `id`: contains only a-z, 0-9 and "-". `section`: index of the test in the report, −1 for none.
    `space`, `corruption` and `property` ("a" or "p") are "" if the chart has none or shows all.
    `alt`: description in words. `spec`: plotly's data and layout.

    A trace's `meta` names its `model`: "humans" for humans, or "" for a trace that stays visible
    when models are hidden.
    """

    id: str
    kind: str
    section: int
    space: str
    corruption: str
    title: str
    alt: str
    spec: Spec
    property: str = ""


def make_chart(
    kind: str,
    title: str,
    alt: str,
    data: Sequence[Spec],
    layout: Spec,
    *,
    section: int = -1,
    space: str = "",
    corruption: str = "",
    letter: str = "",
    id: str = "",
) -> Chart:
    """Return a chart; by default its id is derived from its subject."""
    identity = id or slug(kind, section if section >= 0 else "", space, corruption, letter)
    spec = {"data": list(data), "layout": layout}
    return Chart(identity, kind, section, space, corruption, title, alt, spec, letter)


def escape(text: str) -> str:
    """Return a name escaped for plotly, which interprets some HTML in every label."""
    return escape_html(text, quote=False)


def slug(*words: object) -> str:
    """Return words as one valid element id.

    Example:
        >>> slug("curves", 0, "vcr/fog")
        'curves-0-vcr-fog'
    """
    text = "-".join(str(word) for word in words if word != "").lower()
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-") or "chart"


def rounded(value: float | None) -> float | None:
    """Return a number rounded for charts; None stays None."""
    if value is None:
        return None
    near = round(value, DECIMALS)
    # "1" instead of "1.0" saves bytes in large specs.
    return int(near) if near == int(near) else near


def numbers(values: Iterable[float | None]) -> list[float | None]:
    """Return numbers rounded for charts."""
    return [rounded(value) for value in values]


def grid(places: Sequence[float | None]) -> Spec:
    """Return the x values of a trace: start and step if evenly spaced, otherwise all values."""
    known = [index for index in places if index is not None]
    if len(known) == len(places) > 1:
        step = (known[-1] - known[0]) / (len(known) - 1)
        if all(abs(known[0] + step * n - value) < 1e-9 for n, value in enumerate(known)):
            return {"x0": rounded(known[0]), "dx": rounded(step)}
    return {"x": numbers(places)}


def interval_bar(number: Estimate) -> Spec:
    """Return an error bar for the 95 % interval of a number; {} if the interval is undetermined."""
    if not number.is_known or not number.has_interval:
        return {}
    return error_bar([number.value], [number.interval95])


def error_bar(values: Sequence[float], ends: Sequence[tuple[float, float]]) -> Spec:
    """Return error bars for intervals."""
    pairs = list(zip(values, ends, strict=True))
    return {
        # A bootstrap interval may exclude its value; plotly takes no negative lengths.
        "array": numbers(max(0.0, high - value) for value, (_, high) in pairs),
        "arrayminus": numbers(max(0.0, value - low) for value, (low, _) in pairs),
    }


def template(**traces: Spec) -> Spec:
    """Return the properties that all traces of a type share, to keep specs short."""
    return {"data": {kind: [trace] for kind, trace in traces.items()}}


def axis(title: str, **more: object) -> Spec:
    """Return an axis with a title."""
    return {"title": {"text": title}, **more}


def names_axis(**more: object) -> Spec:
    """Return an axis of names, the first at the top."""
    return {"type": "category", "autorange": "reversed", "showgrid": False, "ticks": "", **more}


def note(text: str, x: float, y: float, **more: object) -> Spec:
    """Return a small annotation, in axis coordinates unless `more` sets another reference."""
    return {"text": text, "x": x, "y": y, "showarrow": False, **more}


def labels(models: Sequence[ModelEntry]) -> dict[str, str]:
    """Return the labels next to models' bars: short, escaped and unique."""
    texts = unique_names(shortened(model.short) for model in models)
    return {model.name: escape(text) for model, text in zip(models, texts, strict=True)}


def shortened(text: str) -> str:
    """Return a text with its middle omitted if it is long."""
    if len(text) <= LONGEST:
        return text
    # 13 characters, the ellipsis and 12 characters make LONGEST.
    return f"{text[: LONGEST // 2]}…{text[-LONGEST // 2 + 1 :]}"
