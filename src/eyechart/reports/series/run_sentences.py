"""Sentences about a run, for the terminal and the report: where models break, and what it cost.

What a run cost is its time, energy and emissions, with the sources of the numbers.
"""

from collections.abc import Iterator

from eyechart.core.cost import NVML, RAPL, STATED, EnergyUse
from eyechart.core.phrases import count_of
from eyechart.core.progress import duration_text
from eyechart.reports.titles import corruption_title
from eyechart.results.model_results import ModelResults, PropertyResults, SpaceResults
from eyechart.results.schema import Results, RunInfo
from eyechart.scores.break_point import BreakPoint


def break_sentences(results: Results) -> Iterator[str]:
    """Yield, for each model, where it breaks first, and where it is farthest behind humans."""
    for model in results.models:
        points = break_points(model.primary)
        if points:
            yield _first_break(model, points)
        behind = farthest_behind(model)
        if behind is not None:
            yield behind


def break_points(space: SpaceResults) -> dict[str, BreakPoint]:
    """Return break points by corruption: of accuracy, or of consistency if there are no labels.

    The result is empty with insufficient data, which do not show where a model breaks.
    """
    points: dict[str, BreakPoint] = {}
    if space.verdict:
        return points
    for name, scores in space.corruptions.items():
        results = scores.accuracy or scores.consistency
        if results is not None and results.break_point is not None:
            points[name] = results.break_point
    return points


def first_break(points: dict[str, BreakPoint]) -> str:
    """Return the corruption with the lowest break point; if none is reached, the lowest limit."""
    reached = {name: point.value for name, point in points.items() if point.is_known}
    limits = reached or {name: point.limit for name, point in points.items()}
    return min(limits, key=lambda name: limits[name])


def _first_break(model: ModelResults, points: dict[str, BreakPoint]) -> str:
    worst = first_break(points)
    point = points[worst]
    tested = count_of(len(points), "corruption")
    if not point.is_known:
        return f"{model.name} does not break under any of {tested} up to Δv {point.limit:.2f}."
    others = f", first of {tested}" if len(points) > 1 else ""
    scores = model.primary.corruptions[worst]
    results = scores.accuracy or scores.consistency
    humans = results.humans if results is not None else None
    human = humans.human_break_point if humans is not None else None
    return (
        f"{model.name} breaks at Δv {point.text} under {corruption_title(worst).lower()}{others}"
        f"{f'; humans at {human.short_text}' if human is not None else ''}."
    )


def farthest_behind(model: ModelResults) -> str | None:
    """Return a sentence on the corruption with the lowest HMRI; None if there is no HMRI."""
    compared: list[tuple[float, str, PropertyResults]] = []
    # Few images support no claim about humans.
    spaces = [space for space in model.spaces.values() if not space.verdict]
    for space in spaces:
        for name, scores in space.corruptions.items():
            results = scores.accuracy
            if results is not None and results.humans is not None and results.humans.hmri.is_known:
                compared.append((results.humans.hmri.value, name, results))
    if not compared:
        return None
    _, name, results = min(compared, key=lambda item: item[:2])
    humans = results.humans
    assert humans is not None
    low, high = humans.hmri.interval95
    where = ""
    if results.break_point is not None and humans.human_break_point is not None:
        where = (
            f", where it breaks at Δv {results.break_point.short_text} and humans at"
            f" {humans.human_break_point.short_text}"
        )
    return (
        f"Compared with humans (16 categories), {model.name} is weakest under"
        f" {corruption_title(name).lower()}: HMRI {humans.hmri.value:.2f}"
        f" ({low:.2f}–{high:.2f}){where}."
    )


N_STAGES = 3
"""Number of stages that the line on the terminal names."""

SOURCES = {NVML: "GPU, measured (NVML)", RAPL: "processor, measured (RAPL)", STATED: "stated watts"}


def time_text(run: RunInfo, n_stages: int | None = None) -> str:
    """Return the run time, with its longest stages in parentheses; all stages by default.

    Example:
        >>> run = RunInfo(versions={}, git=None, device="cpu", command="", made="", images="",
        ...               seconds={"self-test": 1.25, "predictions": 300.0})
        >>> time_text(run)
        '5 min 1 s (predictions 5 min 0 s, self-test 1.2 s)'
    """
    if not run.seconds:
        return "not recorded"
    longest = sorted(run.seconds, key=lambda stage: -run.seconds[stage])[:n_stages]
    stages = ", ".join(f"{stage} {_duration(run.seconds[stage])}" for stage in longest)
    sessions = f" in {run.n_sessions} sessions" if run.n_sessions > 1 else ""
    return f"{_duration(sum(run.seconds.values()))}{sessions} ({stages})"


def energy_text(run: RunInfo) -> str:
    """Return energy and emissions with their sources, and the parts whose energy is unknown.

    Example:
        >>> from eyechart.core.cost import Measured, energy_use
        >>> run = RunInfo(versions={}, git=None, device="cpu", command="", made="", images="",
        ...               energy=energy_use({"stated": Measured(joules=9e5, seconds=3600)}, 25))
        >>> energy_text(run)
        '0.25 kWh (stated watts), 6.25 g CO2e at 25 g/kWh (stated)'
    """
    unknown = f"not measured: {', '.join(run.unmeasured)}" if run.unmeasured else ""
    if run.energy is None:
        return unknown or "not measured"
    source = f" ({run.energy.carbon_source})"
    return _energy(run.energy) + source + (f"; {unknown}" if unknown else "")


def cost_line(run: RunInfo) -> str:
    """Return run time, energy and emissions in one line for the terminal."""
    energy = "" if run.energy is None else f"; {_energy(run.energy)}"
    return f"Run time: {time_text(run, N_STAGES)}{energy}."


def _energy(energy: EnergyUse) -> str:
    parts = [
        SOURCES[name] + ("" if len(energy.sources) == 1 else f" {part.kwh:.3g}")
        for name, part in energy.sources.items()
    ]
    return (
        f"{energy.kwh:.3g} kWh ({'; '.join(parts)}), {energy.co2e_g:.3g} g CO2e at"
        f" {energy.carbon_intensity:g} g/kWh"
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 9.95 else duration_text(seconds)
