"""The HTTP server of a study: each route checks the caller and delegates to another module."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path as FilePath
from shutil import disk_usage
from string import Template
from typing import Annotated, Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import Depends, FastAPI, Header, Path
from fastapi.responses import Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from sqlalchemy import Row, and_, bindparam, select
from sqlalchemy.orm import Session as Db

from eyechart.core.options import fields_of
from eyechart.core.version import __version__
from eyechart_experiment.languages import read_texts
from eyechart_experiment.quality.judging import judge_abandoned
from eyechart_experiment.recruiters import RECRUITERS
from eyechart_experiment.recruiters.recruiter import Arrival, BadIds, Preview
from eyechart_experiment.server import wire
from eyechart_experiment.server.request_limits import (
    JOINS,
    PER_ADDRESS,
    PER_TOKEN,
    LimitMiddleware,
    RateLimit,
    explain_problems,
)
from eyechart_experiment.server.responses import store
from eyechart_experiment.server.session_progress import planned
from eyechart_experiment.server.sessions import (
    Rejection,
    claim_tab,
    count_visit,
    finish,
    join,
    state_of,
)
from eyechart_experiment.server.trial_allocation import allocate, can_admit
from eyechart_experiment.storage.database import THREADS
from eyechart_experiment.storage.database_tables import (
    LIVE,
    SessionRow,
    StimulusImageRow,
    StudyRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy, read_pixels
from eyechart_experiment.storage.tokens import Claim, read_token
from eyechart_experiment.study_config import StudyConfig, choices_of

MIN_FREE = 8 * 1024**2
"""Free space in bytes below which the server is not healthy; SQLite's log alone takes 4 MB."""

# No automatic errors, since these would not have the format of `problem`.
BEARER = HTTPBearer(auto_error=False, description="The token of a session.")
PublicId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]
ImageId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}-[01]$")]
Name = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
Tab = Annotated[str, Header(max_length=36)]

# The type that FastAPI expects.
Responses = dict[int | str, dict[str, Any]]
Known = Row[str, int, str | None]

# Built once, see trial_allocation.py.
_KNOWN = select(SessionRow.token_hash, SessionRow.study_id, SessionRow.tab).where(
    SessionRow.id == bindparam("session_id")
)
_IMAGE = (
    # Outer joins, so that the session is found without the image: a revoked token is a 401, a
    # missing image a 404.
    _KNOWN.add_columns(StimulusImageRow.sha256)
    .outerjoin(
        TrialRow,
        and_(
            TrialRow.session_id == SessionRow.id,
            TrialRow.public_id == bindparam("public_id"),
            TrialRow.state == LIVE,
        ),
    )
    .outerjoin(
        StimulusImageRow,
        and_(
            StimulusImageRow.stimulus_id == TrialRow.stimulus_id,
            StimulusImageRow.place == bindparam("place"),
        ),
    )
)


def _problems(*statuses: int) -> Responses:
    everywhere = (408, 413, 422, 429, 500, 503)
    return {status: {"model": wire.Problem} for status in (*statuses, *everywhere)}


