"""From rows to single answers, and to what they are resampled by and anchored at."""

import numpy as np
from numpy.typing import NDArray

from eyechart.humans.human_responses import HumanResponses, Numbers


def clusters_of(responses: HumanResponses) -> NDArray[np.str_]:
    """Return what answers belong together by: their picture, or the person where it is unknown."""
    return np.where(responses.picture != "", responses.picture, responses.subject)


def apart_if_unknown(clusters: NDArray[np.str_]) -> NDArray[np.str_] | None:
    """Return the clusters with a new one for each answer of which nothing is known."""
    unknown = clusters == ""
    if unknown.all():
        return None
    alone = np.char.add("answer ", np.arange(len(clusters)).astype(np.str_))
    return np.where(unknown, alone, clusters)


def one_by_one(responses: HumanResponses, hits: Numbers) -> tuple[NDArray[np.int64], Numbers]:
    """Return the row of each single answer, and whether it is a hit.

    14 hits of 15 become 14 ones and a zero, for resampling must see that they are single answers.
    A row whose hits are no whole number stands for as many equal shares.
    """
    rows = np.repeat(np.arange(len(responses)), responses.trials)
    starts = np.cumsum(responses.trials) - responses.trials
    position = np.arange(len(rows)) - starts[rows]
    total = hits * responses.trials
    is_whole = np.abs(total - np.rint(total)) < 1e-6
    return rows, np.where(is_whole[rows], position < np.rint(total)[rows], hits[rows]).astype(
        np.float64
    )


def anchor_of(
    clean: HumanResponses, hits: Numbers, clusters: NDArray[np.str_]
) -> float | NDArray[np.float64] | None:
    """Return how often clean pictures are hits: for each answer's cluster where they share any.

    Otherwise the mean over clusters, as one number, whose own error is left aside.
    """
    if not len(clean):
        return None
    names, index = np.unique(clusters_of(clean), return_inverse=True)
    rates = np.bincount(index, hits * clean.trials) / np.bincount(index, clean.trials)
    mean = float(rates.mean())
    shared = np.isin(clusters, names)
    if not shared.any() or (names == "").all():
        return mean
    nearest = np.minimum(np.searchsorted(names, clusters), len(names) - 1)
    return np.where(shared, rates[nearest], mean)
