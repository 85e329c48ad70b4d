"""What the terminal shows of an evaluation: a table for each model and label space."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from eyechart.pipeline.trained_on import MARK
from eyechart.reports.interval_text import interval_text
from eyechart.reports.terminal.columns import stacked
from eyechart.scores.evaluation import CorruptionScore, Evaluation, SpaceScore, values_of
from eyechart.stats.estimate import Estimate

if TYPE_CHECKING:
    from rich.table import Table


def tables(evaluation: Evaluation, width: int) -> Iterator[tuple[str, list["Table"]]]:
    """Yield a title and tables no wider than `width` for each model and label space."""
    for model in evaluation.models:
        for space in model.spaces:
            clean = space.clean_accuracy
            title = f"{model.name}, {_space_title(space)}"
            title += "" if clean is None else f", clean accuracy {clean.value:.3f}"
            if space.normalised is not None:
                title += f", CE in percent of {space.normalised.baseline}'s errors"
            yield title, list(_tables(space, model.marked, width))


def _tables(space: SpaceScore, marked: Collection[str], width: int) -> Iterator["Table"]:
    from rich.markup import escape

    names = _columns(space)
    rows = [
        [
            escape(score.corruption) + (f" {MARK}" if score.corruption in marked else ""),
            *(_cell(space, score, name) for name in names),
        ]
        for score in space.corruptions
    ]
    has_mean = len(space.corruptions) > 1 and bool(space.means)
    if has_mean:
        over = space.counted or tuple(score.corruption for score in space.corruptions)
        mean = f"mean {MARK}" if set(over) & set(marked) else "mean"
        rows.append([mean, *(_mean_cell(space, name) for name in names)])
    left = [0, *(place + 1 for place, name in enumerate(names) if name == "verdict")]
    head = ["corruption", *names]
    return stacked(head, rows, width=width, left=left, last_apart=has_mean)


def _space_title(space: SpaceScore) -> str:
    where = "16 categories" if space.space == "entry16" else "own classes"
    return f"{where} ({space.pictures} pictures)"


def _columns(space: SpaceScore) -> list[str]:
    there = {name for score in space.corruptions for name in values_of(score)}
    names = [name for name in ("R_a", "R_p") if _key(name) in there]
    names += [name for name in ("HMRI_a", "MRSI_a", "HMRI_p", "MRSI_p") if _key(name) in there]
    # an error rate where there are levels, or where it is all there is
    bare = [
        score.error_by_severity or score.consistency is None or score.consistency.curve is None
        for score in space.corruptions
    ]
    if any(bare) and any(score.accuracy for score in space.corruptions):
        names.append("error")
    if space.normalised is not None:
        names += ["CE"] + (["relative CE"] if space.normalised.relative_ce else [])
    if any(own.people for score in space.corruptions for own in score.properties.values()):
        names.append("verdict")
    return names


def _key(name: str) -> str:
    return name.lower()


def _mean_cell(space: SpaceScore, name: str) -> str:
    """Return the mean over corruptions: of CE, the mCE."""
    own = space.normalised
    if own is not None and name in ("CE", "relative CE"):
        mean = own.mce if name == "CE" else own.relative_mce
        return "" if mean is None else _percent(mean)
    return _number(space.means[key]) if (key := _key(name)) in space.means else ""


def _cell(space: SpaceScore, score: CorruptionScore, name: str) -> str:
    if name == "verdict":
        return _verdict(space, score)
    if name == "error":
        return _number(score.error)
    if space.normalised is not None and name in ("CE", "relative CE"):
        divided = space.normalised.tables[name.lower().replace(" ", "_")].get(score.corruption)
        return "–" if divided is None else _percent(divided)
    kind, letter = name.lower().split("_")
    own = score.properties.get(letter)
    if own is None:
        return "–"
    if kind == "r":
        return _number(own.robustness)
    if own.people is None:
        return "–"
    return _number(own.people.hmri if kind == "hmri" else own.people.mrsi)


def _verdict(space: SpaceScore, score: CorruptionScore) -> str:
    found = [own.people.scenario for own in score.properties.values() if own.people is not None]
    if not found:
        return "no human reference"
    return "too few photographs" if space.verdict else " / ".join(found)


def _number(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    return f"{estimate.value:.3f} [dim]{interval_text(estimate.interval, 2)}[/dim]"


def _percent(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f} [dim]{interval_text(estimate.interval, 0, 100)}[/dim]"
