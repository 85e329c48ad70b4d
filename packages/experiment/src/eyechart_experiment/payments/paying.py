"""Pay through the platforms: plan the steps, then print them or carry them out one by one.

The ledger of a study records what was sent to a platform, so that nobody is paid twice. A line is
written before a request is sent and another one after its reply. If the reply is lost, the first
one remains.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal

from eyechart.core.errors import UsageError
from eyechart.core.storage.locks import lock_file
from eyechart_experiment.payments.payment_list import OUTCOMES, Payment, PayRates, find_code
from eyechart_experiment.recruiters.api.platform_api import (
    ApiRequest,
    Listing,
    PayAction,
    Payee,
    PlatformApi,
)
from eyechart_experiment.recruiters.api.sending import ApiAccount, NoReply
from eyechart_experiment.storage.experiment_folder import append_private

BONUS_REASON = "Thank you for finishing the study."

FILE = "payments.jsonl"
CREATED = ("create", "done")
Action = PayAction | Literal["create"]
Entry = Mapping[str, object]
StepState = Literal["sent", "done", "failed"]


@dataclass(frozen=True)
class Ledger:
    """The ledger in a study's folder, for one platform's address."""

    path: Path
    url: str

    def state(self, action: Action, participant: str) -> StepState | None:
        """Return the last known state of a step; "sent" if its reply never arrived."""
        entry = self._last(action, participant)
        return None if entry is None else entry["state"]  # type: ignore[return-value]

    def listing(self) -> Entry | None:
        """Return what was recorded about the newest listing on the platform, if there is one."""
        # A listing belongs to the study and not to a participant, hence the empty name.
        entry = self._last("create", "")
        return entry if entry is not None and entry["state"] == "done" else None

    def write(
        self, action: Action, participant: str, state: StepState, **more: str | int | float
    ) -> None:
        """Add a line, on disk before this returns."""
        entry = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "url": self.url,
            "action": action,
            "participant": participant,
            "state": state,
            **more,
        }
        # On disk: after a power failure, a request that was sent must not look as if it never was.
        append_private(self.path, json.dumps(entry))

    def _last(self, action: Action, participant: str) -> Entry | None:
        # By address too: a trial in the sandbox must not count as paid.
        steps = (
            entry
            for entry in _read(self.path)
            if (entry["url"], entry["action"], entry["participant"])
            == (self.url, action, participant)
        )
        return next(reversed(list(steps)), None)


def _read(path: Path) -> list[Entry]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except FileNotFoundError:
        return []
    # A damaged line is not skipped: it may be the record of a payment.
    except (OSError, ValueError):
        raise UsageError(
            f"{path} cannot be read: restore it from a backup before anybody is paid."
        ) from None


def open_ledger(study: Path, url: str) -> Ledger:
    """Return the ledger of a study for the platform at this address."""
    return Ledger(study / FILE, url)


def newest_listing(study: Path) -> Entry | None:
    """Return what was recorded about the newest listing on any platform, if there is one."""
    entries = _read(study / FILE)
    listings = (entry for entry in entries if (entry["action"], entry["state"]) == CREATED)
    return next(reversed(list(listings)), None)


@dataclass(frozen=True)
class PayStep:
    """One step of the payment of one participant, with the requests that it takes.

    `look_up`: the request that asks the platform whether the step was carried out, if it has one.
    """

    action: PayAction
    participant: str
    requests: tuple[ApiRequest, ...]
    look_up: ApiRequest | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether the step can be repeated without effect, or only if it was not carried out."""
        return self.look_up is not None or all(request.is_repeatable for request in self.requests)


def payment_steps(
    api: PlatformApi, payments: Iterable[Payment], rates: PayRates, is_listed: bool
) -> Iterator[PayStep]:
    """Yield the steps that pay all sessions with an outcome: approval, then the bonus.

    `is_listed`: whether `create_listing` has listed the study with these rates. If not, approval
    pays what the platform offers, also to those who failed.
    """
    for payment in payments:
        payee = payment.payee
        # Without ids, the platform cannot be told whom to pay.
        if payment.outcome not in OUTCOMES or not payee.ids:
            continue
        bonus = rates.bonus if payment.outcome == "finished" else Decimal(0)
        if is_listed and rates.failed is not None:
            if api.pays_by_code and payment.outcome == "failed":
                continue
            if not api.pays_by_code:
                # The reward of the listing is what those earn who fail.
                bonus = rates.amount(payment.outcome) - rates.failed
        yield _step(api, "approve", payee, api.approve(payee))
        if bonus:
            yield _step(api, "bonus", payee, api.bonus(payee, bonus, BONUS_REASON))


def _step(
    api: PlatformApi, action: PayAction, payee: Payee, requests: tuple[ApiRequest, ...]
) -> PayStep:
    return PayStep(action, payee.participant, requests, api.look_up(action, payee))