def make_app(
    study: OpenStudy,
    *,
    more_hosts: Sequence[str] = (),
    per_token: RateLimit = PER_TOKEN,
    per_address: RateLimit = PER_ADDRESS,
    joins: RateLimit = JOINS,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> FastAPI:
    """Return the server of one study.

    `more_hosts` are hosts, in addition to the recruitment platforms, that may receive forms and
    embed the pages.
    """
    config, database = study.config, study.database
    hosts, choices = tuple(more_hosts), choices_of(config)
    # Read once, since it is the same for all participants.
    texts = read_texts(config.language)
    escaped = {name: escape(texts[key]) for name, key in PAGE_TEXTS.items()}
    template = (files("eyechart_experiment") / "pages" / "study.html").read_text(encoding="utf-8")
    # The page's script reads the language from the attribute `lang`.
    html_page = Template(template).substitute(escaped, language=config.language)
    app = FastAPI(
        title="eyechart experiment",
        version=__version__,
        description="Serves stimuli to the participants of a study and stores their responses.",
        openapi_url="/api/openapi.json",
        # FastAPI's documentation pages load scripts from other hosts, which the policy blocks.
        docs_url=None,
        redoc_url=None,
        # A redirect would go to the host named in the request, which can be any host.
        redirect_slashes=False,
        lifespan=_with_few_threads,
    )
    app.add_middleware(
        LimitMiddleware, per_token=per_token, per_address=per_address, joins=joins, more_hosts=hosts
    )
    explain_problems(app)

    # Async, because it does not block; routes that wait for the database run in threads.
    async def signed(
        sent: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],
    ) -> Claim:
        """Return the caller; the database records whether the token is still valid."""
        if sent is None:
            raise Rejection(401, "no_token", "Join the study first.")
        claim = read_token(study.secret, sent.credentials)
        if claim is None:
            raise Rejection(401, "bad_token", "This token does not belong to this study.")
        if claim.expires_at <= clock():
            raise Rejection(401, "expired_token", "The token has expired: join again to continue.")
        return claim

    Signed = Annotated[Claim, Depends(signed)]

    def check(bearer: Claim, known: SessionRow | Known, tab: str | None = None) -> None:
        """Reject revoked tokens, and requests from any tab but the session's current one."""
        if (known.study_id, known.token_hash) != (study.id, bearer.token_hash):
            raise Rejection(401, "bad_token", "The session was continued elsewhere.")
        if tab is not None and tab != known.tab:
            raise Rejection(409, "another_tab", "The session continues in another tab.")

    def admit(db: Db, bearer: Claim, tab: str | None = None) -> int:
        """Return the caller's session id."""
        key = {"session_id": bearer.session_id}
        check(bearer, db.connection().execute(_KNOWN, key).one(), tab)
        return bearer.session_id

    def check_name(name: str) -> None:
        if name != config.name:
            raise Rejection(404, "no_study", "There is no such study here.")

    def arrival_of(name: str, body: wire.ArrivalRequest) -> Arrival:
        check_name(name)
        try:
            return RECRUITERS[body.platform].arrive(body.ids, hosts)
        except Preview:
            raise Rejection(409, "preview", "Accept the task first.") from None
        except BadIds as error:
            raise Rejection(422, "bad_request", str(error)) from None

    def current(bearer: Claim) -> wire.SessionState:
        with database.reading() as db:
            session = db.get_one(SessionRow, admit(db, bearer))
            return state_of(db, study, session)

    # Monitors ask with HEAD; one operation in the description is enough.
    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", responses=_problems())
    def healthy() -> dict[str, str]:
        """Report that the server and its database are running, and that responses fit on disk."""
        with database.reading() as db:
            db.execute(select(StudyRow.id).limit(1))
        file = database.engine.url.database
        if database.is_sqlite and file and disk_usage(FilePath(file).parent).free < MIN_FREE:
            raise Rejection(503, "disk_full", "The disk of the database is full.")
        return {"status": "ok"}

    html: Responses = {
        status: {"content": {"text/html": {"schema": {"type": "string"}}}} for status in (200, 404)
    }

    @app.get("/s/{name}", responses=_problems() | html, response_class=Response)
    def page(name: Name) -> Response:
        """Return the page of a study, or a page with status 404 if the study does not exist."""
        status = 200 if name == config.name else 404
        if status == 200:
            count_visit(database, study.id)
        return Response(html_page, status, media_type="text/html")

    @app.get("/assets/{file}", responses=_problems(404), response_class=Response)
    def asset(file: Annotated[str, Path(max_length=64)]) -> Response:
        """Return the script or the style sheet of the page."""
        kind = ASSETS.get(file)
        if kind is None:
            raise Rejection(404, "no_page", "There is nothing here.")
        return Response((STATIC / file).read_bytes(), media_type=kind)

    @app.get("/api/studies/{name}", responses=_problems(404))
    def study_info(name: Name) -> wire.StudyInfo:
        """Return what a page needs to know about the study before the participant consents."""
        check_name(name)
        with database.reading() as db:
            status = db.scalar(select(StudyRow.status).where(StudyRow.id == study.id))
            is_open = status == "open" and can_admit(db, config, study.id, clock())
        if status == "open" and not is_open:
            # Sessions that were left may have stimuli that others can have.
            with database.writing() as db:
                judge_abandoned(db, study.id, clock())
                is_open = can_admit(db, config, study.id, clock())
        return _study_info(config, choices, is_open, is_closed=status != "open")

    @app.post("/api/studies/{name}/arrivals", status_code=204, responses=_problems(404, 409))
    def check_arrival(name: Name, body: wire.ArrivalRequest) -> None:
        """Check the recruiter's ids before the participant consents; nothing is stored."""
        arrival_of(name, body)

    @app.post(
        "/api/studies/{name}/sessions",
        status_code=201,
        responses=_problems(404, 409) | {200: {"model": wire.JoinReply}},
    )
    def join_study(name: Name, body: wire.JoinRequest, response: Response) -> wire.JoinReply:
        """Begin a session (status 201), or resume the participant's session (status 200)."""
        arrival = arrival_of(name, body)
        browser = str(body.browser or "")
        reply, is_new = join(
            study, arrival, body.screen, clock(), body.eyesight, browser=browser, code=body.code
        )
        if not is_new:
            response.status_code = 200
        return reply

    @app.get("/api/session", responses=_problems(401))
    def session_state(bearer: Signed) -> wire.SessionState:
        """Return the progress of the session."""
        return current(bearer)

    @app.post("/api/session/tab", responses=_problems(401))
    def take_tab(bearer: Signed, body: wire.TabClaim) -> wire.SessionState:
        """Make this tab the session's current tab and drop the session's live trials."""
        with database.reading() as db:
            session_id = admit(db, bearer)
        claim_tab(study, session_id, body, clock())
        return current(bearer)

    @app.post("/api/trials", responses=_problems(401, 409), response_model=wire.NextTrial)
    def next_trial(bearer: Signed, body: wire.TrialKey, x_tab: Tab = "") -> Response:
        """Hand out the next trial."""
        admitted = partial(check, bearer, tab=x_tab)
        return _json(allocate(study, bearer.session_id, str(body.key), clock(), admitted))

    @app.get(
        "/api/images/{image}",
        responses=_problems(401, 404)
        | {200: {"content": {"application/octet-stream": {"schema": BYTES}}}},
        response_class=Response,
    )
    def image(bearer: Signed, image: ImageId) -> Response:
        """Return an image of a live trial: height × width × 3 bytes."""
        trial_id, _, index = image.partition("-")
        key = {"public_id": trial_id, "place": int(index), "session_id": bearer.session_id}
        with database.reading() as db:
            known = db.connection().execute(_IMAGE, key).one()
        check(bearer, known)
        if known.sha256 is None:
            raise Rejection(404, "no_image", "This image is not part of a live trial.")
        pixels = read_pixels(study.folder.path, known.sha256, config.side)
        return Response(pixels, media_type="application/octet-stream")

    @app.put(
        "/api/trials/{trial}/response",
        responses=_problems(401, 404, 409, 410),
        response_model=wire.Acknowledgement,
    )
    def respond(bearer: Signed, trial: PublicId, body: wire.ResponseBody) -> Response:
        """Store a response. A repeated request has no effect; a different response is rejected."""
        if body.choice not in ("", *choices):
            raise Rejection(422, "bad_request", "choice must be one of the study's choices.")
        # Without the tab: a response of the former tab may arrive after the change.
        admitted = partial(check, bearer)
        return _json(store(study, bearer.session_id, trial, body, clock(), admit=admitted))

    @app.post("/api/session/finish", responses=_problems(401, 409))
    def finish_session(bearer: Signed, x_tab: Tab = "") -> wire.SessionState:
        """End a complete session and return how the participant gets back to the platform."""
        with database.reading() as db:
            session_id = admit(db, bearer, x_tab)
        return finish(study, session_id, clock())

    return app


