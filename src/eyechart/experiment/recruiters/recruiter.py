"""What a recruiting site is to a study: how participants come from it and how they get back.

Every site is one file beside this one. Ids prove nothing; who they are is not decided here. The
command line reads the sites' settings whenever it starts, so nothing heavy is imported here.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal
from urllib.parse import urlsplit

ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class BadIds(ValueError):
    """The ids are not those that the site gives; the text says what is wrong."""


class Preview(ValueError):
    """Somebody looks at a task on the site without having accepted it."""


@dataclass(frozen=True)
class Arrival:
    """A person as the site names them. `ids`: what is stored until the person is paid."""

    platform: str
    person: str
    ids: Mapping[str, str]


@dataclass(frozen=True)
class Departure:
    """Somebody who is done: the stored ids, the study's settings of the site, and a code.

    `failed`: whether the qualification was not passed.
    """

    ids: Mapping[str, str]
    settings: Mapping[str, str]
    code: str
    failed: bool


@dataclass(frozen=True, kw_only=True)
class Completion:
    """How to go back: `action` and `fields` are a form's, `url` is a redirection's."""

    way: Literal["code", "form", "redirect"]
    code: str
    action: str = ""
    url: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecruiterSetting:
    """A text that a study may have for a site: also an option of `experiment new`.

    It is nobody else's business: exports of a study have it empty.
    """

    name: str
    help: str


class Recruiter(ABC):
    """A recruiting site.

    `parameters`: ids that the site adds to the study's address, all needed; `person`: the one that
    stands for the participant. `form_hosts`: where the last page may send a form; `frame_hosts`:
    who may show the pages within their own.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    person: ClassVar[str]
    settings: ClassVar[tuple[RecruiterSetting, ...]] = ()
    form_hosts: ClassVar[tuple[str, ...]] = ()
    frame_hosts: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def address_help(self, address: str) -> str:
        """Return what to tell the site, given the study's address."""

    def arrive(self, ids: Mapping[str, str], more_hosts: tuple[str, ...] = ()) -> Arrival:
        """Return who comes.

        Args:
            ids: as they stand in the address.
            more_hosts: besides the site's own, where a form may be sent, for tests.

        Raises:
            BadIds: if one is missing or has odd characters.
            Preview: if nobody has accepted the task yet.
        """
        own_ids = {name: ids.get(name, "") for name in self.parameters}
        for name, value in own_ids.items():
            check_id(name, value)
        return Arrival(self.name, own_ids[self.person], own_ids)

    @abstractmethod
    def complete(self, departure: Departure) -> Completion:
        """Return how to send a participant back."""


def check_id(name: str, value: str) -> None:
    """Refuse an id that is missing or that no site would give."""
    if not ID.fullmatch(value):
        raise BadIds(f"{name} is missing or has odd characters.")


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
