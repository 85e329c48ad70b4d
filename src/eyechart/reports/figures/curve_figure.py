"""All curves of a test at a glance: a panel per corruption, with 83 % bands and people's curve."""

from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eyechart.reports.figures.panels import (
    FEW,
    MARK,
    VISUAL_CHANGE,
    draw_line,
    draw_people,
    key,
    label_outer,
    panels,
    say,
    unit_square,
)
from eyechart.reports.figures.plan import Plan, Plans, suite_words
from eyechart.reports.figures.style import PEOPLE, Look, drawable, legend, looks_of
from eyechart.reports.series.report import Part, Report, Shown
from eyechart.reports.words import corruption_title, suite_title
from eyechart.results.schema import HumanComparison, PropertyResults
from eyechart.scores.evaluation import PROPERTIES

HEIGHT = 1.35
STYLES = {"a": "-", "p": (0, (4, 1.5))}
MANY = 7
"""Models from which on bands would hide each other."""


def plan_curves(report: Report) -> Plans:
    """Return an overview for each test and label space; two of them where models are many."""
    plans, notes = [], []
    for part in report.parts:
        for place, space in enumerate(part.spaces):
            found = [each for each in ("a", "p") if _any_curve(part, space, each)]
            if not found:
                notes.append(f"No curves of {suite_title(part.suite)}: none could be fitted.")
                continue
            words = ("curves", *suite_words(report, part), *((space,) if place else ()))
            together = len(part.models) <= FEW
            for shown in [tuple(found)] if together else [(each,) for each in found]:
                own = words if together else (*words, PROPERTIES[shown[0]])
                make = partial(draw_overview, part, space, shown)
                plans.append(Plan(own, caption(part, space, shown), make))
    return Plans(tuple(plans), tuple(notes))


def caption(part: Part, space: str, letters: tuple[str, ...]) -> str:
    """Return what an overview shows."""
    what = " and ".join(PROPERTIES[each] for each in letters)
    suite = suite_title(part.suite)
    bands = "; bands: 83 %" if _band(part) else ""
    return f"{what.capitalize()} over visual change in {suite}: {size(part, space)}{bands}."


def _band(part: Part) -> float:
    """Return how dark bands are drawn, 0 if not at all."""
    count = len(part.models)
    return 0.16 if count <= FEW else 0.08 if count < MANY else 0.0


def size(part: Part, space: str) -> str:
    """Return how many pictures there were in which classes, and whether they are too few."""
    board = part.standings.board
    classes = "16 categories" if space == "entry16" else "own classes"
    verdict = f" ({board.verdict(space)})" if board.verdict(space) else ""
    return f"{board.pictures(space)} pictures, {classes}{verdict}"


def draw_overview(part: Part, space: str, letters: tuple[str, ...]) -> Figure:
    """Return a panel per corruption with the curves of all models."""
    looks = looks_of(part.models)
    figure, axes = panels(len(part.corruptions), HEIGHT)
    with_people = False
    for own, corruption in zip(axes, part.corruptions, strict=True):
        with_people |= _panel(own, part, space, corruption, letters, looks)
    names = {"a": "accuracy $s_a$", "p": "consistency $s_p$"}
    share = names[letters[0]] if len(letters) < 2 else "share of answers"
    label_outer(axes, VISUAL_CHANGE, share)
    handles = [_model_key(look, len(letters) > 1) for look in looks.values()]
    if len(letters) > 1:
        handles += [key(names[each], linestyle=STYLES[each]) for each in letters]
    if with_people:
        handles.append(key("people", PEOPLE, linewidth=1.8))
    legend(figure, handles)
    return figure


def _model_key(look: Look, both: bool) -> Line2D:
    if both:
        return key(look.name, look.colour, marker=look.marker, markersize=MARK)
    return key(look.name, look.colour, linestyle=look.dash)


def _panel(
    axes: Axes,
    part: Part,
    space: str,
    corruption: str,
    letters: tuple[str, ...],
    looks: dict[str, Look],
) -> bool:
    """Draw one corruption; return whether people are in it."""
    unit_square(axes)
    axes.set_title(drawable(corruption_title(corruption)))
    notes, drawn, people = [], 0, False
    band = _band(part)
    for letter in letters:
        next_to = people_of(part, space, corruption, letter)
        if next_to is not None and not next_to.corrected_for_chance:
            draw_people(axes, next_to.line)
            people = True
        for number, model in enumerate(part.models):
            score = property_of(model, space, corruption, letter)
            if score is None or score.curve is None:
                notes += [score.note] if score is not None and score.note else []
                continue
            look = looks[model.name]
            dash = STYLES[letter] if len(letters) > 1 else look.dash
            # where dashes tell properties apart, marks tell models apart
            marks = (look.marker, 4 + 8 * number) if len(letters) > 1 else None
            draw_line(
                axes, score.curve, colour=look.colour, dash=dash, observed=score.observed,
                band=band, marks=marks,
            )  # fmt: skip
            drawn += 1
    if not drawn:
        say(axes, drawable(("no curve", *notes)[-1], 120))
    return people


def property_of(model: Shown, space: str, corruption: str, letter: str) -> PropertyResults | None:
    """Return a model's accuracy ("a") or consistency ("p") under a corruption, if there is one."""
    own = model.space(space)
    score = None if own is None else own.corruptions.get(corruption)
    return None if score is None else score.properties.get(letter)


def people_of(part: Part, space: str, corruption: str, letter: str) -> HumanComparison | None:
    """Return people next to the first model that has any under a corruption."""
    for model in part.models:
        score = property_of(model, space, corruption, letter)
        if score is not None and score.people is not None:
            return score.people
    return None


def _any_curve(part: Part, space: str, letter: str) -> bool:
    return any(
        score is not None and score.curve is not None
        for model in part.models
        for corruption in part.corruptions
        for score in [property_of(model, space, corruption, letter)]
    )
