"""What the tests of overlap share: random matrices, a table, and slow searches that are sure."""

from itertools import combinations

import numpy as np

import published_scores as published
from eyechart.overlap.accuracy_table import AccuracyTable, write_accuracies
from eyechart.scores.baseline_tables import built_in

# clean errors of the NOC paper's tables 7 and 8 (the standard model's first) and of table 1
CLEAN_7 = [
    *(0.247, 0.264, 0.269, 0.272, 0.300, 0.287, 0.263, 0.254, 0.263, 0.259, 0.254, 0.235),
    *(0.282, 0.200, 0.251, 0.256),
]
CLEAN_8 = [0.247, 0.237, 0.251, 0.242, 0.231, 0.241, 0.234, 0.236, 0.261]
CLEAN_1 = {"m_INOC": 0.199, "m_IC": 0.239}


def make_table(corruptions, models, values, seeds=("",)):
    """A table of accuracies with the shape ([seeds,] models, 1 + corruptions)."""
    values = np.asarray(values, dtype=float)
    values = values[None] if values.ndim == 2 else values
    assert values.shape == (len(seeds), len(models), 1 + len(corruptions))
    return AccuracyTable(tuple(corruptions), tuple(models), values, tuple(seeds))


def random_scores(count, seed, digits=None, unknown=0.0):
    """A symmetric matrix with 1 on its diagonal; few `digits` make ties, some are undetermined."""
    numbers = np.random.default_rng(seed)
    scores = np.triu(numbers.random((count, count)), 1)
    if digits is not None:
        scores = np.round(scores, digits)
    scores[np.triu(numbers.random((count, count)) < unknown, 1)] = np.nan
    scores = scores + scores.T
    np.fill_diagonal(scores, 1)
    return scores


def by_trying_all(scores, threshold):
    """All sets of the largest size and the lowest mean score, by going through every set."""
    for size in range(len(scores), 1, -1):
        found = {}
        for own in combinations(range(len(scores)), size):
            pairs = [scores[one, two] for one, two in combinations(own, 2)]
            if all(score <= threshold for score in pairs):
                found[own] = float(np.mean(pairs))
        if found:
            lowest = min(found.values())
            return {own for own, mean in found.items() if mean <= lowest + 1e-10}, lowest
    return set(), np.nan


def by_bron_kerbosch(scores, threshold):
    """The same by listing all maximal sets, with a pivot."""
    count = len(scores)
    near = [
        {two for two in range(count) if two != one and scores[one, two] <= threshold}
        for one in range(count)
    ]
    maximal = []

    def extend(members, candidates, excluded):
        if not candidates and not excluded:
            maximal.append(tuple(sorted(members)))
            return
        pivot = max(candidates | excluded, key=lambda one: len(near[one] & candidates))
        for one in list(candidates - near[pivot]):
            extend(members | {one}, candidates & near[one], excluded & near[one])
            candidates = candidates - {one}
            excluded = excluded | {one}

    extend(set(), set(range(count)), set())
    size = max(map(len, maximal))
    means = {
        own: float(np.mean([scores[pair] for pair in combinations(own, 2)]))
        for own in maximal
        if len(own) == size
    }
    lowest = min(means.values())
    return {own for own, mean in means.items() if mean <= lowest + 1e-10}, lowest


def small_table(seeds=("",)):
    """Four corruptions: two noises that help each other, a blur, and one that cannot be learnt."""
    names = ("gaussian_noise", "shot_noise", "defocus_blur", "noc/hue")
    values = np.array(
        [
            # clean, gaussian_noise, shot_noise, defocus_blur, noc/hue
            [0.90, 0.45, 0.45, 0.54, 0.80],
            [0.90, 0.81, 0.72, 0.54, 0.80],
            [0.90, 0.72, 0.81, 0.54, 0.80],
            [0.90, 0.45, 0.45, 0.81, 0.80],
            [0.90, 0.45, 0.45, 0.54, 0.81],
            [0.90, 0.75, 0.75, 0.63, 0.80],
        ]
    )
    shift = np.arange(len(seeds))[:, None, None] * 0.01
    return make_table(names, ("standard", *names, "all:mine"), values - shift, seeds)


def write_small(folder, name="accuracies.csv"):
    path = folder / name
    write_accuracies(small_table(), path)
    return path


def _accuracies(entries, clean, names, baseline):
    """The accuracies that have these relative corruption errors, in percent."""
    base = built_in()[baseline]
    return [
        1 - clean - entry / 100 * (base.errors[name] - base.clean)
        for entry, name in zip(entries, names, strict=True)
    ]


def paper_study():
    """A study of both benchmarks with the errors that the NOC paper prints in tables 1, 7 and 8.

    Nobody printed how models trained on one benchmark do on the other: there they are as the
    standard model, and the models of table 1 are on their own benchmark.
    """
    names = [*published.CORRUPTIONS, *published.NOC]
    both = (published.CORRUPTIONS, "alexnet"), (published.NOC, "noc-alexnet")
    standard = [
        _accuracies(published.NOC_TABLE_1[row][:-1], 0.247, *half)
        for row, half in zip(("Standard-IC", "Standard-INOC"), both, strict=True)
    ]
    rows = [[1 - 0.247, *standard[0], *standard[1]]]
    for entries, clean in zip(list(published.NOC_TABLE_7.values())[1:], CLEAN_7[1:], strict=True):
        rows.append([1 - clean, *_accuracies(entries[:-1], clean, *both[0]), *standard[1]])
    for entries, clean in zip(list(published.NOC_TABLE_8.values())[1:], CLEAN_8[1:], strict=True):
        rows.append([1 - clean, *standard[0], *_accuracies(entries[:-1], clean, *both[1])])
    on_c = _accuracies(published.NOC_TABLE_1["m_INOC"][:-1], CLEAN_1["m_INOC"], *both[0])
    on_noc = _accuracies(published.NOC_TABLE_1["m_IC"][:-1], CLEAN_1["m_IC"], *both[1])
    rows.append([1 - CLEAN_1["m_INOC"], *on_c, *standard[1]])
    rows.append([1 - CLEAN_1["m_IC"], *standard[0], *on_noc])
    models = ("standard", *names, "all:imagenet-noc", "all:imagenet-c")
    return make_table(names, models, np.array(rows))
