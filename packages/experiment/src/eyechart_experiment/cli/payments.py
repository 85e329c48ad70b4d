"""`eyechart experiment payments`, `verify`, `recruit` and `pay`: pay participants fairly."""

import sys
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.stop import Stop
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.phrases import count_of
from eyechart.core.registry import one_of, unknown_name
from eyechart_experiment.cli.serve import StudyPath
from eyechart_experiment.recruiters import RECRUITERS, platform_warnings

if TYPE_CHECKING:
    from eyechart_experiment.payments.payment_list import Payment, PayRates
    from eyechart_experiment.recruiters.api.platform_api import Listing, PlatformApi
    from eyechart_experiment.recruiters.api.sending import ApiAccount
    from eyechart_experiment.storage.experiment_folder import StudyFolder

BUDGET, SERVER, STUDY = "Budget", "Server", "Study"
WITH_API = {site.name: site.api for site in RECRUITERS.values() if site.api is not None}


@dataclass(frozen=True, kw_only=True)
class PayOptions:
    """What participants earn."""

    pay: Annotated[
        float, Option(help="Hourly pay, from which the reward follows.", group=BUDGET, minimum=0)
    ] = 12.0
    reward: Annotated[
        float | None,
        Option(
            help="Pay of every session that reaches an end, also without qualifying; overrides"
            " --pay.",
            group=BUDGET,
            minimum=0,
        ),
    ] = None
    bonus: Annotated[
        float | None,
        Option(help="Additional pay of finished sessions.", group=BUDGET, minimum=0),
    ] = None
    currency: Annotated[
        str | None, Option(help="Currency; USD unless a listing has another one.", group=BUDGET)
    ] = None

    def rates(self, folder: "StudyFolder", url: str = "") -> "PayRates":
        """Return the rates: those given, or else those of the study's listing at this address."""
        from eyechart_experiment.payments.paying import newest_listing, open_ledger
        from eyechart_experiment.payments.payment_list import (
            CENT,
            PayRates,
            listed_rates,
            usual_rates,
        )

        path = folder.path
        listing = open_ledger(path, url).listing() if url else newest_listing(path)
        usual = usual_rates(folder.config, self.pay)
        known = usual if listing is None else listed_rates(listing)
        # A reward that is typed is everybody's, unless participants were offered something else.
        failed = None if listing is None and self.reward is not None else known.failed
        reward, bonus = (
            default if amount is None else Decimal(str(amount)).quantize(CENT)
            for amount, default in ((self.reward, known.reward), (self.bonus, known.bonus))
        )
        return PayRates(reward, bonus, self.currency or known.currency, failed)


@dataclass(frozen=True, kw_only=True)
class AccountOptions:
    """The account with which requests are sent."""

    dry_run: Annotated[
        bool, Option(help="Print the requests instead of sending them.", group=SERVER)
    ] = False
    sandbox: Annotated[
        bool, Option(help="Use the platform's sandbox, without money.", group=SERVER)
    ] = False
    credentials: Annotated[
        Path | None,
        Option(
            help="Private file (mode 600) with the account's credentials; environment variables"
            " are used if omitted.",
            group=SERVER,
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    api_url: Annotated[
        str | None,
        Option(
            help="For tests: a host that replaces the platform.", group=SERVER, is_advanced=True
        ),
    ] = None

    def url(self, api: "PlatformApi") -> str:
        """Return the address to which requests go."""
        return self.api_url or (api.sandbox_url if self.sandbox else api.url)

    def account(self, api: "PlatformApi", study: Path) -> "ApiAccount":
        """Return the account on a platform."""
        from eyechart_experiment.recruiters.api.sending import open_account

        return open_account(
            api, file=self.credentials, study=study, is_sandbox=self.sandbox, url=self.api_url
        )


@examples(
    "eyechart experiment payments study --out payments.csv",
    "eyechart experiment payments study --reward 1.00 --bonus 0.60",
)
@derived_options
def payments(
    study: StudyPath,
    options: PayOptions,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV file, readable by you only; printed if omitted."),
    ] = None,
) -> None:
    """List every session: platform id, completion code, outcome, minutes and amount."""
    from eyechart.cli.shared.output_files import check_file_to_write
    from eyechart.core.csv_table import csv_text
    from eyechart_experiment.payments.payment_list import HEAD
    from eyechart_experiment.storage.experiment_folder import open_study, write_private

    folder = open_study(study)
    if out is not None:
        check_file_to_write(out)
    rows = _read(folder, options)
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
    from eyechart_experiment.payments.payment_list import find_code
    from eyechart_experiment.storage.experiment_folder import open_study
    from eyechart_experiment.storage.withdrawal import withdrawn_at

    folder = open_study(study)
    rows = _read(folder, PayOptions())
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
            f"{code}: {payment.outcome}, participant {payment.payee.participant} from"
            f" {payment.platform_title}, {payment.minutes:.1f} minutes{broken}."
        )
    if unknown:
        raise Stop(f"{unknown} of {len(codes)} codes are not valid.", status=1)


