"""What `eyechart humans similar` prints of a same/different study."""

from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.humans.same_different import PairResult


def print_pairs(file: Path, a: str | None, b: str | None) -> None:
    """Print what people could tell of all pairs, or of one."""
    from eyechart.cli.tables import wide_console
    from eyechart.humans.same_different import ALIKE, analyse, pick, read_single_judgements

    results = analyse(read_single_judgements(file))
    if not results:
        raise UsageError(f"{file} holds no answers yet.")
    shown = results if a is None or b is None else [pick(results, a, b)]
    wide_console().print(_table(shown))
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
    if any(result.unanswered for result in shown):
        count = sum(result.unanswered for result in shown)
        print(f"{count} trials without an answer in time were left aside.")


def _table(results: "list[PairResult]") -> object:
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
            f"{each.answers:,}",
            f"{each.people:,}",
            f"{each.accuracy:.3f}",
            f"{each.interval[0]:.2f}–{each.interval[1]:.2f}",
            f"{each.pooled_holm:.2g}",
            f"{each.by_people_holm:.2g}",
            f"{each.sensitivity:.2f}",
            f"{each.said_same[0]:.2f} / {each.said_same[1]:.2f}",
            each.verdict,
        )
    return table


def _print_one(result: "PairResult") -> None:
    print(
        f"Before correction: p = {result.pooled:.4g} pooled, {result.by_people:.4g} by people;"
        f" bias {result.bias:+.2f} (positive: 'different' is said too rarely)."
    )
