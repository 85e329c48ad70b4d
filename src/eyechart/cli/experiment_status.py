"""`eyechart experiment status`: where a study stands, once or until Ctrl-C."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.experiment_serve import StudyPath, need_experiment

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from eyechart.experiment.export.study_status import Rate, StimulusGroup, StudyStatus
    from eyechart.experiment.storage.experiment_folder import StudyFolder

MOST_ROWS = 24
"""So many corruptions or pairs go on a screen besides the rest."""


def status(
    study: StudyPath,
    watch: Annotated[bool, typer.Option("--watch", help="Look again until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long --watch waits.", min=0.2)
    ] = 5.0,
) -> None:
    """Print how far a study is, who takes part, who is left out, and people's curves so far."""
    need_experiment()
    from eyechart.cli.tables import wide_console
    from eyechart.experiment.storage.experiment_folder import open_study

    found = open_study(study)
    console = wide_console()
    if not watch:
        console.print(_page(_look(found)), highlight=False)
        return
    from rich.live import Live

    # Ctrl-C is how watching ends
    with (
        suppress(KeyboardInterrupt),
        Live(_page(_look(found)), console=console, auto_refresh=False) as live,
    ):
        while True:
            time.sleep(every)
            live.update(_page(_look(found)), refresh=True)


def _look(found: "StudyFolder") -> "StudyStatus":
    from datetime import UTC, datetime

    from eyechart.experiment.export.study_status import read_status
    from eyechart.experiment.storage.experiment_folder import open_answers

    database, study = open_answers(found)
    try:
        with database.reading() as db:
            return read_status(db, study, found.config, datetime.now(UTC))
    finally:
        database.close()


def _page(told: "StudyStatus") -> "RenderableType":
    from rich.console import Group as Together

    table = _pairs(told) if told.kind == "same-different" else _curves(told)
    rows = _shown(told)
    more = len(told.groups) - len(rows)
    rest = [f"… and {more} more, which have more answers."] if more else []
    return Together("\n".join(_head(told)), table, *rest)


def _head(told: "StudyStatus") -> list[str]:
    answers, wanted = (sum(getattr(g, name) for g in told.groups) for name in ("answers", "wanted"))
    full, stimuli = (sum(getattr(g, name) for g in told.groups) for name in ("full", "stimuli"))
    share = f" ({answers / wanted:.0%})" if wanted else ""
    lines = [
        f"{told.name}, {'open' if told.is_open else 'closed'}: {answers:,} of {wanted:,} answers"
        f"{share}; {full:,} of {stimuli:,} stimuli have all of theirs.",
        "Participants: " + ", ".join(f"{count:,} {state}" for state, count in told.people.items())
        + (f"; {told.minutes:.1f} minutes (median)." if told.minutes is not None else "."),
    ]  # fmt: skip
    if told.excluded:
        reasons = ", ".join(f"{rule} {count:,}" for rule, count in told.reasons.items())
        lines.append(f"Left out: {told.excluded:,} sessions ({reasons}).")
    if told.left_out:
        lines.append(f"Single trials left out: {told.left_out:,}.")
    if told.clean is not None:
        lines.append(
            f"Clean pictures named rightly: {_rate(told.clean)}. Behind rates: 95 % intervals."
        )
    return lines


def _shown(told: "StudyStatus") -> "list[StimulusGroup]":
    """Return the groups to show: all, or those that lack most."""
    if len(told.groups) <= MOST_ROWS:
        return list(told.groups)
    return sorted(told.groups, key=lambda own: own.answers / max(own.wanted, 1))[:MOST_ROWS]


def _curves(told: "StudyStatus") -> "RenderableType":
    from eyechart.experiment.export.study_status import PLACES

    table = _table("corruption", *(f"right at Δv {place:g}" for place in PLACES))
    for own in _shown(told):
        rates = told.curves.get(own.name, (None,) * len(PLACES))
        table.add_row(own.name, f"{own.answers:,}/{own.wanted:,}", *map(_rate, rates))
    return table


def _pairs(told: "StudyStatus") -> "RenderableType":
    table = _table("pair", "right", "people", "verdict so far")
    by_name = {f"{each.a}|{each.b}": each for each in told.pairs}
    for own in _shown(told):
        found = by_name.get(own.name)
        cells = ["", "", ""]
        if found is not None:
            low, high = found.interval
            right = f"{found.accuracy:.2f} ({low:.2f}–{high:.2f})"
            cells = [right, f"{found.people:,}", found.verdict]
        names = own.name.replace("|", " and ")
        table.add_row(names, f"{own.answers:,}/{own.wanted:,}", *cells)
    return table


def _table(first: str, *others: str) -> "Table":
    from rich.table import Table

    table = Table(first, box=None, pad_edge=False)
    for name in ("answers", *others):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _rate(rate: "Rate | None") -> str:
    return "–" if rate is None else f"{rate.value:.2f} {rate.low:.2f}–{rate.high:.2f}"
