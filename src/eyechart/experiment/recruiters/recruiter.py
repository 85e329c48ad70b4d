"""Where participants come from: a link, Mechanical Turk, Prolific. Their ids prove nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode, urlsplit

from eyechart.experiment.design.study_config import StudyConfig

Platform = Literal["link", "mturk", "prolific"]

PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
SUBMIT = "/mturk/externalSubmit"
SUBMIT_HOSTS = ("https://www.mturk.com", "https://workersandbox.mturk.com")
FRAME_HOSTS = (
    "https://worker.mturk.com",
    "https://workersandbox.mturk.com",
    "https://requester.mturk.com",
    "https://requestersandbox.mturk.com",
    "https://www.mturk.com",
)
PROLIFIC = "https://app.prolific.com/submissions/complete"

PERSON = {"link": "client", "mturk": "workerId", "prolific": "PROLIFIC_PID"}
"""Which of a platform's ids stands for the person."""

NEEDED = {
    "link": ("client",),
    "mturk": ("assignmentId", "hitId", "workerId", "turkSubmitTo"),
    "prolific": ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"),
}
ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class BadIds(ValueError):
    """The ids are not those that the platform gives; the text says what is wrong."""


class Preview(ValueError):
    """Somebody looks at a task on Mechanical Turk without having accepted it."""


@dataclass(frozen=True)
class Arrival:
    """A person as the platform names them, and the ids needed to send them back."""

    platform: Platform
    person: str
    ids: Mapping[str, str]


@dataclass(frozen=True)
class Completion:
    """How a participant gets back: shown a `code`, sent by a form's POST, or redirected to `url`.

    `action` and `fields` belong to the form.
    """

    way: Literal["code", "form", "redirect"]
    code: str
    action: str = ""
    url: str = ""
    fields: Mapping[str, str] | None = None


def arrive(platform: Platform, ids: Mapping[str, str], more_hosts: tuple[str, ...] = ()) -> Arrival:
    """Return who comes; ids that are missing or odd are refused, and previews.

    `more_hosts`: besides Mechanical Turk's own, where a form may be sent, for tests.
    """
    own = {name: ids.get(name, "") for name in NEEDED[platform]}
    if own.get("assignmentId") == PREVIEW:
        raise Preview
    for name, value in own.items():
        if name == "turkSubmitTo":
            own[name] = _submit_host(value, more_hosts)
        elif not ID.fullmatch(value):
            raise BadIds(f"{name} is missing or has odd characters.")
    return Arrival(platform, own[PERSON[platform]], own)


def complete(
    platform: str, ids: Mapping[str, str], config: StudyConfig, code: str, failed: bool
) -> Completion:
    """Return how to send a participant back; without the platform's ids only a code is left."""
    if platform == "mturk" and ids:
        fields = {"assignmentId": ids["assignmentId"], "code": code}
        fields["outcome"] = "not-qualified" if failed else "complete"
        return Completion("form", code, action=ids["turkSubmitTo"] + SUBMIT, fields=fields)
    own = config.prolific_failed if failed else config.prolific_code
    if platform == "prolific" and own:
        return Completion("redirect", own, url=f"{PROLIFIC}?{urlencode({'cc': own})}")
    return Completion("code", code)


def origin(url: str) -> str | None:
    """Return scheme and host of an address, without anything after; None if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return None
    return f"{parts.scheme}://{parts.hostname}" + ("" if port is None else f":{port}")


def _submit_host(url: str, more_hosts: tuple[str, ...]) -> str:
    """Return where the form goes, without the slash at its end; only to hosts that are allowed."""
    found = origin(url)
    # what comes after the host would be where a form could be sent instead
    if found is None or found not in (*SUBMIT_HOSTS, *more_hosts) or url.rstrip("/") != found:
        raise BadIds("turkSubmitTo is no address of Mechanical Turk.")
    return found
