"""The interface of a recruitment platform: how participants arrive and return.

Each platform has its own file in this package. Ids do not prove identity and are not verified. The
command line reads the platforms' settings at every start, so this module imports nothing heavy.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal
from urllib.parse import urlsplit

Outcome = Literal["finished", "failed", "screened-out"]
"""How a session ended: all trials done, the qualification not passed, or too few trials left.

Each outcome has its own completion code.
"""

ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class BadIds(ValueError):
    """Raised for ids that do not have the platform's format; the message explains the problem."""


class Preview(ValueError):
    """Raised when the task is viewed on the platform before it has been accepted."""


@dataclass(frozen=True)
class Arrival:
    """An arriving participant; the platform's `ids` are stored until the participant is paid."""

    platform: str
    person: str
    ids: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Completion:
    """How a participant returns: `action` and `fields` describe a form, `url` a redirect."""

    way: Literal["code", "form", "redirect"]
    code: str
    action: str = ""
    url: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlatformFee:
    """A platform's fee as a fraction of the pay, with the page that states it.

    `read_on` is the date on which the page, or a public copy of it, was read.
    """

    name: str
    fraction: float
    applies_to: str
    source: str
    read_on: str


class Recruiter(ABC):
    """A recruitment platform.

    Attributes:
        parameters: Ids that the platform adds to the study's address; all are required.
        person: The parameter that identifies the participant.
        secret: The parameter that nobody but the participant knows, if there is one. Whoever comes
            with the stored one resumes a session in any browser.
        settings: Settings of a study for this platform, which are also options of `experiment
            new`, and their help texts. Values are confidential: exports leave them empty.
        form_hosts: Hosts to which the last page may send a form.
        frame_hosts: Hosts that may show the pages in an iframe.
        fees: What the platform charges, for estimates of the cost.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    person: ClassVar[str]
    secret: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, str]] = {}
    form_hosts: ClassVar[tuple[str, ...]] = ()
    frame_hosts: ClassVar[tuple[str, ...]] = ()
    fees: ClassVar[tuple[PlatformFee, ...]] = ()

    @abstractmethod
    def address_help(self, address: str) -> str:
        """Return the text to enter on the platform, given the study's address."""

    def arrive(self, ids: Mapping[str, str], more_hosts: tuple[str, ...] = ()) -> Arrival:
        """Return the arriving participant, identified by the ids in the address.

        Args:
            ids: Parameters of the address.
            more_hosts: Additional hosts to which a form may be sent, for tests.

        Raises:
            BadIds: If an id is missing or has invalid characters.
            Preview: If the task has not been accepted yet.
        """
        own_ids = {name: ids.get(name, "") for name in self.parameters}
        for name, value in own_ids.items():
            check_id(name, value)
        return Arrival(self.name, own_ids[self.person], own_ids)

    @abstractmethod
    def complete(
        self, ids: Mapping[str, str], settings: Mapping[str, str], code: str, outcome: Outcome
    ) -> Completion:
        """Return how a participant whose session has ended gets back to the platform.

        Args:
            ids: The stored ids; empty if they were deleted.
            settings: The study's settings for the platforms.
            code: The completion code.
            outcome: How the session ended.
        """

    def warnings(self, settings: Mapping[str, str]) -> list[str]:
        """Return what is missing in a study's settings of this platform, one sentence each."""
        return []


def check_id(name: str, value: str) -> None:
    """Raise `BadIds` for an id that is missing or malformed."""
    # fullmatch, because "$" would let a newline at the end pass.
    if not ID.fullmatch(value):
        raise BadIds(f"{name} is missing or has invalid characters.")


def origin(url: str) -> str | None:
    """Return the scheme and host of an address, or None if it lacks them."""
    try:
        parts = urlsplit(url)
        # Parsed only when it is read; an invalid port raises.
        port = parts.port
    except ValueError:
        return None
    # In https://known.example@other.example the host is not the one that it seems to be.
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return None
    return f"{parts.scheme}://{parts.hostname}" + ("" if port is None else f":{port}")
