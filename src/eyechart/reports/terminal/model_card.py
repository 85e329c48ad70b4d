"""A report as Markdown: a model card with a `model-index` on top."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from markupsafe import Markup

from eyechart.core.arguments import regular_file
from eyechart.core.phrases import at_least, count_of, listed, plural
from eyechart.core.storage.files import write_text
from eyechart.images.stimulus import FILES, find_stimulus
from eyechart.pipeline.scoring.caveats import MARK
from eyechart.reports.html.verdict import verdict_on
from eyechart.reports.number_text import (
    MISSING,
    bracketed_text,
    delta_v_text,
    interval_text,
    rank_text,
)
from eyechart.reports.series.curves import gaps
from eyechart.reports.series.model_scores import averaged, is_mean_marked, mark_note, overall_scores
from eyechart.reports.series.report import ModelEntry, Report, TestSection
from eyechart.reports.series.run_sentences import energy_text, time_text
from eyechart.reports.terminal.hub_results import model_index
from eyechart.reports.terminal.markdown import block, bullets, code, escape, table
from eyechart.reports.titles import corruption_title, short_names, space_title, suite_title
from eyechart.results.model_results import SpaceResults
from eyechart.results.runs import Run
from eyechart.scores.registry import DECLARED, LEADERBOARD, OVERALL, SCORES, Score, find
from eyechart.stats.estimate import Estimate

TAGS = ("eyechart", "robustness", "image-classification")

# `is_card` recognizes a card by this, so that `tags` must stay the first key of its header and the
# package the first tag.
START = f"---\ntags:\n- {TAGS[0]}\n"
INTERVALS = "In brackets: 95 % confidence interval, by bootstrap over images."


def write_card(report: Report, path: Path) -> Path:
    """Write the card and return its path."""
    return write_text(path, card_of(report))


def is_card(path: Path) -> bool:
    """Return whether a file is a card that eyechart wrote and whose beginning is unchanged."""
    try:
        with regular_file(path).open(encoding="utf-8") as file:
            return file.read(len(START)) == START
    except (OSError, ValueError):
        return False


def card_of(report: Report) -> str:
    """Return the card: metadata in YAML, then Markdown."""
    head = {
        "tags": list(TAGS),
        "pipeline_tag": "image-classification",
        "metrics": ["accuracy"],
        "model-index": model_index(report),
    }
    data = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=100)
    return f"---\n{data}---\n\n" + "\n\n".join(_sections(report)) + "\n"


def _sections(report: Report) -> Iterator[str]:
    names = [escape(model.short) for model in report.models]
    selection = names[0] if len(names) == 1 else f"{len(names)} models"
    verb = "sees" if len(names) == 1 else "see"
    yield f"# How well {selection} {verb} as images degrade"
    yield bullets(_sentences(report))
    yield "## Leaderboard"
    for section in report.sections:
        yield from leaderboards(report, section)
    yield bullets(_meanings(report))
    yield "## By corruption"
    for section in report.sections:
        for model in section.models:
            yield from by_corruption(section, model)
    yield "## How it was measured"
    for run in report.runs:
        yield from _measured(run)
    yield "## Limits"
    yield from _limits(report)
    yield "## How to reproduce it"
    for run in report.runs:
        yield from _reproduce(run)


def _sentences(report: Report) -> Iterator[str]:
    """Yield the verdict on each model of each test, as in the HTML report."""
    for section in report.sections:
        for model in section.models:
            verdict = verdict_on(section, model)
            text = Markup(" ").join([verdict.text, verdict.details]).striptags()
            suite = f" ({escape(suite_title(section.suite))})" if len(report.sections) > 1 else ""
            yield f"**{escape(model.short)}**{suite} {escape(text)}"


def _meanings(report: Report) -> Iterator[str]:
    """Yield the meaning of each score shown, and of the intervals in brackets."""
    present = {
        name
        for section in report.sections
        for model in section.models
        for space in model.results.spaces.values()
        for name in overall_scores(space)
    }
    for score in OVERALL:
        if score.name in present:
            yield f"{escape(score.title)}: {escape(score.meaning)}."
    yield INTERVALS


def _measured(run: Run) -> Iterator[str]:
    images, config, fit = run.results.images, run.config, run.config.fit
    stimulus = "as in the files"
    if images.stimulus != FILES:
        stimulus = find_stimulus(images.stimulus).description
    minimum = f" with {at_least([fit.min_per_bin], 'sample')} each" if fit.min_per_bin else ""
    humans = [
        f"{escape(experiment.title)} ({escape(experiment.size)})"
        for experiment in run.results.humans
    ]
    yield f"### {_run_title(run)}"
    yield bullets(
        [
            f"Images: {escape(images.source)}; {images.used} of {images.n_images} were used.",
            f"Stimulus: {stimulus}.",
            f"Test: {count_of(len(config.corruptions), 'corruption')},"
            f" {count_of(run.shown, 'sample')} each, seed {config.seed}.",
            f"Curves: {fit.estimator} estimator, {fit.bins} bins of Δv{minimum};"
            f" {fit.n_bootstrap} bootstrap replicates.",
            f"Humans: {'; '.join(humans) or 'no comparison'}.",
        ]
    )


def _limits(report: Report) -> Iterator[str]:
    text = [*report.notes]
    if report.discrete is not None and report.discrete.note:
        text.append(report.discrete.note)
    for section in report.sections:
        for run in section.runs:
            text += [f"{suite_title(section.suite)}: {warning}" for warning in run.results.warnings]
    if text:
        yield bullets(escape(note) for note in dict.fromkeys(text))
    for section in report.sections:
        for name in section.spaces:
            rows = list(_unobserved(section, name))
            if rows:
                yield f"### {heading(section, name)}: unobserved visual changes"
                yield table(["corruption", "Δv without enough images"], rows, left=2)


def _unobserved(section: TestSection, name: str) -> Iterator[list[str]]:
    """Yield each corruption with the ranges of Δv in which no model's curve was observed."""
    spaces = [scores for model in section.models if (scores := model.space(name)) is not None]
    for corruption in section.corruptions:
        missing = {_gaps(space, corruption) for space in spaces} - {""}
        if missing:
            yield [escape(corruption_title(corruption)), listed(sorted(missing))]


