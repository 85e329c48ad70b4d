"""The interface of a platform through which studies are listed and participants are paid.

Its methods only build requests. `sending` sends them, so that a dry run prints exactly what would
be sent.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import ClassVar, Literal

PREVIOUS_ID = "{id}"
"""Placeholder in a path for the id in the reply to the previous request."""

PayAction = Literal["approve", "reject", "bonus"]
"""A step of the payment of one participant."""


@dataclass(frozen=True, kw_only=True)
class ApiRequest:
    """A request: `path` begins with "/", `body` is sent as JSON.

    `is_repeatable`: whether sending the request twice has the same effect as sending it once.
    """

    method: str
    path: str
    body: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A study as it is offered on a platform.

    Attributes:
        name: The study's name, which participants do not see.
        title: What participants read first.
        description: What the study is about.
        address: The study's public address, without the platform's ids.
        places: Maximum number of participants.
        minutes: Expected duration of a session.
        max_minutes: Time after which the platform gives the place to somebody else.
        days: Number of days for which the study is offered.
        reward: Pay of everybody who reaches the end.
        bonus: Additional pay of those who finish; paid later, by `PlatformApi.bonus`.
        settings: The study's settings of the platform, such as its completion codes.
        failed: Pay of those who fail the qualification, instead of the reward; None for the reward.
    """

    name: str
    title: str
    description: str
    address: str
    places: int
    minutes: int
    max_minutes: int
    days: int
    reward: Decimal
    bonus: Decimal
    settings: Mapping[str, str]
    failed: Decimal | None = None


@dataclass(frozen=True)
class Payee:
    """A participant to be paid: the pseudonym, and the ids that the platform sent with them."""

    participant: str
    ids: Mapping[str, str]


class PlatformApi(ABC):
    """A platform's programming interface.

    Attributes:
        url: Its address.
        sandbox_url: The address of a copy for trials without money; empty if there is none.
        credentials: Names of the environment variables with the account's credentials.
        pays_by_code: Whether the platform pays less to those who return with the completion code of
            a failed qualification. Others pay every approved session the same; there, the reward of
            a listing is what those earn who fail, and all others get the rest as a bonus.
    """

    url: ClassVar[str]
    sandbox_url: ClassVar[str] = ""
    credentials: ClassVar[tuple[str, ...]]
    pays_by_code: ClassVar[bool] = False

    @abstractmethod
    def create(self, listing: Listing) -> tuple[ApiRequest, ...]:
        """Return the requests that list a study."""

    @abstractmethod
    def publish(self) -> tuple[ApiRequest, ...]:
        """Return the requests that open a listed study, whose id is `PREVIOUS_ID`; maybe none."""

    @abstractmethod
    def listing_id(self, reply: Mapping[str, object]) -> str:
        """Return the id of the new listing from the reply to `create`."""

    @abstractmethod
    def approve(self, payee: Payee) -> tuple[ApiRequest, ...]:
        """Return the requests that pay the reward to a participant."""

    @abstractmethod
    def reject(self, payee: Payee, reason: str) -> tuple[ApiRequest, ...]:
        """Return the requests that reject a participant's work, who then reads the reason."""

    @abstractmethod
    def bonus(self, payee: Payee, amount: Decimal, reason: str) -> tuple[ApiRequest, ...]:
        """Return the requests that pay a bonus to a participant."""

    def look_up(self, action: PayAction, payee: Payee) -> ApiRequest | None:
        """Return the request that asks whether a step was carried out; None if there is none."""
        return None

    def is_done(self, action: PayAction, reply: Mapping[str, object]) -> bool:
        """Return whether a step was carried out, by the reply to `look_up`."""
        return False

    @abstractmethod
    def authorize(
        self, request: ApiRequest, url: str, body: bytes, secrets: Mapping[str, str], now: datetime
    ) -> dict[str, str]:
        """Return all headers of a request, including those that prove who sends it.

        Args:
            request: The request.
            url: The full address to which it is sent.
            body: The content as it is sent.
            secrets: The credentials by name.
            now: The time of the request.
        """
