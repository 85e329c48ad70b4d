"""One score of every model under every corruption as a LaTeX table."""

from collections.abc import Sequence

from eyechart.core.arguments import as_text
from eyechart.core.errors import UsageError
from eyechart.core.phrases import plural
from eyechart.core.registry import unknown_name
from eyechart.reports.latex.tex_tables import lines_of_table, table_line, tex
from eyechart.reports.number_text import MISSING, estimate_texts
from eyechart.reports.words import corruption_title, short_names, short_space
from eyechart.results.model_results import SpaceResults
from eyechart.results.schema import Results
from eyechart.scores.registry import DECLARED, SCORES, Score
from eyechart.stats.estimate import Estimate


def score_latex(results: Results, name: str, space: str | None) -> str:
    """Return a table with a row per corruption, a row for their mean, and a column per model.

    Raises:
        UsageError: If the score or the label space is unknown, or no model has the score.
    """
    score = _score(name)
    space = next(iter(results.models[0].spaces)) if space is None else space
    spaces = [model.space(space) for model in results.models]
    corruptions = [name for name in spaces[0] if any(score.name in s[name].scores for s in spaces)]
    if not corruptions:
        raise UsageError(
            f"These results have no {score.name} in the label space {space}: it needs"
            f" {', '.join(score.needs)}."
        )
    rows = [
        [tex(corruption_title(corruption)), *_cells(score, spaces, corruption)]
        for corruption in corruptions
    ]
    # The mean of CE has a name of its own, mCE.
    mean = score.mean or score.name
    means = [found.scores.get(mean) for found in spaces]
    if any(estimate is not None for estimate in means):
        title = SCORES[score.mean].title if score.mean else "Mean"
        rows.append([tex(title), *(_cell(estimate, score) for estimate in means)])
    models = short_names([model.name for model in results.models])
    caption = (
        f"{score.title} under {results.config.suite}, {short_space(space)},"
        f" {spaces[0].n_images} {plural(spaces[0].n_images, 'image')}; 95 % confidence intervals in"
        " parentheses."
    )
    head = table_line(["Corruption", *map(tex, models)])
    return lines_of_table(caption, "l" + "r" * len(models), [head], rows)


def _score(name: str) -> Score:
    known = [score.name for score in DECLARED if not score.of_test]
    if as_text(name, "score") not in known:
        raise unknown_name("score of a corruption", name, known)
    return SCORES[name]


def _cells(score: Score, spaces: Sequence[SpaceResults], corruption: str) -> list[str]:
    return [_cell(space[corruption].scores.get(score.name), score) for space in spaces]


def _cell(estimate: Estimate | None, score: Score) -> str:
    if estimate is None:
        return "--"
    value, interval = estimate_texts(estimate, score)
    text = f"{value} ({interval})" if interval else value
    # The sign for a missing number and the dash of an interval are both an en dash.
    return text.replace(MISSING, "--").replace(">", "$>$")
