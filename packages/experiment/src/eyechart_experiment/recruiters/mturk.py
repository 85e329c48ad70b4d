"""Amazon Mechanical Turk: an ExternalQuestion shows the study in an iframe of the worker's page."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from urllib.parse import parse_qsl, quote, urlsplit
from xml.sax.saxutils import escape

from eyechart_experiment.recruiters.api.platform_api import (
    ApiRequest,
    Listing,
    PayAction,
    Payee,
    PlatformApi,
)
from eyechart_experiment.recruiters.recruiter import (
    Arrival,
    BadIds,
    Completion,
    Departure,
    PlatformFee,
    Preview,
    Recruiter,
    check_id,
    origin,
)

# What Mechanical Turk sends as assignmentId before a worker accepts the task.
PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
SUBMIT = "/mturk/externalSubmit"
PRICING = "https://requester.mturk.com/pricing"
FEES_READ = "2026-11-17"

TARGET = "MTurkRequesterServiceV20170117"
QUESTION = """\
<ExternalQuestion xmlns="http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/\
2006-07-14/ExternalQuestion.xsd"><ExternalURL>{url}</ExternalURL><FrameHeight>0</FrameHeight>\
</ExternalQuestion>"""
APPROVAL_S = 7 * 24 * 3600
"""Seconds after which the platform approves an assignment by itself."""


class MechanicalTurkApi(PlatformApi):
    """The requester's interface of 2017-01-17: one JSON request per operation."""

    url = "https://mturk-requester.us-east-1.amazonaws.com"
    sandbox_url = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
    credentials = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

    def create(self, listing: Listing) -> tuple[ApiRequest, ...]:
        """Return CreateHIT with an ExternalQuestion."""
        reward = listing.reward if listing.failed is None else listing.failed
        body = {
            "Title": listing.title,
            "Description": listing.description,
            "Keywords": "images, vision, perception, psychology, study",
            "Reward": f"{reward:.2f}",
            "MaxAssignments": listing.places,
            "LifetimeInSeconds": listing.days * 24 * 3600,
            "AssignmentDurationInSeconds": listing.max_minutes * 60,
            "AutoApprovalDelayInSeconds": APPROVAL_S,
            # An & in the address would make the XML invalid.
            "Question": QUESTION.format(url=escape(listing.address)),
            "RequesterAnnotation": listing.name,
        }
        token = _token("create", listing.name, f"{listing.places}", f"{reward:.2f}")
        body["UniqueRequestToken"] = token
        return (_operation("CreateHIT", body, is_repeatable=False),)

    def publish(self) -> tuple[ApiRequest, ...]:
        """Return nothing: a HIT is open as soon as it exists."""
        return ()

    def listing_id(self, reply: Mapping[str, object]) -> str:
        """Return the id of the HIT."""
        hit = reply.get("HIT")
        return str(hit.get("HITId", "")) if isinstance(hit, dict) else ""

    def approve(self, payee: Payee) -> tuple[ApiRequest, ...]:
        """Return ApproveAssignment."""
        return (_operation("ApproveAssignment", {"AssignmentId": payee.ids["assignmentId"]}),)

    def reject(self, payee: Payee, reason: str) -> tuple[ApiRequest, ...]:
        """Return RejectAssignment; the worker reads the reason."""
        body = {"AssignmentId": payee.ids["assignmentId"], "RequesterFeedback": reason}
        return (_operation("RejectAssignment", body),)

    def bonus(self, payee: Payee, amount: Decimal, reason: str) -> tuple[ApiRequest, ...]:
        """Return SendBonus, with a token that prevents a second payment for 24 hours."""
        assignment = payee.ids["assignmentId"]
        body = {
            "WorkerId": payee.ids["workerId"],
            "BonusAmount": f"{amount:.2f}",
            "AssignmentId": assignment,
            "Reason": reason,
            "UniqueRequestToken": _token("bonus", assignment, f"{amount:.2f}"),
        }
        return (_operation("SendBonus", body, is_repeatable=False),)

    def look_up(self, action: PayAction, payee: Payee) -> ApiRequest:
        """Return ListBonusPayments or GetAssignment."""
        operation = "ListBonusPayments" if action == "bonus" else "GetAssignment"
        return _operation(operation, {"AssignmentId": payee.ids["assignmentId"]})

    def is_done(self, action: PayAction, reply: Mapping[str, object]) -> bool:
        """Return whether the assignment has a bonus, or the status that the step gives it."""
        # Any bonus: its amount may have been changed since, and a study pays one only.
        if action == "bonus":
            return bool(reply.get("BonusPayments"))
        assignment = reply.get("Assignment")
        status = assignment.get("AssignmentStatus") if isinstance(assignment, dict) else None
        return status == ("Approved" if action == "approve" else "Rejected")

    def authorize(
        self, request: ApiRequest, url: str, body: bytes, secrets: Mapping[str, str], now: datetime
    ) -> dict[str, str]:
        """Return the headers with a signature of version 4."""
        access_key, secret_key = (secrets[name] for name in self.credentials)
        # Mechanical Turk has its interface in this region only.
        key = SigningKey(access_key, secret_key, "us-east-1", "mturk-requester")
        headers = dict(request.headers)
        return headers | sign_request(key, request.method, url, headers, body, now)


def _operation(name: str, body: Mapping[str, object], is_repeatable: bool = True) -> ApiRequest:
    # AWS's JSON protocol: a header names the operation, and the path is always "/".
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"{TARGET}.{name}"}
    return ApiRequest(
        method="POST", path="/", body=body, headers=headers, is_repeatable=is_repeatable
    )