@asynccontextmanager
async def _with_few_threads(app: FastAPI) -> AsyncIterator[None]:
    # AnyIO allows 40 threads by default, more than the pool has persistent connections.
    current_default_thread_limiter().total_tokens = THREADS
    yield


PAGE_TEXTS = {
    "title": "page.title",
    "noscript_heading": "page.noscript.heading",
    "noscript_text": "page.noscript.text",
}
"""Placeholders of the page, and the texts that replace them."""

BYTES = {"type": "string", "format": "binary"}
STATIC = files("eyechart_experiment") / "static"
ASSETS = {"app.js": "text/javascript", "app.css": "text/css"}


def is_built() -> bool:
    """Return whether the script and the style sheet of the page were built."""
    return all((STATIC / name).is_file() for name in ASSETS)


def _study_info(
    config: StudyConfig, choices: Sequence[str], is_open: bool, *, is_closed: bool
) -> wire.StudyInfo:
    wanted = planned(config)
    timing = {name: getattr(config, name) for name in wire.TrialTiming.model_fields}
    counts = {name: wanted[name] for name in ("practice", "qualification")}
    declared = fields_of(StudyConfig)
    shared = {
        name: getattr(config, name) for name in wire.StudyInfo.model_fields if name in declared
    }
    return wire.StudyInfo.model_validate(
        shared
        | {"counts": counts | {"trials": wanted["main"]}, "timing": timing}
        | {"choices": list(choices), "open": is_open, "closed": is_closed}
    )


def _json(body: BaseModel) -> Response:
    """Return a validated record as JSON, so that FastAPI does not validate it again in a thread."""
    return Response(body.model_dump_json(), media_type="application/json")
