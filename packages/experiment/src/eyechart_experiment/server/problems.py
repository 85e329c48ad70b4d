"""Error replies in one format: a code for the page and a sentence that echoes no user input.

Each server error is logged as one line.
"""

import logging
import re

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import NoResultFound, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.exceptions import HTTPException

from eyechart.core.errors import UsageError
from eyechart_experiment.server.sessions import Rejection

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
        where = ".".join(_shown(part) for part in first["loc"])
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


def _shown(part: object) -> str:
    return str(part) if isinstance(part, int) or PLAIN.fullmatch(str(part)) else "?"
