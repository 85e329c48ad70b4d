"""The status page of a running study.

It needs the study's status token, as the password of HTTP's basic authentication or as a bearer
token. It never is part of an address, which would end up in histories and logs.
"""

import base64
import binascii
import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from threading import Lock
from time import monotonic

from fastapi import FastAPI, Request
from fastapi.responses import Response
from jinja2 import Environment

from eyechart_experiment.design.budget import Prices
from eyechart_experiment.monitoring.study_monitor import StudyMonitor, read_monitor
from eyechart_experiment.payments.paying import newest_listing
from eyechart_experiment.payments.payment_list import listed_rates, usual_rates
from eyechart_experiment.server.problems import problem
from eyechart_experiment.storage.experiment_folder import OpenStudy
from eyechart_experiment.storage.tokens import status_token

FRESH_S = 10.0
"""Seconds for which a reading is shown again, so that watching costs little."""

Read = Callable[[], StudyMonitor]


def add_status_routes(app: FastAPI, study: OpenStudy, prices: Prices | None = None) -> None:
    """Add the status page to a study's server."""
    read = _kept(_reader(study, prices or Prices()))
    token = status_token(study.secret)

    # Plain functions and not coroutines: FastAPI runs them in threads, so that waiting for the
    # database or for the lock does not hold up participants.
    @app.get("/status", include_in_schema=False)
    def status_page(request: Request) -> Response:
        """Return the page."""
        return _locked(request, token) or Response(page_html(read()), media_type="text/html")

    @app.get("/status.css", include_in_schema=False)
    def status_style() -> Response:
        """Return the page's style sheet, which has nothing to hide."""
        return Response(_file("status.css"), media_type="text/css")


def page_html(monitor: StudyMonitor) -> str:
    """Return the status page."""
    # Names of studies and rules are escaped.
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return template.from_string(_file("status.html")).render(m=monitor, peak=max(monitor.hourly))


def _reader(study: OpenStudy, prices: Prices) -> Read:
    def read() -> StudyMonitor:
        listing = newest_listing(study.folder.path)
        # What was listed is what is owed; the planned pay only stands in before that.
        usual = usual_rates(study.config, prices.pay, prices.currency)
        rates = listed_rates(listing) if listing else usual
        now = datetime.now(UTC)
        return read_monitor(study, rates, now, prices.fee_fraction, prices.fee_text)

    return read


def _kept(read: Read) -> Read:
    """Return a reader that reads at most every `FRESH_S` seconds."""
    lock = Lock()
    # A list of at most one reading, which the closure can replace without nonlocal.
    known: list[tuple[float, StudyMonitor]] = []

    def fresh() -> StudyMonitor:
        # Waiting requests get the reading for which they wait.
        with lock:
            # Not the wall clock, which may be set back.
            if not known or monotonic() - known[0][0] > FRESH_S:
                known[:] = [(monotonic(), read())]
            return known[0][1]

    return fresh


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
