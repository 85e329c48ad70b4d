"""`eyechart humans similar`: which corruptions look alike, in tables and as a file of classes."""

from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.humans.reference import Reference
    from eyechart.humans.same_different import PairResult
    from eyechart.humans.transfer import ComparedPair, SimilarClasses

CAUTION = (
    "Caution: the published rule calls two curves different where their 83 % intervals are apart"
    " anywhere. It is applied point by point without correction, so that equal curves often come"
    " out as different: 14 of 40 simulated pairs of 1,500 responses, where the simultaneous test"
    " has 2. Intervals that just touch mean p = 0.05 only for equal standard errors (0.066 if one"
    " is twice the other, 0.106 at five times)."
)


def similar_of_study(file: Path, source: str, a: str | None, b: str | None) -> "SimilarClasses":
    """Print what participants could tell of all pairs, or of one; return the classes of all."""
    from eyechart.humans.same_different import analyse, pick, read_single_judgements
    from eyechart.scores.similar_pairs import SIMULTANEOUS, compare_judgements, find_similar

    results = analyse(read_single_judgements(file))
    if not results:
        raise UsageError(f"{file} holds no answers yet.")
    print_judgements(results, results if a is None or b is None else [pick(results, a, b)])
    return find_similar(compare_judgements(results), source, SIMULTANEOUS)


def similar_of_reference(
    reference: "Reference", a: str | None, b: str | None, rule: str | None, margin: float | None
) -> "SimilarClasses":
    """Print how every two human curves compare, or one pair; return the classes of all.

    `rule`: None for the simultaneous test; `margin`: None for the usual one.
    """
    from eyechart.core.registry import unknown_name
    from eyechart.humans.same_different import analyse
    from eyechart.scores.similar_pairs import (
        MARGIN,
        RULES,
        SIMULTANEOUS,
        compare_curves,
        compare_judgements,
        find_similar,
    )

    rule = SIMULTANEOUS if rule is None else rule
    margin = MARGIN if margin is None else margin
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES)
    judged = analyse(reference.responses.judgements)
    names = {*reference.experiments, *(name for own in judged for name in (own.a, own.b))}
    for name in (a, b):
        if name is not None and name not in names:
            raise unknown_name("experiment", name, names)
    curves, reasons = compare_curves(reference, margin=margin)
    pairs = [*curves, *compare_judgements(judged)]
    if not pairs:
        why = f" ({reasons[0].rstrip('.')})" if reasons else ""
        raise UsageError(
            f"{reference.name} has nothing to compare{why}: give a reference with at least two"
            " corruptions, or with same/different judgements."
        )
    shown = [own for own in curves if a is None or {own.a, own.b} == {a, b}]
    if shown:
        _print_curves(shown, len(curves), margin)
    if a is not None and b is not None:
        _print_stretches(reference, a, b, [own.of for own in shown])
    own_judged = [own for own in judged if a is None or {own.a, own.b} == {a, b}]
    if own_judged:
        print_judgements(judged, own_judged)
    elif a is not None:
        print("No same/different judgements of this pair.")
    for reason in reasons if a is None else ():
        print(f"Not compared: {reason.rstrip('.')}.")
    return find_similar(pairs, reference.name, rule)


def print_classes(found: "SimilarClasses") -> None:
    """Print the classes that were found, and which corruptions are in none."""
    for own in found.classes:
        print(f"Class {own.name}: {', '.join(own.members)} ({own.evidence}).")
    alone = [name for name in found.tested if found.find(name) is None]
    if alone:
        print(f"In no class, though tested: {', '.join(alone)}.")
    names = dict.fromkeys(name for pair in found.pairs for name in (pair.a, pair.b))
    undecided = [name for name in names if not found.is_tested(name)]
    if undecided:
        print(f"Undecided, more responses are needed: {', '.join(undecided)}.")
    print("All others are untested: nothing is known of what they look like.")