@dataclass(frozen=True, kw_only=True)
class ListingOptions:
    """How a study is offered on a platform."""

    url: Annotated[
        str, Option(help="Public address of the server, such as https://lab.example.org.",
                    group=SERVER),
    ]  # fmt: skip
    places: Annotated[
        int, Option(help="Maximum number of participants.", group=STUDY, minimum=1, maximum=10_000)
    ]
    description: Annotated[
        str | None,
        Option(help="What the study is about; a default text if omitted.", group=STUDY),
    ] = None
    days: Annotated[
        int,
        Option(help="Days for which the study is offered.", group=STUDY, minimum=1, maximum=365),
    ] = 7
    publish: Annotated[
        bool, Option(help="Open the listing at once instead of leaving a draft.", group=STUDY)
    ] = False


@examples(
    "eyechart experiment recruit study prolific --url https://a.org --places 50",
    "eyechart experiment recruit study mturk --url https://a.org --places 9",
)
@derived_options
def recruit(
    study: StudyPath,
    platform: Annotated[str, typer.Argument(help=f"Platform: {one_of(WITH_API)}.")],
    options: ListingOptions,
    pay_options: PayOptions,
    account: AccountOptions,
) -> None:
    """List a study on a recruitment platform with its places, reward and bonus."""
    from eyechart_experiment.payments.paying import create_listing, open_ledger
    from eyechart_experiment.recruiters.api.sending import request_text
    from eyechart_experiment.storage.experiment_folder import open_study

    if platform not in WITH_API:
        raise unknown_name("platform", platform, WITH_API)
    api, folder = WITH_API[platform], open_study(study)
    rates = pay_options.rates(folder)
    listing = _listing(folder, options, rates, api)
    for warning in platform_warnings(folder.config.recruiter_settings):
        print(f"Note: {warning}")
    if account.dry_run:
        requests = api.create(listing) + (api.publish() if options.publish else ())
        print(request_text(api, requests, account.url(api)))
        return
    opened = account.account(api, folder.path)
    ledger = open_ledger(folder.path, opened.url)
    listing_id = create_listing(opened, ledger, listing, rates.currency, options.publish)
    how = "open" if options.publish or not api.publish() else "a draft, to be opened there"
    print(f"{listing_id} on {RECRUITERS[platform].title}: {how}; {options.places} places.")


@examples(
    "eyechart experiment pay study --dry-run",
    "eyechart experiment pay study --bonus 0.60 --credentials ~/.config/mturk",
)
@derived_options
def pay(
    study: StudyPath,
    options: PayOptions,
    account: AccountOptions,
    reject: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE", help="Reject this session instead; repeatable."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for the participant to read.")] = "",
) -> None:
    """Approve all sessions that ended and pay bonuses, or reject some; never twice."""
    from eyechart_experiment.payments import paying
    from eyechart_experiment.payments.paying import open_ledger
    from eyechart_experiment.recruiters.api.sending import request_text
    from eyechart_experiment.storage.experiment_folder import open_study

    folder = open_study(study)
    every = _read(folder, options)
    chosen = paying.find_sessions(every, reject) if reject else every
    count = 0
    for name, api in WITH_API.items():
        url = account.url(api)
        rows = [row for row in chosen if row.platform == name]
        if not rows:
            continue
        ledger = open_ledger(folder.path, url)
        if reject:
            planned = list(paying.rejection_steps(api, rows, reason))
        else:
            rates = options.rates(folder, url)
            is_listed = ledger.listing() is not None
            planned = list(paying.payment_steps(api, rows, rates, is_listed))
        steps, unknown = paying.open_steps(ledger, planned)
        count += len(steps)
        for step in unknown:
            print(
                f"Note: the reply to {step.action} {step.participant} was lost: check on the"
                " platform; it is not sent again."
            )
        if account.dry_run:
            for step in steps:
                print(request_text(api, step.requests, url))
        elif steps:
            opened = account.account(api, folder.path)
            for line in paying.carry_out(opened, ledger, steps):
                print(line, flush=True)
    verb = "would be sent" if account.dry_run else "were open"
    print(f"{count} steps {verb}.")


def _read(folder: "StudyFolder", options: PayOptions) -> "list[Payment]":
    from datetime import UTC, datetime

    from eyechart_experiment.payments.payment_list import read_payments
    from eyechart_experiment.storage.experiment_folder import connect_study

    with connect_study(folder) as opened:
        return read_payments(opened, options.rates(folder), datetime.now(UTC))


def _listing(
    folder: "StudyFolder", options: ListingOptions, rates: "PayRates", api: "PlatformApi"
) -> "Listing":
    import math

    from eyechart_experiment.recruiters.api.platform_api import Listing
    from eyechart_experiment.recruiters.recruiter import origin

    if origin(options.url) is None or not options.url.startswith("https://"):
        raise UsageError(
            f"--url must be the server's public address, such as https://lab.example.org, got"
            f" {options.url}."
        )
    config = folder.config
    minutes = config.minutes
    text = options.description or (
        f"Look at images and say what you see. Takes about {minutes} minutes, on a computer with a"
        " keyboard or a mouse."
    )
    bonus = rates.bonus
    if rates.failed is not None and not api.pays_by_code:
        bonus += rates.reward - rates.failed
    if bonus:
        text += f" Finishing earns a bonus of {bonus:.2f} {rates.currency}."
    return Listing(
        name=config.name,
        title=config.title,
        description=text,
        address=f"{options.url.rstrip('/')}/s/{config.name}",
        places=options.places,
        minutes=minutes,
        # A session's token is valid for so long.
        max_minutes=math.ceil(config.token_minutes),
        days=options.days,
        reward=rates.reward,
        bonus=rates.bonus,
        settings=config.recruiter_settings,
        failed=rates.failed,
    )
