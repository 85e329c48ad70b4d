"""`eyechart humans similar`: classes of corruptions that look similar to humans."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import derived_options, examples, folder_or_file
from eyechart.cli.shared.output_files import check_file_to_write
from eyechart.cli.shared.printing import print_notes, wide_console
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, verb
from eyechart.core.registry import unknown_name
from eyechart.humans.human_settings import HumanSettings
from eyechart.stats.curve_settings import N_BOOTSTRAP, SPLINE

if TYPE_CHECKING:
    from eyechart.humans.reference import Reference
    from eyechart.humans.same_different import PairResult
    from eyechart.humans.transfer import ComparedPair, SimilarClasses


CAUTION = (
    "Caution: the published rule calls two curves different if their 83 % intervals are disjoint"
    " anywhere. It is applied point by point without correction, so equal curves are often"
    " called different. In a simulation with 1,500 responses to each corruption, the rule called 14"
    " of 40 pairs of equal curves different, and the simultaneous test only 2. Intervals that just"
    " touch mean p = 0.05 only if the standard errors are equal. The p-value is 0.066 if one"
    " standard error is twice the other, and 0.106 if it is five times the other."
)


@examples(
    "eyechart humans similar geirhos --all --out similar.yaml",
    "eyechart humans similar geirhos noise lowpass",
)
@derived_options
def similar(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE",
            help="Human reference: geirhos, an imported file, or a same/different study.",
        ),
    ],
    a: Annotated[
        str | None,
        typer.Argument(metavar="[A]", help="A corruption or experiment in the reference."),
    ] = None,
    b: Annotated[
        str | None,
        typer.Argument(metavar="[B]", help="A second corruption or experiment to compare with A."),
    ] = None,
    *,
    humans: HumanSettings,
    all_pairs: Annotated[
        bool, typer.Option("--all", help="Compare all pairs (default if no names are given).")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.yaml",
            parser=folder_or_file,
            help="Write the classes to a file for evaluate --similar.",
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            help="Rule for similar corruptions: simultaneous (simultaneous test of curves, test of"
            " judgements over participants; the default) or published (83 % intervals of curves,"
            " pooled binomial test of judgements)."
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Maximum difference between similar curves (upper confidence limit); 0.2 if"
            " omitted.",
            min=0,
            max=1,
        ),
    ] = None,
) -> None:
    """Find corruptions that look similar to humans.

    Compares the human curves of all pairs of corruptions by the published 83 % rule and by a
    simultaneous test with Holm correction. Same/different judgements are tested by the published
    binomial test and over participants. All pairs within a class are similar.
    """
    from eyechart.humans.reference import find_reference, study_name
    from eyechart.humans.reference_caveats import simulated_note
    from eyechart.humans.same_different import judgements_file
    from eyechart.humans.transfer import check_replaceable, write_classes
    from eyechart.scores.similar import RULES, SIMULTANEOUS

    rule = SIMULTANEOUS if rule is None else rule
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES)
    has_pair = a is not None
    if has_pair and a == b:
        raise UsageError(f"The two experiments must differ, got {a} twice.")
    if has_pair and b is None:
        raise UsageError(f"Give two corruptions or none, got {a} only.")
    if has_pair and (all_pairs or out is not None):
        raise UsageError(
            "--all and --out are for all pairs: omit the two names, or omit --all and --out."
        )
    if out is not None:
        check_file_to_write(out)
        check_replaceable(out)
    file = judgements_file(Path(reference))
    if file is not None:
        curves_only = {"--margin": margin, "--clean-responses": humans.clean_responses}
        for option, value in curves_only.items():
            if value is not None:
                raise UsageError(
                    f"{option} applies to curves, but {reference} has same/different judgements:"
                    f" omit {option}."
                )
        classes = similar_of_study(file, study_name(Path(reference)), a, b, rule)
    else:
        loaded = find_reference(reference, humans.clean_responses)
        print_notes([simulated_note(loaded)])
        classes = similar_of_reference(loaded, a, b, rule, margin)
    if a is not None:
        return
    print_classes(classes)
    if out is not None:
        write_classes(out, classes)
        print(f"{out}: for eyechart evaluate --similar {out}")


def similar_of_study(
    file: Path, source: str, a: str | None, b: str | None, rule: str
) -> "SimilarClasses":
    """Print the judgements of all pairs, or of one pair; return the classes of all corruptions."""
    from eyechart.core.csv_table import read_rows
    from eyechart.humans.human_responses import are_simulated
    from eyechart.humans.reference_caveats import SIMULATED
    from eyechart.humans.same_different import analyze, pick, read_single_judgements
    from eyechart.scores.similar import compare_judgements, find_similar

    results = analyze(read_single_judgements(file))
    if not results:
        raise UsageError(f"{file} has no responses yet.")
    if are_simulated(read_rows(file)):
        print_notes([SIMULATED.format(source)])
    print_judgements(results, results if a is None or b is None else [pick(results, a, b)])
    return find_similar(compare_judgements(results), source, rule)


def similar_of_reference(
    reference: "Reference", a: str | None, b: str | None, rule: str, margin: float | None
) -> "SimilarClasses":
    """Print the comparison of all pairs of human curves, or of one pair; return all classes.

    `margin`: None for the default.
    """
    from eyechart.humans.same_different import analyze
    from eyechart.scores.similar import (
        MARGIN,
        bands_apart,
        compare_curves,
        compare_judgements,
        find_similar,
    )

    margin = MARGIN if margin is None else margin
    judged = analyze(reference.responses.judgements)
    names = {*reference.experiments, *(name for result in judged for name in (result.a, result.b))}
    for name in (a, b):
        if name is not None and name not in names:
            raise unknown_name("experiment", name, names)
    # all pairs, even if one is printed, because p-values are corrected over all of them
    curves, reasons = compare_curves(reference, margin=margin)
    pairs = [*curves, *compare_judgements(judged)]
    if not pairs:
        why = f" ({reasons[0].rstrip('.')})" if reasons else ""
        raise UsageError(
            f"{reference.name} has nothing to compare{why}: give a reference with at least two"
            " corruptions, or with same/different judgements."
        )
    printed = [pair for pair in curves if a is None or {pair.a, pair.b} == {a, b}]
    if printed:
        _print_curves(printed, len(curves), margin)
    if a is not None and b is not None:
        for pair in printed:
            one, two = (
                reference.curve(name, pair.of, estimator=SPLINE, n_bootstrap=N_BOOTSTRAP)
                for name in (a, b)
            )
            assert one is not None and two is not None
            apart = [f"{start:.2f} to {end:.2f}" for start, end in bands_apart(one, two)]
            where = f"do not overlap at Δv {', '.join(apart)}" if apart else "overlap everywhere"
            print(f"{pair.of}: the 83 % intervals {where}.")
    of_pair = [result for result in judged if a is None or {result.a, result.b} == {a, b}]
    if of_pair:
        print_judgements(judged, of_pair)
    elif a is not None:
        print("No same/different judgements of this pair.")
    if a is None:
        for reason in reasons:
            print(f"Not compared: {reason.rstrip('.')}.")
    return find_similar(pairs, reference.name, rule)


def print_classes(similarity: "SimilarClasses") -> None:
    """Print the classes that were found, and the corruptions that are in no class."""
    for group in similarity.classes:
        print(f"Class {group.name}: {', '.join(group.members)} ({group.evidence}).")
    alone = [name for name in similarity.tested if similarity.find(name) is None]
    if alone:
        print(f"Tested, but in no class: {', '.join(alone)}.")
    names = dict.fromkeys(name for pair in similarity.pairs for name in (pair.a, pair.b))
    undecided = [name for name in names if not similarity.is_tested(name)]
    if undecided:
        print(f"Undecided, more responses are needed: {', '.join(undecided)}.")
    print("All other corruptions are untested.")


def print_judgements(results: "list[PairResult]", chosen: "list[PairResult]") -> None:
    """Print the chosen pairs; p-values are corrected for the total number of pairs."""
    from rich.table import Column, Table

    from eyechart.humans.same_different import ALIKE, MIN_OBSERVERS, MIN_RESPONSES

    numbers = ("responses", "participants", "correct", "95 %", "d′", "p binomial", "p part.")
    table = Table(
        *(Column(name, overflow="fold") for name in ("a", "b")),
        *(Column(name, justify="right", no_wrap=True) for name in numbers),
        Column("“same” responses to same / different", justify="right"),
        Column("published verdict"),
        Column("verdict", no_wrap=True),
        box=None,
        pad_edge=False,
    )
    for result in chosen:
        table.add_row(
            result.a,
            result.b,
            f"{result.n_judgements:,}",
            f"{result.n_participants:,}" if result.n_participants else "–",
            f"{result.accuracy:.3f}",
            f"{result.interval[0]:.2f}–{result.interval[1]:.2f}",
            f"{result.sensitivity:.2f}",
            f"{result.pooled:.2g}",
            f"{result.by_participant_holm:.2g}",
            f"{result.said_same[0]:.2f} / {result.said_same[1]:.2f}",
            result.published_verdict,
            result.verdict,
        )
    wide_console().print(table)
    if len(chosen) == 1:
        (result,) = chosen
        print(
            f"Before correction: p = {result.pooled:.4g} pooled, {result.by_participant:.4g} over"
            f" participants; bias {result.bias:+.2f} (positive: participants respond 'different'"
            " too rarely)."
        )
    over = f", corrected over {len(results)} pairs (Holm)" if len(results) > 1 else ""
    print(
        "published verdict: the VCR paper's exact binomial test of the accuracy against one half"
        " (p binomial; two-sided, responses taken as independent, not corrected for the number of"
        " pairs). told apart: p < 0.05; not told apart: otherwise."
    )
    print(
        "verdict: sign-flip test of each participant's correct minus incorrect responses (p part.;"
        f" two-sided{over}). told apart: p < 0.05; not told apart: the upper 95 % limit of the"
        f" accuracy, over participants, is below {ALIKE:g}; hardly told apart: both conditions"
        f" hold; undecided: neither condition holds; too few: at least {MIN_OBSERVERS} participants"
        f" and {MIN_RESPONSES} responses are needed."
    )
    if anonymous := sum(result.n_anonymous for result in chosen):
        print(
            f"Note: {count_of(anonymous, 'response')} {verb(anonymous, 'has')} no participant"
            " (column subject). The verdict takes each for a different participant, although one"
            " participant may have given many of them: add the column."
        )
    if n_missing := sum(result.n_missing for result in chosen):
        trials = count_of(n_missing, "trial")
        print(f"{trials} without a response in time {verb(n_missing, 'was')} ignored.")


def _print_curves(pairs: "list[ComparedPair]", count: int, margin: float) -> None:
    from rich.table import Column, Table

    from eyechart.scores.similar import APART, DIFFERENT

    numbers = ("n", "published rule", "largest", "at most", "p", "p (Holm)")
    table = Table(
        *(Column(name, overflow="fold") for name in ("a", "b")),
        Column("of", no_wrap=True),
        *(Column(name, justify="right", no_wrap=True) for name in numbers),
        Column("verdict", no_wrap=True),
        box=None,
        pad_edge=False,
    )
    for pair in pairs:
        table.add_row(
            pair.a,
            pair.b,
            pair.of,
            f"{pair.n:,}",
            pair.published_rule,
            f"{pair.largest:.3f}",
            f"{pair.at_most:.3f}",
            f"{pair.p:.2g}",
            f"{pair.p_holm:.2g}",
            pair.verdict,
        )
    wide_console().print(table)
    over = f", p (Holm) after correction over {count} comparisons" if count > 1 else ""
    print(
        "published rule: whether the 83 % intervals of the human curves overlap wherever both were"
        f" observed. p: simultaneous bootstrap test of the largest difference along Δv{over}."
        " different: p (Holm) < 0.05; similar: not different, and the largest difference is at"
        f" most {margin:g} (upper 95 % limit); undecided: neither, so more responses are needed."
    )
    apart = [pair for pair in pairs if pair.published_rule == APART]
    if apart:
        print(CAUTION)
    doubtful = [pair for pair in apart if pair.verdict != DIFFERENT]
    if doubtful:
        names = "; ".join(f"{pair.a} and {pair.b} ({pair.of})" for pair in doubtful)
        print(f"Different by the published rule only, not by the simultaneous test: {names}.")
