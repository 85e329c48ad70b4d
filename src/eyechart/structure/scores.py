"""How much worse what was held out is recognised than what is familiar, with intervals."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file
from eyechart.core.plain import from_plain
from eyechart.stats.estimate import LEVELS
from eyechart.stats.intervals import percentile_interval, wilson_interval
from eyechart.structure.folds import Fold
from eyechart.structure.kinds import Kinds
from eyechart.structure.study import Study, file_of, read_answers
from eyechart.structure.study_folder import RESULTS, write_results

SCHEMA = 1
REPLICATES = 2000
MOST_CONFUSED = 20
"""Confusions that are kept of each fold, the most frequent first."""

EXAMPLES, PICTURES = 20, "examples"
"""Pictures that are kept of each fold, and where."""

Real = NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """A share, or a difference of two, with its 95 % and 83 % intervals."""

    value: float
    interval: tuple[float, float]
    narrow_interval: tuple[float, float]


@dataclass(frozen=True)
class Confusion:
    """How often pictures of one class that were held out were taken for another."""

    label: str
    answer: str
    share: float
    pictures: int


@dataclass(frozen=True)
class Example:
    """A picture that was held out, as a file below the study's folder, and what was said of it."""

    picture: str
    label: str
    answer: str
    is_right: bool


@dataclass(frozen=True)
class FoldScore:
    """One fold: right answers to what was held out, to what is familiar, and the gap between them.

    `pictures`: held out, familiar, and trained with; `copies`: taken out of training because they
    show the same as a picture to test with. `missing`: classes of which nothing was held out.
    `guessing`: how often one is right on the familiar pictures who always gives the same answer.
    """

    name: str
    held: tuple[str, ...]
    held_out: Share
    familiar: Share
    gap: Share
    pictures: tuple[int, int, int]
    copies: int
    missing: tuple[str, ...]
    by_class: Mapping[str, float]
    confusions: tuple[Confusion, ...]
    examples: tuple[Example, ...] = ()
    guessing: float = 0.0


@dataclass(frozen=True)
class Results:
    """All folds, and their means with intervals over folds and pictures.

    `resampled`: what intervals draw again, subclasses with all their pictures, or single pictures
    where no subclasses are known. `notes`: sentences on what was held out.
    """

    kind: str
    network: str
    epochs: int
    seeds: tuple[int, ...]
    classes: int
    folds: tuple[FoldScore, ...]
    held_out: Share
    familiar: Share
    gap: Share
    resampled: str = "subclasses"
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA


def score_study(study: Study, kinds: Kinds, out: Path) -> Results:
    """Return what the answers in `out` say, and write it to results.json."""
    answers = read_answers(study, out)
    # pictures of one subclass are alike: what is drawn again is a subclass with all of them
    resampled = "subclasses"
    try:
        groups = np.unique(np.array(kinds.names("subclass")), return_inverse=True)[1]
    except UsageError:
        groups, resampled = np.arange(len(kinds.data)), "pictures"
    scores, drawn = [], []
    for number, fold in enumerate(study.folds):
        one, replicates = _score(fold, answers[fold.name], kinds, groups, number)
        examples = keep_examples(fold, answers[fold.name][0], one.by_class, kinds, out)
        scores.append(replace(one, examples=examples))
        drawn.append(replicates)
    means = _over_folds(scores, np.array(drawn))
    results = Results(
        study.kind,
        study.network,
        study.recipe.epochs,
        study.seeds,
        len(kinds.data.class_names),
        tuple(scores),
        *means,
        resampled,
        study.notes,
    )
    write_results(results, out)
    return results


def _score(
    fold: Fold, tables: Sequence[pa.Table], kinds: Kinds, groups: NDArray[np.int64], number: int
) -> tuple[FoldScore, Real]:
    names = kinds.data.class_names
    places = tables[0]["place"].to_numpy()
    held = tables[0]["held_out"].to_numpy(zero_copy_only=False)
    labels = tables[0]["label"].to_numpy()
    answers = np.array([table["answer"].to_numpy() for table in tables])
    right = (answers == labels).mean(axis=0)
    numbers = np.random.default_rng(number)
    drawn = [resampled_means(right[own], groups[places[own]], numbers) for own in (held, ~held)]
    values = [float(right[own].mean()) for own in (held, ~held)]
    shares = [
        make_share(value, replicates, int(own.sum()))
        for value, replicates, own in zip(values, drawn, (held, ~held), strict=True)
    ]
    gap = _gap(shares[1], shares[0], drawn[1] - drawn[0])
    counts = np.bincount(labels[held], minlength=len(names))
    by_class = {
        name: float(right[held & (labels == label)].mean())
        for label, name in enumerate(names)
        if counts[label]
    }
    score = FoldScore(
        fold.name,
        fold.held,
        shares[0],
        shares[1],
        gap,
        (int(held.sum()), int((~held).sum()), len(fold.train)),
        fold.copies,
        tuple(name for label, name in enumerate(names) if not counts[label]),
        by_class,
        count_confusions(labels[held], answers[:, held], names),
        guessing=float(np.bincount(labels[~held]).max() / max(1, (~held).sum())),
    )
    return score, np.array(drawn)


def notes_on(results: Results) -> list[str]:
    """Return what a reader must know before believing the numbers, in sentences."""
    found = list(results.notes)
    blind = [own for own in results.folds if own.familiar.interval[0] <= own.guessing]
    if blind:
        others = f" and {len(blind) - 1} more" if len(blind) > 1 else ""
        found.append(
            f"What was trained without {blind[0].name}{others} is right on familiar pictures hardly"
            f" more often than by one answer to all of them ({100 * blind[0].guessing:.0f} %), so"
            " the gap says nothing: train longer."
        )
    held = Counter(name for own in results.folds for name in own.held)
    again = [name for name, count in held.items() if count > 1]
    if again:
        found.append(
            f"Held out in more than one fold, for there are no others: {len(again):,} of"
            f" {len(held):,} {'styles' if results.kind == 'style' else 'subclasses'}, such as"
            f" {again[0]}."
        )
    return found


