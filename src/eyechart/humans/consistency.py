"""Do people answer a corrupted picture as the clean one? No one sees both, so others are asked."""

from collections import Counter

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.core.registry import unknown_name
from eyechart.humans.human_responses import CLEAN, HumanResponses
from eyechart.humans.human_settings import CLEAN_RESPONSES


def find_rule(rule: str | None, responses: HumanResponses) -> str:
    """Return the rule of that name; without one "given" if the file has clean answers."""
    if rule is None:
        return "given" if (~np.isnan(responses.consistent)).any() else "majority"
    return check_rule(rule)


def check_rule(rule: object) -> str:
    """Return the name of a rule, or raise a UsageError that says which there are."""
    if not isinstance(rule, str):
        raise UsageError(
            f"clean_responses must be one of {', '.join(CLEAN_RESPONSES)}, got {rule!r}."
        )
    if rule not in CLEAN_RESPONSES:
        raise unknown_name("rule for clean responses", rule, CLEAN_RESPONSES)
    return rule


def is_clean(responses: HumanResponses) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which rows are answers to clean pictures."""
    return np.asarray((responses.delta_v == 0) | (responses.corruption == CLEAN))


def consistency(responses: HumanResponses, rule: str, seed: int = 0) -> FloatArray:
    """Return whether each answer is that of other people to the clean picture; NaN if unknown.

    Under "given" it is what the file says; clean answers of which it says nothing are compared with
    the commonest of other people, which is the agreement that the curve starts from.
    """
    agreement = _agreement_with_others(responses, "majority" if rule == "given" else rule, seed)
    if rule != "given":
        return agreement
    return np.where(
        np.isnan(responses.consistent) & is_clean(responses), agreement, responses.consistent
    )


def _agreement_with_others(responses: HumanResponses, rule: str, seed: int) -> FloatArray:
    # images of one name in two merged studies are not the same image
    clean_responses: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in np.flatnonzero(is_clean(responses) & (responses.picture != "")).tolist():
        if responses.answer[row]:
            image = (str(responses.study[row]), str(responses.picture[row]))
            clean_response = (str(responses.subject[row]), str(responses.answer[row]))
            clean_responses.setdefault(image, []).append(clean_response)
    result = np.full(len(responses), np.nan)
    for row in range(len(responses)):
        study, picture = str(responses.study[row]), str(responses.picture[row])
        subject = str(responses.subject[row])
        other_responses = sorted(
            response
            for participant, response in clean_responses.get((study, picture), ())
            if participant != subject
        )
        if other_responses:
            drawn = hash64("clean answer", seed, picture, subject)
            result[row] = responses.answer[row] == _chosen(other_responses, rule, drawn)
    return result


def _chosen(responses: list[str], rule: str, drawn: int) -> str:
    if rule == "random":
        return responses[drawn % len(responses)]
    counts = Counter(responses)
    most = max(counts.values())
    tied = [response for response, count in sorted(counts.items()) if count == most]
    return tied[drawn % len(tied)]
