"""The options that commands which fit curves have in common."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from eyechart.scores.scoring import Fit

Bins = Annotated[
    int | None,
    typer.Option(help="Number of bins of visual change, 40; humans with few responses have fewer."),
]
Least = Annotated[int | None, typer.Option(help="Minimum count per bin, 20.")]
Binning = Annotated[str, typer.Option(help="paper or equal.")]
Method = Annotated[str, typer.Option(help="least-squares, cobs or pava.")]
RightAnchor = Annotated[
    str, typer.Option(help="Where curves end: none, chance, measured or a number.")
]
Density = Annotated[
    str,
    typer.Option(
        help="How much each visual change counts in areas: uniform, beta:A,B, or weights of equal"
        " bins such as 0,1,1."
    ),
]
Replicates = Annotated[int, typer.Option(help="Number of bootstrap replicates.")]


def make_fit(*, least: int | None, right_anchor: str, **options: Any) -> "Fit":
    """Return how curves are fitted by the options above, or raise a UsageError."""
    from eyechart.scores.scoring import Fit

    needed = Fit.least if least is None else least
    fit = Fit(least=needed, right_anchor=parse_right_anchor(right_anchor), **options)
    fit.check()
    return fit


def parse_right_anchor(text: str) -> str | float:
    """Return the number that was typed, or else the text."""
    try:
        return float(text)
    except ValueError:
        return text
