"""The status page: how a running study is doing, by few and quick queries.

The page needs the study's status token, as the password of HTTP's basic authentication or as a
bearer token. It never is part of an address, which would end up in histories and logs.
"""

import base64
import binascii
import hmac
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib.resources import files
from statistics import median
from threading import Lock
from typing import get_args

from cachetools import TTLCache, cached
from fastapi import FastAPI, Request
from fastapi.responses import Response
from jinja2 import Environment
from sqlalchemy import func, select
from sqlalchemy.orm import Session as Db

from eyechart_experiment.design.budget import Prices
from eyechart_experiment.payments import (
    PayRates,
    SessionOutcome,
    read_payments,
    usual_rates,
)
from eyechart_experiment.server.request_limits import problem
from eyechart_experiment.storage.database_tables import (
    ResponseRow,
    SessionRow,
    StudyRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy
from eyechart_experiment.storage.stimulus_counts import group_stimuli, main_stimuli
from eyechart_experiment.storage.tokens import status_token

HOURS = 24
NEWEST = 2000
"""Number of the newest main responses from which the timing is judged."""


def read_monitor(
    study: OpenStudy, rates: PayRates, now: datetime, fee: float = 0.0, fee_text: str = ""
) -> dict[str, object]:
    """Return how a study is doing, as the values of the page; nothing is written.

    Args:
        study: The study.
        rates: What sessions earn.
        now: The current time.
        fee: The platform's fee, as a fraction of the pay.
        fee_text: The fee in words, with its source.
    """
    payments = read_payments(study, rates, now)
    with study.database.reading() as db:
        status = db.scalar(select(StudyRow.status).where(StudyRow.id == study.id))
        stimuli = main_stimuli(db, study.id)
        hourly = _hourly(db, study.id, now)
        newest = _newest_flags(db, study.id)
        # Measured rates scatter: 59.9 and 60.1 Hz are the same kind of screen.
        rounded = func.round(SessionRow.hz)
        rates_hz = (
            select(rounded, func.count())
            .where(SessionRow.study_id == study.id, SessionRow.hz.is_not(None))
            .group_by(rounded)
        )
        refresh_hz = {int(hz): n for hz, n in sorted(db.execute(rates_hz).all())}
    # A stimulus with too many responses must not make up for one that lacks some.
    groups = group_stimuli(stimuli, {row.id: min(row.taken, row.capacity or 0) for row in stimuli})
    n_responses = sum(group.n_responses for group in groups)
    wanted = sum(group.wanted for group in groups)
    pay = sum((payment.amount for payment in payments), Decimal(0))
    outcomes = Counter(payment.outcome for payment in payments)
    broken = Counter(rule for payment in payments for rule in payment.excluded_by)
    finished = [payment.minutes for payment in payments if payment.outcome == "finished"]
    return {
        "name": study.config.name,
        "title": study.config.title,
        "is_open": status == "open",
        "now": now,
        "outcomes": {name: outcomes[name] for name in get_args(SessionOutcome)},
        # Sessions by the quality rule that they violate.
        "excluded": dict(broken.most_common()),
        "groups": groups,
        # Responses that are there or on their way.
        "taken": n_responses,
        "wanted": wanted,
        # Main stimuli by how many responses they have.
        "filled": dict(sorted(Counter(row.taken for row in stimuli).items())),
        # Responses in each of the last hours, the newest last.
        "hourly": hourly,
        "peak": max(hourly),
        "minutes": median(finished) if finished else None,
        # The last hour and not the mean of all: the pace changes when a listing opens or pauses.
        "hours_left": (wanted - n_responses) / hourly[-1] if hourly[-1] else None,
        # By way of text: 0.333 as a float has a long tail of binary digits.
        "cost": pay * (1 + Decimal(str(fee))),
        "currency": rates.currency,
        "fee_text": fee_text,
        "n_newest": len(newest),
        "flagged": sum("timing" in flags for flags in newest) / len(newest) if newest else None,
        # Participants by the refresh rate of their screen.
        "refresh_hz": refresh_hz,
    }


def _hourly(db: Db, study_id: int, now: datetime) -> tuple[int, ...]:
    """Return the number of main responses per hour, the newest hour last."""
    moments = db.scalars(
        select(ResponseRow.received_at)
        .join(TrialRow, TrialRow.id == ResponseRow.trial_id)
        .join(SessionRow, SessionRow.id == TrialRow.session_id)
        .where(
            SessionRow.study_id == study_id,
            TrialRow.role == "main",
            ResponseRow.received_at > now - timedelta(hours=HOURS),
        )
    )
    # A response that arrived after `now` has the age -1, which no hour below asks for.
    ages = Counter(int((now - moment).total_seconds() // 3600) for moment in moments)
    return tuple(ages[hour] for hour in reversed(range(HOURS)))


def _newest_flags(db: Db, study_id: int) -> Sequence[Sequence[str]]:
    """Return the flags of the newest main responses."""
    return db.scalars(
        select(ResponseRow.flags)
        .join(TrialRow, TrialRow.id == ResponseRow.trial_id)
        .join(SessionRow, SessionRow.id == TrialRow.session_id)
        .where(SessionRow.study_id == study_id, TrialRow.role == "main")
        # The primary key grows with time, and its index makes a sort unnecessary.
        .order_by(ResponseRow.trial_id.desc())
        .limit(NEWEST)
    ).all()


FRESH_S = 10.0
"""Seconds for which a reading is shown again, so that watching costs little."""


def add_status_routes(app: FastAPI, study: OpenStudy, prices: Prices) -> None:
    """Add the status page to a study's server."""
    token, lock = status_token(study.secret), Lock()

    @cached(TTLCache(maxsize=1, ttl=FRESH_S))
    def read() -> Mapping[str, object]:
        rates = usual_rates(study.config, prices.pay, prices.currency)
        now = datetime.now(UTC)
        return read_monitor(study, rates, now, prices.fee_fraction, prices.fee_text)

    # Plain functions and not coroutines: FastAPI runs them in threads, so that waiting for the
    # database or for the lock does not hold up participants.
    @app.get("/status", include_in_schema=False)
    def status_page(request: Request) -> Response:
        """Return the page."""
        rejected = _locked(request, token)
        if rejected is not None:
            return rejected
        # Waiting requests get the reading for which they wait.
        with lock:
            monitor = read()
        return Response(page_html(monitor), media_type="text/html")

    @app.get("/status.css", include_in_schema=False)
    def status_style() -> Response:
        """Return the page's style sheet, which has nothing to hide."""
        return Response(_file("status.css"), media_type="text/css")


def page_html(monitor: Mapping[str, object]) -> str:
    """Return the status page."""
    # Names of studies and rules are escaped.
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return template.from_string(_file("status.html")).render(monitor)


def _locked(request: Request, token: str) -> Response | None:
    """Return the reply to a request without the token; None if it has the token."""
    kind, _, sent = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            # Any user name will do. The password is all that follows the first colon (RFC 7617).
            sent = base64.b64decode(sent, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            sent = ""
    # In constant time, and as bytes: for text, compare_digest accepts ASCII only.
    if hmac.compare_digest(sent.encode(), token.encode()):
        return None
    rejected = problem(401, "no_token", "The status token is needed: eyechart experiment status"
                       " STUDY --token prints it.")  # fmt: skip
    # Without this header, a browser does not ask for the password.
    rejected.headers["www-authenticate"] = 'Basic realm="status", charset="UTF-8"'
    return rejected


@cache
def _file(name: str) -> str:
    return (files("eyechart_experiment") / "pages" / name).read_text(encoding="utf-8")