def print_judgements(results: "list[PairResult]", shown: "list[PairResult]") -> None:
    """Print some of the pairs that participants judged; corrections are over all of them."""
    from eyechart.cli.shared.console import wide_console
    from eyechart.humans.same_different import ALIKE

    wide_console().print(_judgements_table(shown))
    if len(shown) == 1:
        _print_one(shown[0])
    over = f" and corrected over {len(results)} pairs (Holm)" if len(results) > 1 else ""
    print(
        f"p: two-sided against one half{over}. pooled: binomial, as if answers were independent;"
        " people: each person's right minus wrong answers, with every sign as likely."
    )
    print(
        "Verdicts go by people. told apart: p under 0.05; not told apart: the 95 % interval, which"
        f" allows for people's differences, ends below {ALIKE:g}; hardly: both; undecided: neither."
    )
    if any(result.n_unanswered for result in shown):
        count = sum(result.n_unanswered for result in shown)
        print(f"{count} trials without an answer in time were left aside.")


def _print_curves(pairs: "list[ComparedPair]", count: int, margin: float) -> None:
    from eyechart.cli.shared.console import wide_console
    from eyechart.scores.similar_pairs import APART, DIFFERENT

    wide_console().print(_curves_table(pairs))
    over = f", p (Holm) after correction over {count} comparisons" if count > 1 else ""
    print(
        "published rule: whether the 83 % intervals of the human curves overlap wherever both were"
        f" observed. p: simultaneous bootstrap test of the largest difference along Δv{over}."
        " different: p (Holm) under 0.05; similar: otherwise, and the largest difference is at most"
        f" {margin:g} (upper 95 % limit); undecided: neither, more responses are needed."
    )
    if any(own.published_rule == APART for own in pairs):
        print(CAUTION)
    doubtful = [own for own in pairs if own.published_rule == APART and own.verdict != DIFFERENT]
    if doubtful:
        names = "; ".join(f"{own.a} and {own.b} ({own.of})" for own in doubtful)
        print(
            "Apart by the published rule only, which the simultaneous test does not support:"
            f" {names}."
        )


def _print_stretches(reference: "Reference", a: str, b: str, properties: list[str]) -> None:
    """Print where along Δv the 83 % intervals of two human curves are apart."""
    from eyechart.humans.similarity import bands_apart
    from eyechart.scores.similar_pairs import REPLICATES

    for which in properties:
        one, two = (reference.curve(name, which, replicates=REPLICATES) for name in (a, b))
        assert one is not None and two is not None
        apart = [f"{start:.2f} to {end:.2f}" for start, end in bands_apart(one, two)]
        where = f"are apart at Δv {', '.join(apart)}" if apart else "overlap everywhere"
        print(f"{which}: the 83 % intervals {where}.")


def _curves_table(pairs: "list[ComparedPair]") -> object:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("a", "b"):
        table.add_column(name, overflow="fold")
    table.add_column("of", no_wrap=True)
    for name in ("n", "published rule", "largest", "at most", "p", "p (Holm)"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for own in pairs:
        table.add_row(
            own.a,
            own.b,
            own.of,
            f"{own.n:,}",
            own.published_rule,
            f"{own.largest:.3f}",
            f"{own.at_most:.3f}",
            f"{own.p:.2g}",
            f"{own.p_holm:.2g}",
            own.verdict,
        )
    return table


def _judgements_table(results: "list[PairResult]") -> object:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("a", "b"):
        table.add_column(name, overflow="fold")
    for name in ("answers", "people", "right", "95 %", "p pooled", "p people", "d′"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("said same of same / different", justify="right")
    table.add_column("verdict", no_wrap=True)
    for each in results:
        table.add_row(
            each.a,
            each.b,
            f"{each.n_judgements:,}",
            f"{each.n_participants:,}",
            f"{each.accuracy:.3f}",
            f"{each.interval[0]:.2f}–{each.interval[1]:.2f}",
            f"{each.pooled_holm:.2g}",
            f"{each.by_participant_holm:.2g}",
            f"{each.sensitivity:.2f}",
            f"{each.said_same[0]:.2f} / {each.said_same[1]:.2f}",
            each.verdict,
        )
    return table


def _print_one(result: "PairResult") -> None:
    print(
        f"Before correction: p = {result.pooled:.4g} pooled, {result.by_participant:.4g} by people;"
        f" bias {result.bias:+.2f} (positive: 'different' is said too rarely)."
    )
