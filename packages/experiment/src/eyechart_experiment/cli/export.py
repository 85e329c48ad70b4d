"""A study's progress, plan, responses and payments.

`eyechart experiment status`, `preregister`, `export`, `payments` and `verify`.
"""

import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import derived_options, examples
from eyechart.cli.shared.derived_options import folder as folder_path
from eyechart.cli.shared.stop import Stop
from eyechart.core.options import Option
from eyechart.core.phrases import count_of, verb
from eyechart_experiment.cli.serve import StudyPath, connect

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from eyechart_experiment.export.study_status import RateInterval, StudyStatus
    from eyechart_experiment.storage.stimulus_counts import StimulusGroup


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

    if token:
        from eyechart_experiment.storage.experiment_folder import open_study
        from eyechart_experiment.storage.tokens import status_token

        print(status_token(open_study(study).secret))
        return
    console = wide_console()
    if not watch:
        console.print(_page(_look(study)), highlight=False)
        return
    from rich.live import Live

    # watching ends with Ctrl-C
    with (
        suppress(KeyboardInterrupt),
        Live(_page(_look(study)), console=console, auto_refresh=False) as live,
    ):
        while True:
            time.sleep(every)
            live.update(_page(_look(study)), refresh=True)


def _look(study: Path) -> "StudyStatus":
    from eyechart_experiment.export.study_status import read_status

    with connect(study) as opened:
        return read_status(opened, datetime.now(UTC))


def _page(state: "StudyStatus") -> "RenderableType":
    from rich.console import Group as Together

    rows, more = list(state.groups), len(state.groups) - MOST_ROWS
    if more > 0:
        # The least complete ones.
        rows = sorted(rows, key=lambda group: group.n_responses / max(group.wanted, 1))[:MOST_ROWS]
    show = _pairs if state.kind == "same-different" else _curves
    rest = [f"… and {more} more, which are at least as complete."] if more > 0 else []
    return Together("\n".join(_head(state)), show(state, rows), *rest)


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


def _curves(state: "StudyStatus", groups: "Sequence[StimulusGroup]") -> "RenderableType":
    from eyechart_experiment.export.study_status import SHOWN_DELTA_V

    table = _table("corruption", *(f"acc. at Δv {delta_v:g}" for delta_v in SHOWN_DELTA_V))
    for group in groups:
        rates = state.curves.get(group.name, (None,) * len(SHOWN_DELTA_V))
        table.add_row(group.name, f"{group.n_responses:,}/{group.wanted:,}", *map(_rate, rates))
    return table


def _pairs(state: "StudyStatus", groups: "Sequence[StimulusGroup]") -> "RenderableType":
    table = _table("pair", "correct", "participants", "verdict so far")
    by_name = {f"{pair.a}|{pair.b}": pair for pair in state.pairs}
    for group in groups:
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
    if rate is None:
        return "–"
    value, low, high = rate
    return f"{value:.2f} {low:.2f}–{high:.2f}"


@examples(
    "eyechart experiment preregister study",
    "eyechart experiment preregister study --hypotheses hypotheses.md",
)
def preregister(
    study: StudyPath,
    hypotheses: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Text with the hypotheses; exploratory if it is omitted."
        ),
    ] = None,
) -> None:
    """Write a study's plan for pre-registration, with a hash that exports repeat."""
    from eyechart_experiment.design.study_settings import read_prose
    from eyechart_experiment.export.preregistration import preregister as write
    from eyechart_experiment.storage.experiment_folder import open_study

    text = None if hypotheses is None else read_prose(hypotheses, "state what the study tests")
    path, digest, n_responses = write(open_study(study), text)
    print(f"{path}: SHA-256 {digest}")
    if n_responses:
        print(
            f"  {count_of(n_responses, 'response')} had been collected when it was written: readers"
            " will want to know why."
        )
    print("  Publish it, such as on osf.io, before the first participant; do not edit it.")