def _token(*parts: str) -> str:
    """Return a token that is the same when a request is repeated; at most 64 characters.

    Mechanical Turk forgets it after 24 hours, so that it does not make a request repeatable.
    """
    # A separator that no part contains, so that different parts never join to the same text.
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:64]


ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class SigningKey:
    """An access key, and the region and service for which it signs."""

    access_key: str
    secret_key: str
    region: str
    service: str


def sign_request(
    key: SigningKey, method: str, url: str, headers: Mapping[str, str], body: bytes, now: datetime
) -> dict[str, str]:
    """Return the headers that a request signed with AWS Signature Version 4 has beside `headers`.

    The secret key itself is never sent. The procedure is that of "Create a signed AWS API request"
    in the AWS documentation.

    Args:
        key: The access key.
        method: The HTTP method, such as POST.
        url: The full address.
        headers: All headers that are signed; the host and the date are added.
        body: The content.
        now: The time of the request; the server rejects a signature after a few minutes.

    Example:
        >>> from datetime import UTC, datetime
        >>> key = SigningKey("AKIDEXAMPLE", "SECRET", "us-east-1", "service")
        >>> now = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
        >>> signed = sign_request(key, "GET", "https://example.amazonaws.com/", {}, b"", now)
        >>> signed["X-Amz-Date"]
        '20150830T123600Z'
        >>> signed["Authorization"].split(", ")[1]
        'SignedHeaders=host;x-amz-date'
    """
    parts = urlsplit(url)
    moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    # The canonical form has lower-case names, and single spaces in values.
    signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    # With the port, if there is one, as urllib sends it in the Host header.
    signed |= {"host": parts.netloc, "x-amz-date": moment}
    names = ";".join(sorted(signed))
    # Sorted, and quoted but for the unreserved characters of RFC 3986: the server does the same.
    query = "&".join(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}"
        for name, value in sorted(parse_qsl(parts.query, keep_blank_values=True))
    )
    canonical = "\n".join(
        [
            method,
            quote(parts.path or "/", safe="/-_.~"),
            query,
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            # Each header ends with a line feed, and one more ends their list.
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{moment[:8]}/{key.region}/{key.service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join([ALGORITHM, moment, scope, digest])
    derived = f"AWS4{key.secret_key}".encode()
    # Bound to a day, a region and a service: a derived key that leaks is of little use.
    for part in scope.split("/"):
        derived = hmac.digest(derived, part.encode(), "sha256")
    signature = hmac.digest(derived, text.encode(), "sha256").hex()
    credential = f"{key.access_key}/{scope}"
    return {
        "X-Amz-Date": moment,
        "Authorization": f"{ALGORITHM} Credential={credential}, SignedHeaders={names},"
        f" Signature={signature}",
    }


class MechanicalTurk(Recruiter):
    """Workers submit an assignment with a form, which is sent only to Mechanical Turk's hosts."""

    name = "mturk"
    title = "Mechanical Turk"
    parameters = ("assignmentId", "hitId", "workerId", "turkSubmitTo")
    person = "workerId"
    # Random. In a frame, a browser may not be allowed to keep an id of its own.
    secret = "assignmentId"
    form_hosts = ("https://www.mturk.com", "https://workersandbox.mturk.com")
    frame_hosts = (
        "https://worker.mturk.com",
        "https://workersandbox.mturk.com",
        "https://requester.mturk.com",
        "https://requestersandbox.mturk.com",
        "https://www.mturk.com",
    )
    fees = (
        PlatformFee("mturk", 0.2, "HITs with up to 9 assignments", PRICING, FEES_READ),
        PlatformFee("mturk-10", 0.4, "HITs with 10 or more assignments", PRICING, FEES_READ),
    )
    api = MechanicalTurkApi()

    def address_help(self, address: str) -> str:
        """Return the address, with instructions on where to enter it."""
        return f"{address} as the ExternalURL of an ExternalQuestion"

    def arrive(self, ids: Mapping[str, str], more_hosts: tuple[str, ...] = ()) -> Arrival:
        """Return the worker; raise `Preview` if the HIT has not been accepted yet."""
        own_ids = {name: ids.get(name, "") for name in self.parameters}
        # Before the checks: a preview comes without a worker's id and would look malformed.
        if own_ids["assignmentId"] == PREVIEW:
            raise Preview
        for name, value in own_ids.items():
            # An address, whose slashes the pattern of ids does not allow.
            if name == "turkSubmitTo":
                own_ids[name] = self._submit_host(value, more_hosts)
            else:
                check_id(name, value)
        return Arrival(self.name, own_ids[self.person], own_ids)

    def complete(self, departure: Departure) -> Completion:
        """Return the form to submit, or only a completion code if the ids were deleted."""
        ids = departure.ids
        if not ids:
            return Completion(way="code", code=departure.code)
        # No outcome: whoever is paid for what is decided by the code, which the server knows, not
        # by a field that the worker's browser sends.
        fields = {"assignmentId": ids["assignmentId"], "code": departure.code}
        action = ids["turkSubmitTo"] + SUBMIT
        return Completion(way="form", code=departure.code, action=action, fields=fields)

    def _submit_host(self, url: str, more_hosts: tuple[str, ...]) -> str:
        """Return the origin to which the form is sent; raise `BadIds` if it is not allowed."""
        host = origin(url)
        # Compare only the origin: a path or user name could redirect the form elsewhere.
        if host not in (*self.form_hosts, *more_hosts) or url.rstrip("/") != host:
            raise BadIds("turkSubmitTo is not an address of Mechanical Turk.")
        return host


RECRUITER = MechanicalTurk()
