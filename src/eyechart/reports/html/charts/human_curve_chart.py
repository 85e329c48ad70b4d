"""What people see: their curves in each experiment, with those of what looks alike together."""

from collections.abc import Iterator, Sequence

from eyechart.reports.html.charts.chart import (
    INTERVAL,
    PEOPLE,
    Chart,
    Spec,
    axis,
    error_bar,
    escape,
    numbers,
    slug,
)
from eyechart.reports.html.charts.curve_chart import bands, line_trace
from eyechart.reports.series.curves import PROPERTY_TITLES, crossings
from eyechart.reports.series.palette import DASHES
from eyechart.reports.series.report import COLOURS, Report, pointer
from eyechart.reports.words import listed
from eyechart.results.schema import HumanCurve, HumanExperiment
from eyechart.scores.evaluation import PROPERTIES

TITLES = {"noise": "noises, which look alike to them", "blur": "blurs, which look alike to them"}
ALONE, UNTESTED = (
    "corruptions that look like no other tested",
    "corruptions not tested for likeness",
)
HALF = 0.5


def people_charts(report: Report) -> Iterator[Chart]:
    """Yield charts of the answers of people that the runs were compared with, each once."""
    seen: list[tuple[HumanExperiment, ...]] = []
    for place, part in enumerate(report.parts):
        for run in part.runs:
            if run.results.people and run.results.people not in seen:
                seen.append(run.results.people)
                yield from _of_run(run.results.people, report.runs.index(run), place)


def _of_run(people: Sequence[HumanExperiment], run: int, place: int) -> Iterator[Chart]:
    for letter, name in PROPERTIES.items():
        for kind, tested in dict.fromkeys(map(_group, people)):
            drawn = [
                (own, line, number)
                for number, own in enumerate(people)
                if _group(own) == (kind, tested) and (line := getattr(own, name)) is not None
            ]
            if drawn:
                title = TITLES.get(kind, f"{kind}, which look alike to them")
                if not kind:
                    title = ALONE if tested else UNTESTED
                yield Chart(
                    slug("people", place, run, kind or ("other" if tested else "untested"), letter),
                    "people",
                    place,
                    "",
                    "",
                    f"People under {title}: {name}",
                    _alt(title, letter, [(own, line) for own, line, _ in drawn]),
                    {
                        "data": [
                            trace
                            for number, (own, line, at) in enumerate(drawn)
                            for trace in _traces(
                                own, line, number, pointer(run, "people", at, name)
                            )
                        ],
                        "layout": _layout(letter),
                    },
                    letter,
                )


def _group(own: HumanExperiment) -> tuple[str, bool]:
    """Return the class of an experiment; without one, whether anybody tested if it has one."""
    return own.kind, bool(own.kind) or own.tested


def _traces(own: HumanExperiment, line: HumanCurve, number: int, at: str) -> list[Spec]:
    colour = COLOURS[number % len(COLOURS)]
    meta = {
        "model": PEOPLE,
        "at": f"{at}/line/values",
        "bands": {**bands(line.line, ("83",)), "always": True},
    }
    name = escape(own.title)
    look = {"color": colour, "dash": DASHES[number % len(DASHES)]}
    curve = {**line_trace(name, line.line, look, meta), "legendgroup": own.name}
    points = line.points
    dots: Spec = {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "legendgroup": own.name,
        "x": numbers(point.delta_v[1] for point in points),
        "y": numbers(point.rate for point in points),
        "error_y": {
            **INTERVAL,
            **error_bar([p.rate for p in points], [p.interval83 for p in points]),
            "color": colour,
        },
        "marker": {"color": colour, "size": 6},
        "customdata": [point.answers for point in points],
        "hovertemplate": "Δv %{x:.2f}: %{y:.3f}, %{customdata} answers"
        "<extra>%{fullData.name}</extra>",
        "meta": {
            "model": PEOPLE,
            "each": [f"{at}/points/{place}/rate" for place in range(len(points))],
        },
    }  # fmt: skip
    return [curve, dots]


def _layout(letter: str) -> Spec:
    return {
        "height": 380,
        "xaxis": axis("visual change Δv", range=[0, 1]),
        "yaxis": axis(PROPERTY_TITLES[letter], range=[0, 1.02]),
    }


def _alt(title: str, letter: str, drawn: Sequence[tuple[HumanExperiment, HumanCurve]]) -> str:
    said = [f"{own.title} {_falls(line)}" for own, line in drawn]
    return (
        f"{PROPERTY_TITLES[letter].capitalize()} of people over visual change Δv, {title}, with"
        f" 83 % bands: {listed(said)}."
    )


def _falls(line: HumanCurve) -> str:
    """Return from where on people are wrong more often than right."""
    level = (HALF,) * len(line.line.values)
    found = crossings(line.line.delta_v, line.line.values, level)
    return f"falls below one half at {found[0]:.2f}" if found else "stays on one side of one half"
