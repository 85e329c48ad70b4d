"""The first screen of the page and the leaderboards: a summary of each model, scores, and ranks.

A summary covers accuracy on clean images, the main score under corruption, the worst corruption,
and whether humans or the model are ahead. Verdicts with all details are in `verdict`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from markupsafe import Markup

from eyechart.core.phrases import listed, plural
from eyechart.images.labels.spaces import ENTRY16
from eyechart.reports.html.html_table import (
    NOTHING,
    Column,
    Table,
    TableRow,
    break_point_cell,
    count,
    counted,
    counted_of,
    estimated,
    number,
    percent,
    space_caption,
    style_of,
    text_columns,
    with_interval,
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
from eyechart.reports.series.model_scores import (
    MainScore,
    is_mean_marked,
    main_score,
    mark_note,
    swap_sentences,
)
from eyechart.reports.series.palette import CATEGORY_COLORS
from eyechart.reports.series.report import ModelEntry, Report, TestSection, lacks_data
from eyechart.reports.series.run_sentences import break_points, first_break
from eyechart.reports.titles import corruption_title, corruption_words, short_names
from eyechart.results.ranking_comparison import Rankings
from eyechart.scores.registry import (
    BASELINE,
    HUMANS,
    LEADERBOARD,
    RANKED_ELSEWHERE,
    SCORES,
    Score,
    find,
)

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
        is_marked = is_mean_marked(report.runs[model.run], model.results, main.space, score.name)
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


Columns = list[tuple[Column, Callable[[ModelEntry], str]]]
"""The columns of a table of models, each with the function that returns a model's cell."""

MODEL = Column("Model", numeric=False)
RANK = Column("Rank", hint="in brackets: 95 % confidence interval of the rank")
AHEAD = Column("Significantly ahead of", numeric=False, hint="paired test, Holm’s correction, 5 %")


def summary_table(report: Report, section: TestSection, index: int) -> Table:
    """Return the main columns of the leaderboard: one row per model, best first.

    The columns are clean accuracy, the main score, HMRI if the data suffice for a comparison with
    humans, and the worst corruption.
    """
    main, standings = main_score(section), section.standings
    # Ranks in another label space would contradict the scores next to them.
    is_ranked = _is_ranked(section) and main.space == standings.space
    # Without duplicates: the main score may be one of the others.
    names = dict.fromkeys(("clean_accuracy", main.overall.name, "hmri_a"))
    scores = [
        SCORES[name] for name in names if any(_has(own, main, name) for own in section.models)
    ]
    columns: Columns = [(MODEL, model_label)]
    if is_ranked:
        columns.append((RANK, partial(_rank_cell, section)))
    for score in scores:
        title = _column_title(score, _home(main, score), main.space)
        columns.append(
            (Column(title, hint=score.meaning), partial(_summary_cell, report, main, score))
        )
    if any(main.worst(model) is not None for model in section.models):
        symbol = main.score.symbol
        hint = f"the corruption with the worst {symbol}, and its {symbol}"
        columns.append((Column("Worst corruption", hint=hint), partial(_worst_cell, main)))
    by = f"Models ranked by {main.overall.symbol}" if is_ranked else "Main scores"
    caption = Markup("{} in {}").format(by, space_caption(section, main.space))
    return _model_table(f"summary-{index}", caption, columns, section)


def _model_table(
    identity: str, caption: str, columns: Columns, section: TestSection, note: str = ""
) -> Table:
    """Return a table with a row for each model; each column comes with what makes its cells."""
    rows = tuple(
        TableRow(tuple(cell(model) for _, cell in columns), model.name) for model in section.models
    )
    note = f"{note} {mark_note(model.results for model in section.models)}".strip()
    heads = tuple(column for column, _ in columns)
    return Table(identity, caption, heads, rows, len(rows) > 1, note, kind="stacked")


def leaderboard(report: Report, section: TestSection, index: int) -> Table:
    """Return all scores of a test's models: one row per model, best first.

    A single model is neither ranked nor tested, nor are models on insufficient data.
    """
    standings, is_ranked = section.standings, _is_ranked(section)
    columns: Columns = [(MODEL, model_label)]
    if is_ranked:
        columns.append((RANK, partial(_rank_cell, section)))
    if any(model.category for model in section.models):
        columns.append((Column("Category", numeric=False), _category))
    for score in LEADERBOARD:
        if score.name in standings.scores:
            title = _column_title(score, standings.homes[score.name], standings.space)
            cell = partial(_score_cell, report, section, score.name)
            columns.append((Column(title, hint=score.meaning), cell))
    if is_ranked:
        columns.append((AHEAD, partial(_ahead_cell, section)))
    by = f"Models ranked by {SCORES[standings.by].symbol}" if is_ranked else "All scores"
    caption = Markup("{} in {}").format(by, space_caption(section, standings.space))
    note = ""
    if standings.verdict and len(section.models) > 1:
        note = f"{standings.verdict.capitalize()}: models are not ranked."
    return _model_table(f"leaderboard-{index}", caption, columns, section, note)


def _is_ranked(section: TestSection) -> bool:
    return len(section.models) > 1 and section.standings.ranks is not None