def resampled_means(right: Real, groups: NDArray[np.int64], numbers: np.random.Generator) -> Real:
    """Return the mean of right answers in sets of groups that are drawn again, (REPLICATES,)."""
    _, own = np.unique(groups, return_inverse=True)
    sums, sizes = np.bincount(own, right), np.bincount(own)
    drawn = numbers.integers(0, len(sums), (REPLICATES, len(sums)))
    means: Real = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return means


def make_share(value: float, replicates: Real, pictures: int | None = None) -> Share:
    """Return a share with intervals; never narrower than that of as many independent pictures."""
    intervals = []
    for level in LEVELS:
        low, high = percentile_interval(replicates, level)
        if pictures is not None:
            least, most = wilson_interval(value, pictures, level)
            low, high = min(low, least), max(high, most)
        intervals.append((float(low), float(high)))
    return Share(value, intervals[0], intervals[1])


def _gap(familiar: Share, held: Share, replicates: Real) -> Share:
    """Return the difference of two shares, at least as wide as Newcombe's interval of it.

    Few pictures that are all right or all wrong would give an interval of no width.
    """
    value = familiar.value - held.value
    intervals = []
    for level, one, two in (
        (LEVELS[0], familiar.interval, held.interval),
        (LEVELS[1], familiar.narrow_interval, held.narrow_interval),
    ):
        below = hypot(familiar.value - one[0], two[1] - held.value)
        above = hypot(one[1] - familiar.value, held.value - two[0])
        low, high = percentile_interval(replicates, level)
        intervals.append((min(float(low), value - below), max(float(high), value + above)))
    return Share(value, intervals[0], intervals[1])


def count_confusions(
    labels: NDArray[np.int64], answers: NDArray[np.int64], names: Sequence[str]
) -> tuple[Confusion, ...]:
    """Return what is taken for what most often; `answers`: a row for each network."""
    table = np.zeros((len(names), len(names)), dtype=np.int64)
    for row in answers:
        np.add.at(table, (labels, row), 1)
    counts = table.sum(axis=1)
    np.fill_diagonal(table, 0)
    order = np.argsort(table, axis=None, kind="stable")[::-1][:MOST_CONFUSED]
    found = []
    for place in order.tolist():
        label, answer = divmod(place, len(names))
        if table[label, answer]:
            share = float(table[label, answer] / counts[label])
            pictures = int(counts[label] // len(answers))
            found.append(Confusion(names[label], names[answer], share, pictures))
    return tuple(found)


def keep_examples(
    fold: Fold, table: pa.Table, by_class: Mapping[str, float], kinds: Kinds, out: Path
) -> tuple[Example, ...]:
    """Write pictures that were held out, of classes from the hardest to the easiest.

    Of each class the picture is one whose answer is what is usual there: wrong if most are.
    """
    names = kinds.data.class_names
    held = table["held_out"].to_numpy(zero_copy_only=False)
    places, labels = (table[name].to_numpy()[held] for name in ("place", "label"))
    answers = table["answer"].to_numpy()[held]
    order = sorted(by_class, key=lambda name: (by_class[name], name))
    count = min(EXAMPLES, len(order))
    spread = np.linspace(0, len(order) - 1, count).round().astype(int).tolist()
    found = []
    folder = out / PICTURES / file_of(fold.name)
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(order[rank] for rank in spread):
        own = np.flatnonzero(labels == names.index(name))
        usual = (answers[own] == labels[own]) == (by_class[name] >= 0.5)
        chosen = int(own[usual][0] if usual.any() else own[0])
        path = folder / f"{number}.png"
        pixels = kinds.data.batch([int(places[chosen])])[0].permute(1, 2, 0).numpy()
        with atomic_file(path) as temporary:
            Image.fromarray(pixels).save(temporary, "png")
        answer = names[int(answers[chosen])]
        where = path.relative_to(out).as_posix()
        found.append(Example(where, name, answer, answer == name))
    return tuple(found)


def _over_folds(scores: Sequence[FoldScore], drawn: Real) -> tuple[Share, Share, Share]:
    """Return the means over folds; folds are drawn again too, unless there is but one.

    `drawn`: (folds, 2, REPLICATES), of what is held out and what is familiar.
    """
    count = len(scores)
    numbers = np.random.default_rng(count)
    folds = numbers.integers(0, count, (count, REPLICATES))
    mean = drawn[folds, :, np.arange(REPLICATES)].mean(axis=0)
    held, familiar = mean.T
    values = [
        float(np.mean([getattr(one, name).value for one in scores]))
        for name in ("held_out", "familiar")
    ]
    counts = [sum(one.pictures[which] for one in scores) for which in (0, 1)]
    own, others = make_share(values[0], held, counts[0]), make_share(values[1], familiar, counts[1])
    return own, others, _gap(others, own, familiar - held)


def read_results(folder: Path) -> Results:
    """Return the results of a finished study."""
    path = folder / RESULTS
    try:
        told: Any = json.loads(path.read_text(encoding="utf-8"))
        return from_plain(Results, told)
    except FileNotFoundError:
        raise UsageError(
            f"{folder} holds no finished study: there is no {RESULTS}; run the command"
            " that began it again."
        ) from None
    except (OSError, ValueError) as error:
        what = " ".join(str(error).split())
        raise UsageError(
            f"{path} cannot be read ({what}): give a folder that"
            " eyechart structure wrote, or make the study again."
        ) from None
