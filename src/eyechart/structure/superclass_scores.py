"""How much worse unseen kinds of superclasses are recognised than seen ones, with intervals."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.core.errors import UsageError
from eyechart.core.plain import from_plain
from eyechart.structure.scores import (
    Confusion,
    Share,
    count_confusions,
    make_share,
    resampled_means,
)
from eyechart.structure.study_folder import RESULTS, write_results
from eyechart.structure.superclass_pictures import Split
from eyechart.structure.superclass_study import ANSWERS, answers_in
from eyechart.training.recipe import Recipe

SCHEMA, KIND = 1, "superclass"

Real = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class SuperclassScore:
    """Right answers to the kinds of one superclass; nothing where there are no unseen ones.

    `synsets` and `pictures`: of seen and of unseen kinds, to test with. The interval of a single
    synset is of its pictures alone.
    """

    name: str
    wnid: str
    seen: Share
    unseen: Share | None
    gap: Share | None
    synsets: tuple[int, int]
    pictures: tuple[int, int]


@dataclass(frozen=True)
class ModelScore:
    """Right answers of one model: to all pictures, and as a mean over superclasses.

    The gap is what is lost from seen to unseen. `mean_…`: over the superclasses that have both;
    seen and unseen pictures are of them in different shares. `imagenet_accuracy`: on ImageNet-1K,
    before it was tuned, if somebody said so. `confusions`: of unseen kinds.
    """

    name: str
    imagenet_accuracy: float | None
    seen: Share
    unseen: Share
    gap: Share
    mean_seen: Share
    mean_unseen: Share
    mean_gap: Share
    superclasses: tuple[SuperclassScore, ...]
    confusions: tuple[Confusion, ...]


@dataclass(frozen=True)
class SuperclassResults:
    """All models of a study.

    `tune`: which parameters. `pictures`: trained with, tested with of seen and of unseen kinds;
    `synsets`: of seen and of unseen kinds.
    """

    tune: str
    epochs: int
    rate: float
    pictures: tuple[int, int, int]
    synsets: tuple[int, int]
    models: tuple[ModelScore, ...]
    notes: tuple[str, ...]
    kind: str = KIND
    schema: int = SCHEMA


def score_superclasses(
    specs: Sequence[str],
    data: Split,
    recipe: Recipe,
    accuracies: Mapping[str, float | None],
    out: Path,
) -> SuperclassResults:
    """Return what the answers in `out` say, and write it to results.json.

    Models that an earlier command tuned in the same study stay among its results.
    """
    found = {each.name: each for each in _earlier(out)}
    for spec in specs:
        answers = answers_in(spec, out).read(ANSWERS)["answer"].to_numpy()
        found[spec] = score_model(spec, answers, data, accuracies.get(spec))
    models = tuple(found.values())
    synsets = data.synsets
    results = SuperclassResults(
        recipe.tune,
        recipe.epochs,
        recipe.rate,
        (len(data.train), len(data.seen), len(data.unseen)),
        (len(set(synsets[: len(data.seen)])), len(set(synsets[len(data.seen) :]))),
        models,
        data.notes,
    )
    write_results(results, out)
    return results


def _earlier(out: Path) -> tuple[ModelScore, ...]:
    """Return the models of the results that are there; none if there are no whole ones."""
    try:
        return read_superclass_results(out).models
    except UsageError:
        return ()


def score_model(
    name: str, answers: Places, data: Split, imagenet_accuracy: float | None = None
) -> ModelScore:
    """Return the score of a model that answered so to the seen, then to the unseen pictures."""
    labels = np.concatenate([data.seen.labels.numpy(), data.unseen.labels.numpy()])
    right = (answers == labels).astype(np.float64)
    groups = np.unique(np.array(data.synsets), return_inverse=True)[1]
    unseen = np.arange(len(labels)) >= len(data.seen)
    numbers = np.random.default_rng(0)

    def share(which: NDArray[np.bool_]) -> Share:
        drawn = resampled_means(right[which], groups[which], numbers)
        return make_share(float(right[which].mean()), drawn, int(which.sum()))

    scores = []
    for label, own in enumerate(data.superclasses):
        parts = [(labels == label) & ~unseen, (labels == label) & unseen]
        counts = [int(part.sum()) for part in parts]
        kinds = [len(set(groups[part].tolist())) for part in parts]
        before = share(parts[0])
        after = share(parts[1]) if counts[1] else None
        gap = None if after is None else weighted([before, after], [1, -1])
        scores.append(
            SuperclassScore(
                own.name, own.wnid, before, after, gap,
                (kinds[0], kinds[1]), (counts[0], counts[1]),
            )
        )  # fmt: skip
    befores = [each.seen for each in scores if each.unseen is not None]
    afters = [each.unseen for each in scores if each.unseen is not None]
    evenly = [1 / len(afters)] * len(afters)
    whole = share(~unseen), share(unseen)
    answered = answers[unseen][None]
    return ModelScore(
        name,
        imagenet_accuracy,
        *whole,
        weighted(whole, [1, -1]),
        weighted(befores, evenly),
        weighted(afters, evenly),
        weighted([*befores, *afters], [*evenly, *(-each for each in evenly)]),
        tuple(scores),
        count_confusions(labels[unseen], answered, data.seen.class_names),
    )


def weighted(shares: Sequence[Share], weights: Sequence[float]) -> Share:
    """Return a weighted sum of independent shares, such as a difference or a mean.

    Its interval lies as far from it as the squares of the way to each share's own nearer or farther
    end add up to (Zou and Donner 2008; for two shares Newcombe 1998), so that shares of 0 or 1 do
    not give an interval of no width.
    """
    value = sum(w * each.value for w, each in zip(weights, shares, strict=True))
    intervals = []
    for which in ("interval", "narrow_interval"):
        low = high = 0.0
        for weight, each in zip(weights, shares, strict=True):
            ends = sorted(weight * (end - each.value) for end in getattr(each, which))
            low, high = low + ends[0] ** 2, high + ends[1] ** 2
        intervals.append((value - sqrt(low), value + sqrt(high)))
    return Share(value, intervals[0], intervals[1])


def read_superclass_results(folder: Path) -> SuperclassResults:
    """Return the results of a finished study."""
    path = folder / RESULTS
    try:
        told: Any = json.loads(path.read_text(encoding="utf-8"))
        if told.get("kind") != KIND:
            raise ValueError("it is of another kind of study")
        return from_plain(SuperclassResults, told)
    except FileNotFoundError:
        raise UsageError(
            f"{folder} holds no finished study: there is no {RESULTS}; run the command"
            " that began it again."
        ) from None
    except (OSError, ValueError, AttributeError) as error:
        what = " ".join(str(error).split())
        raise UsageError(
            f"{path} cannot be read ({what}): give a folder that"
            " eyechart structure wrote, or make the study again."
        ) from None