def _reproduce(run: Run) -> Iterator[str]:
    info = run.results.run
    yield f"### {_run_title(run)}"
    if info.command:
        yield block(info.command, "sh")
    versions = ", ".join(code(f"{name} {text}") for name, text in info.versions.items())
    lines = [
        *([f"Date: {escape(info.made)}; device: {escape(info.device)}."] if info.made else []),
        f"Run time: {escape(time_text(info))}.",
        f"Energy: {escape(energy_text(info))}.",
        f"Versions: {versions}" + (f", commit {code(info.git)}." if info.git else "."),
        f"Images: {code(run.results.images.digest)} (digest of all images).",
    ]
    for model in run.results.models:
        weights = code(model.identity) if model.identity else "not known"
        lines.append(f"{escape(model.name)}: weights {weights}.")
    yield bullets(lines)


def _run_title(run: Run) -> str:
    """Return the title of a run: its suite and models."""
    models = [escape(name) for name in short_names(run.models)]
    return f"{escape(suite_title(run.config.suite))}: {listed(models)}"


def _gaps(space: SpaceResults, corruption: str) -> str:
    """Return the ranges of Δv without enough images under a corruption, "" if there are none."""
    collected = []
    for score in space.corruptions[corruption].properties.values():
        if score.curve is not None:
            # With two decimals, a shorter gap would be shown with two equal ends.
            long = [(start, end) for start, end in gaps(score.observed) if end - start > 0.005]
            collected += [interval_text(ends, delta_v_text) for ends in long]
    return listed(list(dict.fromkeys(collected)))


Scored = tuple[ModelEntry, SpaceResults]


def leaderboards(report: Report, section: TestSection) -> Iterator[str]:
    """Yield a heading, the sort order and a table for each label space of a test."""
    standings = section.standings
    order = f"Sorted by {escape(SCORES[standings.by].title)} in {space_title(standings.space)}."
    if standings.board.baseline:
        order += f" Errors are divided by the errors of {escape(standings.board.baseline)}."
    for space in section.spaces:
        models = [
            (model, scores)
            for model in section.models
            if (scores := model.space(space)) is not None
        ]
        columns = dict(_columns(report, models))
        # A rank belongs to the label space it was computed in.
        ranks = standings.ranks if space == standings.space else None
        rows = [
            [
                *([] if standings.verdict else [str(index)]),
                escape(model.short),
                *([] if ranks is None else [rank_text(ranks.intervals[model.name])]),
                *(
                    bracketed_text(overall_scores(scores)[name], SCORES[name], is_short=False)
                    + _mark(is_mean_marked(report.runs[model.run], model.results, space, name))
                    for name in columns
                ),
            ]
            for index, (model, scores) in enumerate(models, start=1)
        ]
        yield f"### {heading(section, space)}"
        yield order
        head = [
            *([] if standings.verdict else ["#"]),
            "model",
            *([] if ranks is None else ["rank, 95 %"]),
            *columns.values(),
        ]
        yield table(head, rows, left=1 if standings.verdict else 2)
        if note := mark_note(model.results for model, _ in models):
            yield note


def by_corruption(section: TestSection, model: ModelEntry) -> Iterator[str]:
    """Yield a heading and a table for each label space of a model, with a row per corruption."""
    scores = [score for score in DECLARED if not score.of_test]
    for name, space in model.results.spaces.items():
        estimates: dict[str, dict[Score, Estimate]] = {
            corruption: {
                score: estimate
                for score in scores
                if (estimate := find(space, score.path(corruption))) is not None
            }
            for corruption in space.corruptions
        }
        columns = [score for score in scores if any(score in row for row in estimates.values())]
        if not columns:
            continue
        rows = [
            [
                escape(corruption_title(corruption)) + _mark(corruption in model.results.marked),
                *(
                    bracketed_text(row[score], score, is_short=False) if score in row else MISSING
                    for score in columns
                ),
            ]
            for corruption, row in estimates.items()
        ]
        yield f"### {escape(model.short)}, {heading(section, name)}"
        yield table(["corruption", *(escape(_score_title(score)) for score in columns)], rows)
        if note := mark_note([model.results]):
            yield note


def _mark(is_marked: bool) -> str:
    return f" {MARK}" if is_marked else ""


def _score_title(score: Score) -> str:
    return f"{score.title} in %" if score.is_percent else score.title


def heading(section: TestSection, space: str) -> str:
    """Return the test and the label space as a heading."""
    n_images = section.standings.board.n_images(space)
    images = f"{n_images} {plural(n_images, 'image')}"
    return f"{escape(suite_title(section.suite))}, {space_title(space)}, {images}"


def _columns(report: Report, models: Sequence[Scored]) -> Iterator[tuple[str, str]]:
    """Yield the scores that all models have over the same corruptions, with their titles."""
    for score in LEADERBOARD:
        name = score.name
        if not all(name in overall_scores(space) for _, space in models):
            continue
        over = {averaged(report.runs[model.run], space, name) for model, space in models}
        # Means over different corruptions are not comparable within one column.
        if len(over) == 1:
            wanted = len(report.runs[models[0][0].run].config.means_over)
            count = len(over.pop())
            note = f" ({count} of {wanted} corruptions)" if 0 < count < wanted else ""
            yield name, escape(_score_title(score)) + note
