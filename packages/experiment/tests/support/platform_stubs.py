"""Stand-ins for the platforms' programming interfaces on this machine, by their published fields.

Prolific: https://docs.prolific.com/api-reference (studies, submissions, bonuses). Mechanical Turk:
its API reference of 2017-01-17. A request with an unknown or a missing field gets status 400.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NEEDED = {
    "CreateHIT": {
        "LifetimeInSeconds": int, "AssignmentDurationInSeconds": int, "Reward": str, "Title": str,
        "Description": str, "Question": str,
    },
    "ApproveAssignment": {"AssignmentId": str},
    "RejectAssignment": {"AssignmentId": str, "RequesterFeedback": str},
    "SendBonus": {"WorkerId": str, "BonusAmount": str, "AssignmentId": str, "Reason": str},
    "ListBonusPayments": {"AssignmentId": str},
    "GetAssignment": {"AssignmentId": str},
    "/studies/": {
        "name": str, "description": str, "external_study_url": str, "prolific_id_option": str,
        "completion_codes": list, "total_available_places": int, "estimated_completion_time": int,
        "reward": int,
    },
    "/studies/ID/transition/": {"action": str},
    "/submissions/ID/transition/": {"action": str},
    "/submissions/bonus-payments/": {"study_id": str, "csv_bonuses": str},
    "/bulk-bonus-payments/ID/pay/": {},
}  # fmt: skip
OPTIONAL = {
    "CreateHIT": {"MaxAssignments", "AutoApprovalDelayInSeconds", "Keywords", "RequesterAnnotation",
                  "UniqueRequestToken", "QualificationRequirements"},
    "ApproveAssignment": {"RequesterFeedback", "OverrideRejection"},
    "SendBonus": {"UniqueRequestToken"},
    "/studies/": {"internal_name", "maximum_allowed_time", "device_compatibility",
                  "peripheral_requirements"},
    "/submissions/ID/transition/": {"message", "rejection_category", "completion_code"},
}  # fmt: skip
PUBLISHED_CATEGORIES = {
    "TOO_QUICKLY", "TOO_SLOWLY", "FAILED_INSTRUCTIONS", "INCOMP_LONGITUDINAL", "FAILED_CHECK",
    "LOW_EFFORT", "MALINGERING", "NO_CODE", "BAD_CODE", "NO_DATA", "UNSUPP_DEVICE", "OTHER",
}  # fmt: skip
REPLIES = {
    "CreateHIT": {"HIT": {"HITId": "3HIT"}},
    "/studies/": {"id": "65study"},
    "/submissions/bonus-payments/": {"id": "65bonus"},
}


@dataclass
class Platform:
    """`requests`: (name, body, headers) of what came. `lose`: requests whose reply is lost.

    `bonuses` and `statuses`: what Mechanical Turk knows about assignments. `tokens`: those of
    requests that it does not repeat; it forgets them after a day. `fail`: requests that are carried
    out and have an error of the platform's own as their reply.
    """

    url: str = ""
    requests: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    lose: set[str] = field(default_factory=set)
    fail: set[str] = field(default_factory=set)
    paid: list[str] = field(default_factory=list)
    bonuses: list[dict[str, str]] = field(default_factory=list)
    statuses: dict[str, str] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.requests]


def turk_reply(site: Platform, name: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """Carry a request of Mechanical Turk out; return its reply, None if it rejects it."""
    own = body.get("AssignmentId", "")
    if name == "SendBonus" and body["UniqueRequestToken"] not in site.tokens:
        site.tokens.add(body["UniqueRequestToken"])
        site.bonuses.append({key: body[key] for key in NEEDED[name]})
    elif name == "ListBonusPayments":
        found = [bonus for bonus in site.bonuses if bonus["AssignmentId"] == own]
        return {"NumResults": len(found), "BonusPayments": found}
    elif name == "GetAssignment":
        status = site.statuses.get(own, "Submitted")
        return {"Assignment": {"AssignmentId": own, "AssignmentStatus": status}}
    elif name in ("ApproveAssignment", "RejectAssignment"):
        if own in site.statuses:
            return None
        site.statuses[own] = "Approved" if name == "ApproveAssignment" else "Rejected"
    return REPLIES.get(name, {})


def complaint(name: str, body: dict[str, Any], headers: dict[str, str]) -> str:
    """Return what is wrong with a request, by what the platform publishes; "" if it is right."""
    if name not in NEEDED:
        return f"unknown request {name}"
    needed, known = NEEDED[name], NEEDED[name].keys() | OPTIONAL.get(name, set())
    if set(body) - known or set(needed) - set(body):
        return f"{name}: fields {sorted(set(body) ^ set(needed))}"
    for key, kind in needed.items():
        if not isinstance(body[key], kind):
            return f"{name}: {key} must be {kind.__name__}"
    if name.startswith("/"):
        if headers.get("authorization") != "Token TOKEN":
            return "status 401"
        if body.get("action") == "REJECT" and (
            len(body["message"]) < 100 or body["rejection_category"] not in PUBLISHED_CATEGORIES
        ):
            return "a rejection needs 100 characters and a category"
        for code in body.get("completion_codes", ()):
            if set(code) != {"code", "code_type", "actions"}:
                return "completion code"
        return ""
    if headers["content-type"] != "application/x-amz-json-1.1":
        return "content type"
    form = r"AWS4-HMAC-SHA256 Credential=AKID/\d{8}/us-east-1/mturk-requester/aws4_request, "
    form += r"SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=[0-9a-f]{64}"
    return "" if re.fullmatch(form, headers["authorization"]) else "signature"


@contextmanager
def platform() -> Iterator[Platform]:
    """Give a platform that runs meanwhile."""
    site = Platform()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            headers = {name.lower(): value for name, value in self.headers.items()}
            target = headers.get("x-amz-target", "")
            # an id is everything between two fixed parts of a path
            name = target.removeprefix("MTurkRequesterServiceV20170117.") or re.sub(
                r"/(studies|submissions|bulk-bonus-payments)/[\w]+/(transition|pay)/",
                r"/\1/ID/\2/", self.path,
            )  # fmt: skip
            site.requests.append((name, body, headers | {"path": self.path}))
            wrong = complaint(name, body, headers)
            if wrong:
                site.complaints.append(wrong)
                return self._say(400, {"error": wrong})
            if name.endswith("/pay/"):
                site.paid.append(self.path)
            reply = turk_reply(site, name, body)
            if name in site.lose:
                self.close_connection = True
                return None
            if reply is None or name in site.fail:
                status = 400 if reply is None else 503
                return self._say(status, {"__type": "RequestError", "Message": "not possible"})
            return self._say(200, reply)

        def _say(self, status: int, reply: dict[str, Any]) -> None:
            text = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *told: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
