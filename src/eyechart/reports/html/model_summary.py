"""A short summary of each model's robustness, for the first screen of the page.

It covers accuracy on clean images, the main score under corruption, the worst corruption, and
whether humans or the model are ahead. Verdicts with all details are in `verdict`.
"""

from markupsafe import Markup

from eyechart.reports.html.html_table import (
    break_point_cell,
    counted,
    counted_of,
    estimated,
    number,
    percent,
    style_of,
)
from eyechart.reports.html.verdict import (
    NO_CLAIM,
    NO_HUMANS,
    Basis,
    Verdict,
    basis_of,
    n_ahead,
    too_few,
)
from eyechart.reports.series.model_scores import MainScore, is_mean_marked, main_score
from eyechart.reports.series.report import ModelEntry, Report, TestSection, lacks_data
from eyechart.reports.series.run_sentences import break_points, first_break
from eyechart.reports.titles import corruption_words, short_names
from eyechart.scores.registry import BASELINE, RANKED_ELSEWHERE, SCORES, find

CLAIMS = {
    "ahead": "At some visual changes, it is ahead of humans under {model} of {all}; it is behind"
    " under none",
    "behind": "At some visual changes, it is behind humans under {humans} of {all}; it is ahead"
    " under none",
    "mixed": "Mixed results compared with humans: at some visual changes, it is behind under"
    " {humans} of {all}, and ahead under {model}",
    "even": "No significant difference from humans under {all}",
}
"""Wording for significant leads at some visual changes, by the tone of the verdict."""


def summarize(report: Report, section: TestSection, model: ModelEntry) -> Verdict:
    """Return the summary of a model in one test."""
    main, basis = main_score(section), basis_of(section, model)
    tone, badge = NO_HUMANS if basis is None else basis.tone
    if lacks_data([model], main.space):
        tone, badge = NO_CLAIM
    name, breaks = _breaks(main, model)
    text = _accuracy(report, main, model) + _worst(main, model, name)
    if breaks:
        text = breaks + " It " + text
    return Verdict(model, tone, badge, text + ". " + _humans(main, model, basis))


def _breaks(main: MainScore, model: ModelEntry) -> tuple[str, Markup]:
    """Return the corruption under which the model breaks first, and a sentence about it.

    Both are empty without break points; the name is empty if no break point was reached.
    """
    space = model.space(main.space)
    points = {} if space is None else break_points(space)
    if space is None or not points:
        return "", Markup("")
    n_tested = counted_of(len(points), "corruption")
    name = first_break(points)
    # Without labels there is no accuracy, and consistency breaks instead.
    letter = "a" if space.corruptions[name].accuracy is not None else "p"
    style = style_of(SCORES[f"dv50_{letter}"], is_short=True)
    point = break_point_cell(style, points[name])
    if not points[name].is_known:
        return "", Markup("does not break under any of {} (Δv₅₀ {}).").format(n_tested, point)
    text = Markup("breaks at Δv {} under <strong>{}</strong>").format(point, corruption_words(name))
    if len(points) > 1:
        text += Markup(", first of {}").format(n_tested)
    humans = space.corruptions[name].properties[letter].humans
    human = None if humans is None else humans.human_break_point
    if human is not None:
        value = human.value if human.is_known else human.limit
        text += Markup("; humans at {}{}").format(
            "" if human.is_known else "> ", number(style, value)
        )
    return name, text + "."


def _accuracy(report: Report, main: MainScore, model: ModelEntry) -> Markup:
    """Return the accuracy on clean images, then the main score under corruption."""
    scores, mean = model.space(main.space), _mean(report, main, model)
    if scores is None or scores.clean_accuracy is None:
        return mean
    clean = estimated(percent, scores.clean_accuracy)
    # "is correct for … and for …", "is correct for … and incorrect for …"
    more = mean.removeprefix("is correct ").removeprefix("is ")
    return Markup("is correct for {} of clean images and {}").format(clean, Markup(more))


def _mean(report: Report, main: MainScore, model: ModelEntry) -> Markup:
    scores = model.space(main.space)
    name = main.overall.name
    errors = None if scores is None else scores.corruption_error
    # Errors relative to the model itself carry no information.
    if BASELINE in main.overall.needs and errors is not None and errors.baseline != model.name:
        names = [name]
    else:
        names = [
            other for other in (name, *RANKED_ELSEWHERE) if BASELINE not in SCORES[other].needs
        ]
    for score in (SCORES[other] for other in names):
        estimate = find(scores, score.overall_path)
        if not score.predicate or estimate is None:
            continue
        run = report.runs[model.run]
        is_marked = is_mean_marked(run, model.results, main.space, score.name)
        return Markup(score.predicate).format(
            value=estimated(percent, estimate, is_marked),
            baseline="" if errors is None else short_names([errors.baseline])[0],
            corruptions=counted_of(
                len(main.section.standings.board.averaged_corruptions), "corruption"
            ),
        )
    return Markup("has no score over all corruptions")


def _worst(main: MainScore, model: ModelEntry, named: str) -> Markup:
    """Return the corruption with the worst score, or "" if the text already named it (`named`)."""
    worst = main.worst(model)
    if worst is None or worst == named:
        return Markup("")
    # An area is worded as an accuracy; other scores are named.
    title = "" if main.score.group == "curve" else f"{main.score.axis.partition(':')[0]} "
    score = estimated(percent, main.of(model)[worst], worst in model.results.marked)
    return Markup("; worst under <b>{}</b>, {}{}").format(corruption_words(worst), title, score)


def _humans(main: MainScore, model: ModelEntry, basis: Basis | None) -> Markup:
    """Return who is ahead, or why this cannot be decided."""
    if lacks_data([model], main.space):
        return Markup("Insufficient data: {}.").format(too_few(model, main.space))
    if basis is None:
        why = "no comparison was requested"
        if main.section.runs[0].config.human_names:
            why = "no human responses apply to these corruptions"
        return Markup("Not compared with humans: {}.").format(why)
    if basis.tone == NO_CLAIM:
        few = too_few(model, basis.space)
        return Markup("Insufficient data for a comparison with humans: {}.").format(few)
    if basis.tone == NO_HUMANS:
        return Markup("Not compared with humans, who recognized nothing under these corruptions.")
    index = f"hmri_{basis.letter}"
    style = style_of(SCORES[index], is_short=True)
    hmri = estimated(style, model.results.spaces[basis.space].means[index])
    claim = Markup(CLAIMS[basis.tone[0]]).format(
        humans=counted(n_ahead(basis.compared, "humans")),
        model=counted(n_ahead(basis.compared, "model")),
        all=counted_of(len(basis.compared), "corruption"),
    )
    known = {name: one.hmri.value for name, one in basis.compared.items() if one.hmri.is_known}
    lowest = Markup("")
    if len(known) > 1:
        name = min(known, key=lambda name: known[name])
        value = number(style, known[name])
        lowest = Markup("; lowest under {}, {}").format(corruption_words(name), value)
    return claim + Markup(" (HMRI {}{}).").format(hmri, lowest)
