"""Consistency of human responses with responses to the clean image.

No participant sees an image both clean and corrupted, so a response is compared with other
participants' responses to the clean image.
"""

from collections import Counter
from dataclasses import replace

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.core.registry import unknown_name
from eyechart.humans.human_responses import CLEAN, HumanResponses
from eyechart.humans.human_settings import CLEAN_RESPONSES


def check_rule(rule: object) -> None:
    """Raise a UsageError that lists all rules if this rule is unknown."""
    if not isinstance(rule, str):
        raise UsageError(
            f"clean_responses must be one of {', '.join(CLEAN_RESPONSES)}, got {rule!r}."
        )
    if rule not in CLEAN_RESPONSES:
        raise unknown_name("rule for clean responses", rule, CLEAN_RESPONSES)


def is_clean(responses: HumanResponses) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a mask of the responses to clean images."""
    return np.asarray((responses.delta_v == 0) | (responses.corruption == CLEAN))


def own_clean_responses(responses: HumanResponses) -> HumanResponses:
    """Return the responses to clean images that the rows contain, where the label is known."""
    label, response = responses.label, responses.clean_response
    rows = responses.only((label != "") & (response != ""))
    return replace(
        rows,
        delta_v=np.zeros(len(rows)),
        correct=(rows.clean_response == rows.label).astype(np.float64),
    )


def consistency(responses: HumanResponses, rule: str, seed: int = 0) -> FloatArray:
    """Return whether each response equals other humans' response to the clean image.

    The value is NaN if no response to the clean image is known. With "given", the clean response in
    the file is used. If the file has none for a response to a clean image, this response is
    compared with other humans' most common response to that image; curves start at this rate of
    agreement.
    """
    # Images of the same name in two merged studies are different images.
    clean_responses: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in np.flatnonzero(is_clean(responses) & (responses.image != "")).tolist():
        if responses.response[row]:
            study_image = (str(responses.study[row]), str(responses.image[row]))
            clean_response = (str(responses.subject[row]), str(responses.response[row]))
            clean_responses.setdefault(study_image, []).append(clean_response)
    agreement = np.full(len(responses), np.nan)
    for row in range(len(responses)):
        study, image = str(responses.study[row]), str(responses.image[row])
        subject = str(responses.subject[row])
        other_responses = sorted(
            response
            for participant, response in clean_responses.get((study, image), ())
            # A clean response would always agree with itself.
            if participant != subject
        )
        if other_responses:
            # Ties and random choices depend only on image and participant, not on the order of
            # rows.
            # Do not reword "clean answer": other responses would be drawn for the same seed.
            drawn = hash64("clean answer", seed, image, subject)
            agreement[row] = responses.response[row] == _chosen(other_responses, rule, drawn)
    if rule != "given":
        return agreement
    return np.where(
        np.isnan(responses.consistent) & is_clean(responses), agreement, responses.consistent
    )


def _chosen(responses: list[str], rule: str, drawn: int) -> str:
    if rule == "random":
        return responses[drawn % len(responses)]
    counts = Counter(responses)
    # Sorted, so that breaking a tie does not depend on the order of rows.
    tied = sorted(name for name in counts if counts[name] == max(counts.values()))
    return tied[drawn % len(tied)]
