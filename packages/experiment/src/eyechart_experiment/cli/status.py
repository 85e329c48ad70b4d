"""`eyechart experiment status`: print the progress of a study, once or until Ctrl-C."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.help import examples
from eyechart.core.phrases import count_of
from eyechart_experiment.cli.serve import StudyPath

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from eyechart_experiment.export.study_status import RateInterval, StimulusGroup, StudyStatus
    from eyechart_experiment.storage.experiment_folder import StudyFolder

MOST_ROWS = 24
"""Maximum number of corruptions or pairs shown on a screen."""


@examples(
    "eyechart experiment status study",
    "eyechart experiment status study --watch --every 60",
)
def status(
    study: StudyPath,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between refreshes with --watch.", min=0.2)
    ] = 5.0,
    token: Annotated[
        bool,
        typer.Option("--token", help="Print only the password of /status."),
    ] = False,
) -> None:
    """Print a study's progress, participants, exclusions and human curves so far."""
    from eyechart.cli.shared.printing import wide_console
    from eyechart_experiment.storage.experiment_folder import open_study

    folder = open_study(study)
    if token:
        from eyechart_experiment.storage.tokens import status_token

        print(status_token(folder.secret))
        return
    console = wide_console()
    if not watch:
        console.print(_page(_look(folder)), highlight=False)
        return
    from rich.live import Live

    # watching ends with Ctrl-C
    with (
        suppress(KeyboardInterrupt),
        Live(_page(_look(folder)), console=console, auto_refresh=False) as live,
    ):
        while True:
            time.sleep(every)
            live.update(_page(_look(folder)), refresh=True)


def _look(folder: "StudyFolder") -> "StudyStatus":
    from datetime import UTC, datetime

    from eyechart_experiment.export.study_status import read_status
    from eyechart_experiment.storage.experiment_folder import connect_study

    with connect_study(folder) as study:
        return read_status(study, datetime.now(UTC))


def _page(state: "StudyStatus") -> "RenderableType":
    from rich.console import Group as Together

    table = _pairs(state) if state.kind == "same-different" else _curves(state)
    rows = _shown(state)
    more = len(state.groups) - len(rows)
    rest = [f"… and {more} more, which are at least as complete."] if more else []
    return Together("\n".join(_head(state)), table, *rest)


def _head(state: "StudyStatus") -> list[str]:
    responses = sum(group.n_responses for group in state.groups)
    wanted = sum(group.wanted for group in state.groups)
    full = sum(group.full for group in state.groups)
    stimuli = sum(group.stimuli for group in state.groups)
    share = f" ({responses / wanted:.0%})" if wanted else ""
    counts = ", ".join(f"{count:,} {name}" for name, count in state.participants.items())
    lines = [
        f"{state.name}, {'open' if state.is_open else 'closed'}: {responses:,} of {wanted:,}"
        f" responses{share}; {full:,} of {stimuli:,} stimuli are complete.",
        f"Participants: {counts}"
        + (f"; {state.minutes:.1f} minutes (median)." if state.minutes is not None else "."),
    ]  # fmt: skip
    if state.excluded:
        reasons = ", ".join(f"{rule} {count:,}" for rule, count in state.reasons.items())
        lines.append(f"Excluded: {count_of(state.excluded, 'session')} ({reasons}).")
    if state.left_out:
        lines.append(f"Excluded individual trials: {state.left_out:,}.")
    if state.clean is not None:
        lines.append(
            f"Accuracy on clean images: {_rate(state.clean)}."
            " Every rate is followed by its 95 % confidence interval."
        )
    return lines


def _shown(state: "StudyStatus") -> "list[StimulusGroup]":
    """Return the groups to show: all of them or, if there are too many, the least complete."""
    if len(state.groups) <= MOST_ROWS:
        return list(state.groups)
    return sorted(state.groups, key=lambda group: group.n_responses / max(group.wanted, 1))[
        :MOST_ROWS
    ]


def _curves(state: "StudyStatus") -> "RenderableType":
    from eyechart_experiment.export.study_status import PLACES

    table = _table("corruption", *(f"acc. at Δv {delta_v:g}" for delta_v in PLACES))
    for group in _shown(state):
        rates = state.curves.get(group.name, (None,) * len(PLACES))
        table.add_row(group.name, f"{group.n_responses:,}/{group.wanted:,}", *map(_rate, rates))
    return table


def _pairs(state: "StudyStatus") -> "RenderableType":
    table = _table("pair", "correct", "participants", "verdict so far")
    by_name = {f"{pair.a}|{pair.b}": pair for pair in state.pairs}
    for group in _shown(state):
        pair = by_name.get(group.name)
        cells = ["", "", ""]
        if pair is not None:
            low, high = pair.interval
            accuracy = f"{pair.accuracy:.2f} ({low:.2f}–{high:.2f})"
            cells = [accuracy, f"{pair.n_participants:,}", pair.verdict]
        names = group.name.replace("|", " and ")
        table.add_row(names, f"{group.n_responses:,}/{group.wanted:,}", *cells)
    return table


def _table(first: str, *columns: str) -> "Table":
    from rich.table import Table

    table = Table(first, box=None, pad_edge=False)
    for name in ("responses", *columns):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _rate(rate: "RateInterval | None") -> str:
    return "–" if rate is None else f"{rate.value:.2f} {rate.low:.2f}–{rate.high:.2f}"
