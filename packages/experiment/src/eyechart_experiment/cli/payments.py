"""`eyechart experiment payments` and `verify`: what sessions earn, and whose a code is."""

import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import derived_options, examples
from eyechart.cli.shared.stop import Stop
from eyechart.core.options import Option
from eyechart.core.phrases import count_of
from eyechart_experiment.cli.serve import StudyPath

if TYPE_CHECKING:
    from eyechart_experiment.payments import Payment, PayRates
    from eyechart_experiment.storage.experiment_folder import StudyFolder

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
    from eyechart_experiment.payments import CENT, HEAD, PayRates, usual_rates
    from eyechart_experiment.storage.experiment_folder import open_study, write_private

    folder = open_study(study)
    if out is not None:
        check_file_to_write(out)
    usual = usual_rates(folder.config, pay, currency)
    # A reward that is typed is everybody's, also of those who fail.
    rates = PayRates(
        reward=usual.reward if reward is None else Decimal(str(reward)).quantize(CENT),
        bonus=Decimal(str(bonus)).quantize(CENT),
        currency=currency,
        failed=usual.failed if reward is None else None,
    )
    rows = _read(folder, rates)
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
    from eyechart_experiment.payments import find_code, usual_rates
    from eyechart_experiment.storage.experiment_folder import open_study
    from eyechart_experiment.storage.withdrawal import withdrawn_at

    folder = open_study(study)
    rows = _read(folder, usual_rates(folder.config, HOURLY_PAY))
    unknown = 0
    for code in codes:
        payment = find_code(rows, code)
        if payment is None:
            unknown += 1
            moment = withdrawn_at(folder, code.strip().upper())
            reason = "not a completion code of this study"
            if moment is not None:
                reason = f"the participant withdrew on {moment:%Y-%m-%d}, and the data were deleted"
            print(f"{code}: {reason}.")
            continue
        broken = f", violates {' and '.join(payment.excluded_by)}" if payment.excluded_by else ""
        print(
            f"{code}: {payment.outcome}, participant {payment.participant} from"
            f" {payment.platform_title}, {payment.minutes:.1f} minutes{broken}."
        )
    if unknown:
        raise Stop(f"{unknown} of {len(codes)} codes are not valid.", status=1)


def _read(folder: "StudyFolder", rates: "PayRates") -> "list[Payment]":
    from datetime import UTC, datetime

    from eyechart_experiment.payments import read_payments
    from eyechart_experiment.storage.experiment_folder import connect_study

    with connect_study(folder) as opened:
        return read_payments(opened, rates, datetime.now(UTC))
