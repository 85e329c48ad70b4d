"""Limits on the size, rate and duration of requests, headers of every reply, and error replies.

Errors have one format: a code for the page and a sentence that echoes no user input. Each server
error is logged as one line.
"""

import asyncio
import logging
import re
import time
from dataclasses import dataclass, field
from threading import Lock

from cachetools import LRUCache
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import NoResultFound, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from eyechart.core.errors import UsageError
from eyechart_experiment.recruiters import RECRUITERS
from eyechart_experiment.server.sessions import Rejection
from eyechart_experiment.storage.tokens import token_hash

LOG = logging.getLogger("eyechart_experiment")
PLAIN = re.compile(r"[A-Za-z_]{1,32}")
"""Pattern of field names that may be echoed; any other name is replaced by "?"."""

CODES = {404: "no_page", 405: "no_method"}


def problem(status: int, code: str, message: str) -> JSONResponse:
    """Return an error reply."""
    response = JSONResponse({"code": code, "message": message}, status)
    # HTTP requires this header with status 401.
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


def explain_problems(app: FastAPI) -> None:
    """Register handlers that report every rejected request and server error in the same format."""

    # None of these handlers blocks, so they are async and need none of the server's few threads.
    @app.exception_handler(Rejection)
    async def rejected(request: Request, error: Rejection) -> JSONResponse:
        return problem(error.status, error.code, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(
            str(part) if isinstance(part, int) or PLAIN.fullmatch(part) else "?"
            for part in first["loc"]
        )
        return problem(422, "bad_request", f"{where}: {first['msg']}.")

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> JSONResponse:
        # FastAPI rejects a body that it cannot read with 400, but invalid fields with 422.
        if error.status_code == 400:
            return problem(422, "bad_request", "The body must be valid JSON.")
        code = CODES.get(error.status_code, "bad_request")
        response = problem(error.status_code, code, f"{error.detail}.")
        # Such as Allow, which HTTP requires with status 405.
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(NoResultFound)
    async def deleted(request: Request, error: NoResultFound) -> JSONResponse:
        # The participant was withdrawn while this request was being processed.
        return problem(401, "deleted", "The session was deleted.")

    @app.exception_handler(UsageError)
    async def unusable(request: Request, error: UsageError) -> JSONResponse:
        return _trouble(str(error))

    @app.exception_handler(OperationalError)
    async def unreachable(request: Request, error: OperationalError) -> JSONResponse:
        # Messages of a driver can have several lines, and an error is one line of the log.
        return _trouble(f"The database does not respond: {' '.join(str(error.orig).split())}.")

    @app.exception_handler(NoConnection)
    async def busy(request: Request, error: NoConnection) -> JSONResponse:
        return _trouble("All database connections are in use.")


def _trouble(message: str) -> JSONResponse:
    LOG.error(message)
    response = problem(503, "trouble", "The server has a problem: try again in a moment.")
    response.headers["retry-after"] = "5"
    return response


MAX_BYTES = 16_384
"""Maximum size of a request's body in bytes; a participant's response takes about 500."""

PATIENCE = 30.0
"""Seconds within which a request's body must arrive; the page gives up after 20."""

MAX_KNOWN = 20_000
"""Maximum number of addresses, and of tokens, whose requests are counted."""


@dataclass(frozen=True)
class RateLimit:
    """A rate limit: average requests per second, and the maximum number in a burst."""

    rate: float
    burst: float

    def times(self, factor: float) -> "RateLimit":
        """Return a limit that is `factor` times as high."""
        return RateLimit(self.rate * factor, self.burst * factor)


PER_TOKEN = RateLimit(10, 40)
PER_ADDRESS = RateLimit(200, 400)
"""Limit per IP address; it is high, because many participants can share one address."""

JOINS = RateLimit(1, 100)
"""Limit on join requests per IP address; without it, one client could reserve all trials."""


@dataclass
class Buckets:
    """Token buckets by key; the least recently used keys are dropped."""

    limit: RateLimit
    _left: LRUCache[str, tuple[float, float]] = field(default_factory=lambda: LRUCache(MAX_KNOWN))
    _lock: Lock = field(default_factory=Lock)

    def wait(self, key: str, now: float) -> float:
        """Count a request; return the seconds until it is allowed, 0 if it is allowed now."""
        with self._lock:
            left, then = self._left.get(key, (self.limit.burst, now))
            # Token bucket: it refills at `rate` up to `burst`, and each allowed request takes one.
            left = min(self.limit.burst, left + (now - then) * self.limit.rate)
            allowed = left >= 1
            self._left[key] = (left - 1 if allowed else left, now)
            return 0.0 if allowed else (1 - left) / self.limit.rate


class LimitMiddleware:
    """Reject requests that are too large, too frequent or too slow; add headers to every reply."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        per_token: RateLimit = PER_TOKEN,
        per_address: RateLimit = PER_ADDRESS,
        joins: RateLimit = JOINS,
        more_hosts: tuple[str, ...] = (),
        patience: float = PATIENCE,
    ) -> None:
        self.app = app
        self._tokens, self._addresses = Buckets(per_token), Buckets(per_address)
        self._joins = Buckets(joins)
        self._headers = _headers(more_hosts)
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or reject it."""
        # Lifespan events have no headers, address or reply.
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                # A header that a route sets itself takes precedence over the default.
                named = {name for name, _ in message["headers"]}
                more = [(name, value) for name, value in self._headers if name not in named]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        body = self._rejection(scope) or await _read(receive, self._patience)
        if isinstance(body, JSONResponse):
            await body(scope, receive, with_headers)
            return
        try:
            await self.app(scope, body, with_headers)
        except Exception:
            if not begun:
                trouble = problem(500, "trouble", "Something went wrong on the server: try again.")
                await trouble(scope, receive, with_headers)
            # Raised again, so that the server logs the traceback.
            raise

    def _rejection(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        # A chunked request states no length; `_read` counts its bytes.
        length = headers.get("content-length", "0")
        # `isdigit` alone accepts digits of other scripts, and `int` is slow for a long text.
        if not (length.isascii() and length.isdigit() and len(length) < 10) or (
            int(length) > MAX_BYTES
        ):
            return _too_large()
        # Monotonic: a change of the system's clock must neither fill nor drain the buckets.
        now = time.monotonic()
        address = (scope.get("client") or ("",))[0]
        # The address comes first: a client that invents tokens is still limited by it.
        wait = self._addresses.wait(address, now)
        if not wait and scope["method"] == "POST" and scope["path"].endswith("/sessions"):
            wait = self._joins.wait(address, now)
        token = headers.get("authorization", "").rpartition(" ")[2]
        if not wait and token:
            # Use the hash as the key: a forged token can be as long as all headers together.
            wait = self._tokens.wait(token_hash(token), now)
        if not wait:
            return None
        slow = problem(429, "too_fast", "Too many requests: wait a little.")
        # Rounded up, because HTTP allows only whole seconds here.
        slow.headers["retry-after"] = str(int(wait) + 1)
        return slow


async def _read(receive: Receive, patience: float) -> Receive | JSONResponse:
    """Return a receiver of the complete body, or an error reply if the body is too large or slow.

    The actual size of the body is checked, because the length in the headers may be wrong.
    """
    body = b""
    try:
        async with asyncio.timeout(patience):
            more = True
            while more:
                message = await receive()
                # The client has disconnected; the application receives this message below.
                if message["type"] != "http.request":
                    break
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > MAX_BYTES:
                    return _too_large()
    except TimeoutError:
        return _last(problem(408, "too_slow", "The request was incomplete."))
    waiting: list[Message] = [{**message, "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def _too_large() -> JSONResponse:
    return _last(problem(413, "too_large", f"A request must have at most {MAX_BYTES} bytes."))


def _last(response: JSONResponse) -> JSONResponse:
    """Close the connection after this reply, so that the rest of the request is not read."""
    response.headers["connection"] = "close"
    return response


def _headers(more_hosts: tuple[str, ...]) -> list[tuple[bytes, bytes]]:
    form_hosts = [host for recruiter in RECRUITERS.values() for host in recruiter.form_hosts]
    frame_hosts = [host for recruiter in RECRUITERS.values() for host in recruiter.frame_hosts]
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' blob: data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": " ".join(("'self'", *form_hosts, *more_hosts)),
        "frame-ancestors": " ".join(("'self'", *frame_hosts, *more_hosts)),
    }
    headers = {
        "content-security-policy": "; ".join(
            f"{name} {sources}" for name, sources in policy.items()
        ),
        "x-content-type-options": "nosniff",
        # The URL of the page contains the recruiter's ids of the participant.
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=()",
        # Proxies must not change the pixels on their way to the participant.
        "cache-control": "no-store, no-transform",
    }
    return [(name.encode(), value.encode()) for name, value in headers.items()]


HEADERS_S = 10.0
"""Seconds within which the headers of a request must arrive, from its first byte or the opening of
the connection."""


class HeaderTimeoutProtocol(H11Protocol):
    """HTTP/1.1 with a limit on the time that the headers of a request may take.

    uvicorn waits for them without a limit, so that a few hundred slow connections would use up the
    server's sockets.
    """

    header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock."""
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        """Stop the clock when the headers are complete; further bytes do not reset it."""
        super().data_received(data)
        # uvicorn creates the cycle of a request once its headers are complete.
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self.header_timer is None and not self.transport.is_closing():
            # The first bytes of another request on the same connection.
            self._start()

    def on_response_complete(self) -> None:
        """Leave an idle connection to the limit for idle connections."""
        self._stop()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop()
        super().connection_lost(exc)

    def _start(self) -> None:
        self.header_timer = self.loop.call_later(HEADERS_S, self.transport.close)

    def _stop(self) -> None:
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None