def find_sessions(payments: Sequence[Payment], names: Sequence[str]) -> list[Payment]:
    """Return the sessions with these completion codes or participant codes.

    Raises:
        UsageError: If there is no such session, or its platform ids were deleted.
    """
    by_participant = {payment.payee.participant: payment for payment in payments}
    chosen = []
    # All names are checked first: one wrong name must not leave a list half sent.
    for name in names:
        payment = find_code(payments, name) or by_participant.get(name.strip().upper())
        if payment is None:
            raise UsageError(f"No session has the code '{name}': nothing is sent.")
        if not payment.payee.ids:
            raise UsageError(f"{name} has no platform ids (any more): nothing is sent.")
        chosen.append(payment)
    return chosen


def rejection_steps(
    api: PlatformApi, payments: Iterable[Payment], reason: str
) -> Iterator[PayStep]:
    """Yield the steps that reject sessions; participants read the reason."""
    if not reason.strip():
        raise UsageError("A rejection needs a reason, which the participant reads: pass --reason.")
    for payment in payments:
        requests = api.reject(payment.payee, reason.strip())
        yield _step(api, "reject", payment.payee, requests)


def open_steps(ledger: Ledger, steps: Iterable[PayStep]) -> tuple[list[PayStep], list[PayStep]]:
    """Return the steps still to do, and those whose reply was lost and that cannot be repeated."""
    to_do: list[PayStep] = []
    unknown: list[PayStep] = []
    for step in steps:
        state = ledger.state(step.action, step.participant)
        # Whoever was rejected is not paid, and whoever was approved is not rejected.
        other: PayAction = "approve" if step.action == "reject" else "reject"
        if state == "done" or ledger.state(other, step.participant) == "done":
            continue
        # A lost reply leaves open whether money was moved; only a human can look that up.
        is_lost = state == "sent" and not step.is_repeatable
        (unknown if is_lost else to_do).append(step)
    return to_do, unknown


def carry_out(account: ApiAccount, ledger: Ledger, steps: Sequence[PayStep]) -> Iterator[str]:
    """Send steps one after the other; yield a line for each.

    A step that the platform rejects does not stop the others; a lost reply does. Before a step is
    sent again, the platform is asked whether it was carried out.
    """
    # Two processes that pay at the same time would both find a step open.
    with lock_file(ledger.path):
        # Compared with the ledger again: another process may have paid before the lock was free.
        for step in open_steps(ledger, steps)[0]:
            try:
                if _was_carried_out(account, ledger, step):
                    ledger.write(step.action, step.participant, "done")
                    yield f"{step.action} {step.participant}: had been done before"
                    continue
            except NoReply:
                raise
            except UsageError as error:
                # Not recorded as failed: nothing was sent, and the earlier record still holds.
                yield f"{step.action} {step.participant}: {error}"
                continue
            ledger.write(step.action, step.participant, "sent")
            try:
                account.send(step.requests)
            # Before its base class UsageError: a step recorded as failed would be sent again.
            except NoReply:
                raise
            except UsageError as error:
                ledger.write(step.action, step.participant, "failed")
                yield f"{step.action} {step.participant}: {error}"
                continue
            ledger.write(step.action, step.participant, "done")
            yield f"{step.action} {step.participant}: done"


def _was_carried_out(account: ApiAccount, ledger: Ledger, step: PayStep) -> bool:
    """Ask the platform about a step that was sent before, with a lost reply or without success."""
    if step.look_up is None or ledger.state(step.action, step.participant) is None:
        return False
    return account.api.is_done(step.action, account.send((step.look_up,)))


def create_listing(
    account: ApiAccount, ledger: Ledger, listing: Listing, currency: str, publish: bool
) -> str:
    """List a study on a platform, record it in the ledger, and return its id there."""
    api = account.api
    with lock_file(ledger.path):
        requests = api.create(listing)
        is_repeatable = all(request.is_repeatable for request in requests)
        if ledger.state("create", "") == "sent" and not is_repeatable:
            raise UsageError(
                f"The reply to an earlier attempt was lost: check on {ledger.url} whether the study"
                f" is listed, then remove the last line of {ledger.path.name}."
            )
        ledger.write("create", "", "sent")
        try:
            reply = account.send(requests)
        except NoReply:
            raise
        except UsageError:
            ledger.write("create", "", "failed")
            raise
        listing_id = api.listing_id(reply)
        # As text, because JSON has no decimal numbers and floats do not keep exact cents.
        rates = {"reward": str(listing.reward), "bonus": str(listing.bonus), "currency": currency}
        if listing.failed is not None:
            rates["failed"] = str(listing.failed)
        ledger.write("create", "", "done", id=listing_id, places=listing.places, **rates)
        # After the id is on record: a failure here leaves a listing that can still be found.
        if publish:
            account.send(api.publish(), listing_id)
    return listing_id
