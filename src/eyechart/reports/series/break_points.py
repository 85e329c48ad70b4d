"""Where models break: sentences about break points, for the terminal and the report."""

from collections.abc import Iterator

from eyechart.core.phrases import count_of
from eyechart.reports.titles import corruption_title
from eyechart.results.model_results import ModelResults, PropertyResults, SpaceResults
from eyechart.results.schema import Results
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
    if not point.is_known:
        return (
            f"{model.name} does not break under any of {_count(len(points))} up to Δv"
            f" {point.limit:.2f}."
        )
    others = f", first of {_count(len(points))}" if len(points) > 1 else ""
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


def _count(number: int) -> str:
    return count_of(number, "corruption")
