"""Do people answer a corrupted picture as the clean one? No one sees both, so others are asked."""

from collections import Counter

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.core.registry import unknown_name
from eyechart.humans.records import CLEAN, Answers, Numbers

RULES = ("given", "majority", "random")
"""Which clean answer counts: the file's own, the commonest of other people, or a drawn one."""


def find_rule(rule: str | None, answers: Answers) -> str:
    """Return the rule of that name; without one "given" if the file has clean answers."""
    if rule is None:
        return "given" if (~np.isnan(answers.consistent)).any() else "majority"
    return check_rule(rule)


def check_rule(rule: object) -> str:
    """Return the name of a rule, or raise a UsageError that says which there are."""
    if not isinstance(rule, str):
        raise UsageError(f"clean_responses must be one of {', '.join(RULES)}, got {rule!r}.")
    if rule not in RULES:
        raise unknown_name("rule for clean responses", rule, RULES)
    return rule


def is_clean(answers: Answers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which rows are answers to clean pictures."""
    return np.asarray((answers.delta_v == 0) | (answers.corruption == CLEAN))


def consistency(answers: Answers, rule: str, seed: int = 0) -> Numbers:
    """Return whether each answer is that of other people to the clean picture; NaN if unknown.

    Under "given" it is what the file says; clean answers of which it says nothing are compared with
    the commonest of other people, which is the agreement that the curve starts from.
    """
    others = _from_others(answers, "majority" if rule == "given" else rule, seed)
    if rule != "given":
        return others
    return np.where(np.isnan(answers.consistent) & is_clean(answers), others, answers.consistent)


def _from_others(answers: Answers, rule: str, seed: int) -> Numbers:
    # images of one name in two merged studies are not the same image
    told: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in np.flatnonzero(is_clean(answers) & (answers.picture != "")).tolist():
        if answers.answer[row]:
            own = (str(answers.subject[row]), str(answers.answer[row]))
            told.setdefault((str(answers.study[row]), str(answers.picture[row])), []).append(own)
    result = np.full(len(answers), np.nan)
    for row in range(len(answers)):
        study, picture = str(answers.study[row]), str(answers.picture[row])
        subject = str(answers.subject[row])
        others = sorted(said for who, said in told.get((study, picture), ()) if who != subject)
        if others:
            drawn = hash64("clean answer", seed, picture, subject)
            result[row] = answers.answer[row] == _chosen(others, rule, drawn)
    return result


def _chosen(others: list[str], rule: str, drawn: int) -> str:
    if rule == "random":
        return others[drawn % len(others)]
    counts = Counter(others)
    most = max(counts.values())
    tied = [said for said, count in sorted(counts.items()) if count == most]
    return tied[drawn % len(tied)]