@examples(
    "eyechart experiment export study",
    "eyechart experiment export study --out exported --include-excluded",
)
def export(
    study: StudyPath,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", parser=folder_path, help="Output folder; STUDY/export if omitted."
        ),
    ] = None,
    include_excluded: Annotated[
        bool, typer.Option("--include-excluded", help="Keep responses of excluded sessions.")
    ] = False,
) -> None:
    """Export a study's responses as a human reference and as tables."""
    from eyechart_experiment.export.study_export import export as write
    from eyechart_experiment.storage.experiment_folder import open_study

    folder = open_study(study)
    done = write(folder, out, include_excluded)
    print(
        f"{done.out}: {len(done.kept):,} of {done.n_responses:,} main responses are included, from"
        f" {count_of(done.n_participants, 'participant')}."
    )
    if done.simulated:
        print("  All participants are simulated (robots): these responses are not human data.")
    if done.preregistration:
        print(f"  Pre-registration: SHA-256 {done.preregistration}")
    if done.n_reused:
        print(
            f"  {count_of(done.n_reused, 'response')} to clean images"
            f" {verb(done.n_reused, 'comes')} from other studies."
        )
    if done.n_excluded:
        how = "included as requested" if include_excluded else "excluded"
        print(
            f"  {count_of(done.n_excluded, 'session')} {verb(done.n_excluded, 'violates')} a rule"
            f" and {verb(done.n_excluded, 'is')} {how}: see exclusions.csv."
        )
    if done.n_left_out:
        print(
            f"  {count_of(done.n_left_out, 'trial')} {verb(done.n_left_out, 'is')} excluded: see"
            " the column trial_left_out in trials.csv."
        )
    for step in done.flow:
        name = f"{step.step}: {step.rule}" if step.rule else step.step
        print(f"  {name}: {step.count:,}")
    if not done.kept:
        print("  No responses are included yet, so there is no human reference.")
    elif folder.config.kind == "same-different":
        print(f"  eyechart humans similar {done.out}")
    else:
        print(f"  eyechart evaluate --humans {shlex.quote(str(done.out))} …")


BUDGET = "Budget"
HOURLY_PAY = 12.0


@examples(
    "eyechart experiment payments study --out payments.csv",
    "eyechart experiment payments study --reward 1.00 --bonus 0.60",
)
@derived_options
def payments(
    study: StudyPath,
    pay: Annotated[
        float, Option(help="Hourly pay, from which the reward follows.", group=BUDGET, minimum=0)
    ] = HOURLY_PAY,
    reward: Annotated[
        float | None,
        Option(
            help="Pay of every session that reaches an end, also without qualifying; overrides"
            " --pay.",
            group=BUDGET,
            minimum=0,
        ),
    ] = None,
    bonus: Annotated[
        float, Option(help="Additional pay of finished sessions.", group=BUDGET, minimum=0)
    ] = 0.0,
    currency: Annotated[str, Option(help="Currency of all amounts.", group=BUDGET)] = "USD",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV file, readable by you only; printed if omitted."),
    ] = None,
) -> None:
    """List every session: platform id, completion code, outcome, minutes and amount."""
    from eyechart.cli.shared.output_files import check_file_to_write
    from eyechart.core.csv_table import csv_text
    from eyechart_experiment.payments import CENT, HEAD, PayRates, read_payments, usual_rates
    from eyechart_experiment.storage.experiment_folder import write_private

    with connect(study) as opened:
        if out is not None:
            check_file_to_write(out)
        usual = usual_rates(opened.config, pay, currency)
        # A reward that is typed is everybody's, also of those who fail.
        rates = PayRates(
            reward=usual.reward if reward is None else Decimal(str(reward)).quantize(CENT),
            bonus=Decimal(str(bonus)).quantize(CENT),
            currency=currency,
            failed=usual.failed if reward is None else None,
        )
        rows = read_payments(opened, rates, datetime.now(UTC))
    cells = (dict(zip(HEAD, row.cells(), strict=True)) for row in rows)
    text = csv_text(cells, HEAD)
    if out is None:
        sys.stdout.write(text)
        return
    write_private(out, text)
    total = sum((row.amount for row in rows), Decimal(0))
    currency = rows[0].currency if rows else ""
    sessions = count_of(len(rows), "session")
    print(f"{out}: {sessions}, {total:,.2f} {currency} without the platform's fee.")


@examples(
    "eyechart experiment verify study K7MQ2XWP",
    "eyechart experiment verify study K7MQ2XWP 3HRT9AAB",
)
def verify(
    study: StudyPath,
    codes: Annotated[list[str], typer.Argument(metavar="CODE", help="Completion codes.")],
) -> None:
    """Say which session a completion code belongs to and how it ended; exit with 1 if none."""
    from eyechart_experiment.payments import find_code, read_payments, usual_rates
    from eyechart_experiment.recruiters import platform_title
    from eyechart_experiment.storage.withdrawal import withdrawn_at

    with connect(study) as opened:
        rates = usual_rates(opened.config, HOURLY_PAY)
        rows = read_payments(opened, rates, datetime.now(UTC))
    unknown = 0
    for code in codes:
        payment = find_code(rows, code)
        if payment is None:
            unknown += 1
            moment = withdrawn_at(opened.folder, code.strip().upper())
            reason = "not a completion code of this study"
            if moment is not None:
                reason = f"the participant withdrew on {moment:%Y-%m-%d}, and the data were deleted"
            print(f"{code}: {reason}.")
            continue
        broken = f", violates {' and '.join(payment.excluded_by)}" if payment.excluded_by else ""
        print(
            f"{code}: {payment.outcome}, participant {payment.participant} from"
            f" {platform_title(payment.platform)}, {payment.minutes:.1f} minutes{broken}."
        )
    if unknown:
        raise Stop(f"{unknown} of {len(codes)} codes are not valid.", status=1)