def model_label(model: ModelEntry) -> Markup:
    """Return a model's short name, preceded by a small square in the model's color."""
    text = Markup('<span class="model"><span class="swatch" style="--color: {}"></span>{}</span>')
    return text.format(model.color, model.short)


def _has(model: ModelEntry, main: MainScore, name: str) -> bool:
    """Return whether a model's score can be shown in the summary."""
    score = SCORES[name]
    scores = model.space(_home(main, score))
    # A score beside others reads as a claim, and insufficient data allow none.
    if HUMANS in score.needs and scores is not None and scores.verdict:
        return False
    return find(scores, score.overall_path) is not None


def _home(main: MainScore, score: Score) -> str:
    """Return the label space in which a score is shown: `entry16` if it needs human responses."""
    return ENTRY16 if HUMANS in score.needs else main.space


def _summary_cell(report: Report, main: MainScore, score: Score, model: ModelEntry) -> Markup:
    home, name = _home(main, score), score.name
    if main.section.standings.homes.get(name) == home:
        return _score_cell(report, main.section, name, model)
    if not _has(model, main, name):
        return NOTHING
    is_marked = is_mean_marked(report.runs[model.run], model.results, home, name)
    return estimated(style_of(score), find(model.space(home), score.overall_path), is_marked)


def _worst_cell(main: MainScore, model: ModelEntry) -> Markup:
    worst = main.worst(model)
    if worst is None:
        return NOTHING
    score = estimated(style_of(main.score), main.of(model)[worst], worst in model.results.marked)
    return Markup('<span class="worst">{}</span> {}').format(corruption_words(worst), score)


def _rank_cell(section: TestSection, model: ModelEntry) -> Markup:
    ranks = section.standings.ranks
    assert ranks is not None
    return with_interval(count, float(ranks.ranks[model.name]), ranks.intervals[model.name])


def _category(model: ModelEntry) -> str:
    title = CATEGORY_COLORS.get(model.category, (model.category, ""))[0]
    return title if model.category else NOTHING


def _ahead_cell(section: TestSection, model: ModelEntry) -> str:
    behind = [section.short_names[other] for other in section.standings.worse_than(model.name)]
    return listed(behind) or NOTHING


def _column_title(score: Score, home: str, space: str) -> str:
    """Return a score's title, with its label space if that differs from the table's."""
    title = f"{score.symbol} (%)" if score.is_percent else score.symbol
    return title if home == space else f"{title} (16 categories)"


def _score_cell(report: Report, section: TestSection, name: str, model: ModelEntry) -> Markup:
    """Return an overall score of a model, as it enters the comparison of models."""
    score, home = section.standings.scores[name][model.name], section.standings.homes[name]
    is_marked = is_mean_marked(report.runs[model.run], model.results, home, name)
    return estimated(style_of(SCORES[name]), score, is_marked)


def rank_tables(report: Report) -> Iterator[Table]:
    """Yield tables of ranks, where available: ImageNet-C against VCR and against ImageNet-NOC."""
    if report.discrete is not None and report.discrete.corruptions:
        caption = "Ranks by ImageNet-C’s five severities and by continuous visual change (VCR)"
        yield _rank_table(report, report.discrete.corruptions, "ranks-discrete", caption)
    if report.benchmarks:
        caption = "Ranks by ImageNet-C and by ImageNet-NOC, using the same score"
        yield _rank_table(report, report.benchmarks, "ranks-benchmarks", caption)


def _rank_table(report: Report, rankings: Sequence[Rankings], identity: str, caption: str) -> Table:
    short = {model.name: model.short for model in report.models}
    ways = list(dict.fromkeys(way for comparison in rankings for way in comparison.ranks))
    models = list(next(iter(rankings[0].ranks.values())).ranks)
    columns = (
        *text_columns("Corruption" if identity == "ranks-discrete" else "Score"),
        *(Column(short[name]) for name in models),
        Column("Changes", hint="how often two methods rank two models in opposite order"),
    )
    rows = tuple(
        TableRow(
            (
                _subject_title(comparison.subject),
                *(
                    Markup(" / ").join(
                        number(count, float(ranking.ranks[name]))
                        for ranking in comparison.ranks.values()
                    )
                    for name in models
                ),
                counted(len(comparison.swaps)),
            )
        )
        for comparison in rankings
    )
    sure = list(swap_sentences(rankings, short, title=_subject_title, way_title=_way))
    total = sum(len(comparison.swaps) for comparison in rankings)
    text = Markup(
        "Each cell has the ranks by {}, in this order. {} {} in the order of two models between"
        " two methods; {} of them significant{}"
    )
    examples = ": " + " ".join(sure[:10]) if sure else "."
    changes = (counted(total), plural(total, "change"), counted(len(sure)))
    note = text.format(", ".join(map(_way, ways)), *changes, examples)
    return Table(identity, caption, columns, rows, False, note)


def _subject_title(title: str) -> str:
    return SCORES[title].symbol if title in SCORES else corruption_title(title)


def _way(name: str) -> str:
    return {"R_a": "VCR’s Rₐ", "R_p": "VCR’s Rₚ"}.get(name, name)
