"""Send requests to a platform, or print them; read the credentials that it needs.

Credentials come from environment variables or from a private file, and are never printed or
stored.
"""

import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from eyechart.core.errors import UsageError
from eyechart_experiment.recruiters.api.platform_api import PREVIOUS_ID, ApiRequest, PlatformApi

TIMEOUT_S = 30.0
MAX_REASON = 300
"""Maximum length of the platform's explanation of an error that is printed."""

Reply = Mapping[str, object]


class NoReply(UsageError):
    """Raised if it is unknown whether a platform received a request."""


class _NoRedirect(HTTPRedirectHandler):
    """A redirect would send the credentials to another host."""

    def redirect_request(self, *arguments: object) -> None:
        """Follow no redirect."""


@dataclass(frozen=True)
class ApiAccount:
    """An account on a platform: its interface, the address to use, and its credentials."""

    api: PlatformApi
    url: str
    secrets: Mapping[str, str] = field(repr=False)
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def send(self, requests: Sequence[ApiRequest], previous_id: str = "") -> Reply:
        """Send requests one after the other; return the reply to the last one.

        Raises:
            UsageError: If the platform rejects a request; its explanation is part of the message.
            NoReply: If the connection was lost before the reply.
        """
        reply: Reply = {}
        for request in requests:
            known_id = str(reply.get("id", previous_id))
            reply = self._send(replace(request, path=request.path.replace(PREVIOUS_ID, known_id)))
        return reply

    def _send(self, request: ApiRequest) -> Reply:
        url = self.url.rstrip("/") + request.path
        # Encoded once, since a signature covers exactly the bytes that are sent.
        body = json.dumps(request.body).encode() if request.body else b""
        headers = self.api.authorize(request, url, body, self.secrets, self.clock())
        # For empty bytes, urllib would add the content type of a form.
        sent = Request(url, body or None, headers, method=request.method)
        host = urlsplit(url).netloc
        try:
            with _opener(url).open(sent, timeout=TIMEOUT_S) as reply:
                return _read(reply.read())
        # Before its base class URLError: here the platform did reply.
        except HTTPError as error:
            with error:
                reason = " ".join(error.read(4096).decode("utf-8", "replace").split())
            if error.code >= 500:
                # The platform's own failure: it may have carried the request out all the same.
                raise NoReply(
                    f"{host} failed with status {error.code} at {request.method} {request.path}"
                    f" ({reason[:MAX_REASON]}): check on the platform whether it was carried out."
                ) from None
            raise UsageError(
                f"{host} rejected the request {request.method} {request.path} with status"
                f" {error.code}: {reason[:MAX_REASON]}"
            ) from None
        except (URLError, TimeoutError, HTTPException, OSError) as error:
            raise NoReply(
                f"No reply from {host} to {request.method} {request.path}"
                f" ({getattr(error, 'reason', error)}): check on the platform whether it was"
                " received."
            ) from None


def open_account(
    api: PlatformApi,
    *,
    file: Path | None = None,
    study: Path | None = None,
    is_sandbox: bool = False,
    url: str | None = None,
) -> ApiAccount:
    """Return the account whose credentials are in a file or in environment variables.

    Args:
        api: The platform's interface.
        file: Private file with lines NAME=VALUE; None to use environment variables.
        study: The study's folder, which must not contain the file.
        is_sandbox: Whether to use the platform's copy for trials.
        url: Another address of the interface, for tests.

    Raises:
        UsageError: If a credential is missing, or others can read the file.
    """
    if is_sandbox and not api.sandbox_url:
        raise UsageError("This platform has no sandbox: use --dry-run, or omit --sandbox.")
    secrets = dict(os.environ) if file is None else _read_credentials(file, study)
    missing = [name for name in api.credentials if not secrets.get(name)]
    if missing:
        where = "the environment" if file is None else str(file)
        raise UsageError(
            f"{' and '.join(missing)} must be set in {where}: set it, or pass --credentials FILE"
            " with lines NAME=VALUE."
        )
    address = url or (api.sandbox_url if is_sandbox else api.url)
    parts = urlsplit(address)
    # Credentials must not travel in the clear, except within this machine.
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise UsageError(f"A platform's address must begin with https://, got {address}.")
    # Only what the platform needs, and not the rest of the environment.
    return ApiAccount(api, address, {name: secrets[name] for name in api.credentials})


def request_text(api: PlatformApi, requests: Sequence[ApiRequest], url: str | None = None) -> str:
    """Return requests as text, as a dry run prints them, without credentials."""
    lines = []
    for request in requests:
        lines.append(f"{request.method} {(url or api.url).rstrip('/')}{request.path}")
        lines += [f"  {name}: {value}" for name, value in request.headers.items()]
        if request.body:
            text = json.dumps(request.body, indent=2, ensure_ascii=False)
            lines += [f"  {line}" for line in text.splitlines()]
    return "\n".join(lines)


def _read_credentials(file: Path, study: Path | None) -> dict[str, str]:
    # Resolved, so that a link or ".." does not hide where the file is.
    if study is not None and file.resolve().is_relative_to(study.resolve()):
        raise UsageError(
            f"Credentials must not be kept in the study's folder, got {file}: move the file, since"
            " the folder is backed up and shared."
        )
    try:
        mode = file.stat().st_mode
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"Cannot read {file}: {reason}.") from None
    # Any permission of the group or of others, as ssh demands for private keys.
    if stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"{file} must be readable by its owner only: chmod 600 {file}.")
    # Split at the first sign only: a value may itself contain "=".
    pairs = (line.partition("=") for line in lines if line.strip() and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _opener(url: str) -> OpenerDirector:
    # A proxy of the environment is for other machines.
    is_local = urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    return build_opener(_NoRedirect, *([ProxyHandler({})] if is_local else []))


def _read(text: bytes) -> Reply:
    try:
        reply = json.loads(text or b"{}")
    # The request was accepted all the same; an error would record it as failed.
    except ValueError:
        reply = {}
    return reply if isinstance(reply, dict) else {}
