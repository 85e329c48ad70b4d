"""Prolific, which adds its ids to the address; participants return with a completion code."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from urllib.parse import urlencode

from eyechart.core.errors import UsageError
from eyechart_experiment.recruiters.api.platform_api import (
    PREVIOUS_ID,
    ApiRequest,
    Listing,
    Payee,
    PlatformApi,
)
from eyechart_experiment.recruiters.recruiter import (
    Completion,
    Departure,
    Outcome,
    PlatformFee,
    Recruiter,
    RecruiterSetting,
)

COMPLETE = "https://app.prolific.com/submissions/complete"
PRICING = "https://www.prolific.com/pricing"
FEES_READ = "2026-09-20"
PARAMETERS = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
CODES: Mapping[Outcome, str] = {
    "finished": "prolific_code",
    "failed": "prolific_failed",
    "screened-out": "prolific_screened",
}
"""The setting with Prolific's completion code, for each outcome of a session."""

MIN_REASON = 100
"""Minimum number of characters with which Prolific accepts a rejection."""


class ProlificApi(PlatformApi):
    """Version 1 of Prolific's interface: studies, submissions and bonus payments."""

    url = "https://api.prolific.com/api/v1"
    credentials = ("PROLIFIC_API_TOKEN",)
    pays_by_code = True

    def create(self, listing: Listing) -> tuple[ApiRequest, ...]:
        """Return the request for a draft study with its places, reward and completion codes."""
        body = {
            "name": listing.title,
            "internal_name": listing.name,
            "description": listing.description,
            "external_study_url": _with_ids(listing.address),
            "prolific_id_option": "url_parameters",
            "completion_codes": [
                {
                    "code": listing.settings[setting],
                    "code_type": "COMPLETED" if outcome == "finished" else "OTHER",
                    "actions": [_action(outcome, listing)],
                }
                for outcome, setting in CODES.items()
                if listing.settings.get(setting)
            ],
            "total_available_places": listing.places,
            "estimated_completion_time": listing.minutes,
            "maximum_allowed_time": listing.max_minutes,
            # In cents or pence.
            "reward": int(listing.reward * 100),
            "device_compatibility": ["desktop"],
            "peripheral_requirements": [],
        }
        if not listing.settings.get(CODES["finished"]):
            raise UsageError(
                "Prolific needs a completion code: create the study with --prolific-code CODE."
            )
        if listing.failed is not None and not listing.settings.get(CODES["failed"]):
            raise UsageError(
                "Prolific pays less to those who fail the qualification only by a completion code:"
                " create the study with --prolific-failed CODE, or pass --reward, which everybody"
                " earns."
            )
        # Nothing tells a repetition apart: sent twice, the request would make two drafts.
        return (ApiRequest(method="POST", path="/studies/", body=body, is_repeatable=False),)

    def publish(self) -> tuple[ApiRequest, ...]:
        """Return the transition that publishes a draft study."""
        path = f"/studies/{PREVIOUS_ID}/transition/"
        return (ApiRequest(method="POST", path=path, body={"action": "PUBLISH"}),)

    def listing_id(self, reply: Mapping[str, object]) -> str:
        """Return the study's id on Prolific."""
        return str(reply.get("id", ""))

    def approve(self, payee: Payee) -> tuple[ApiRequest, ...]:
        """Return the transition of the submission; Prolific ignores a repetition."""
        return (_transition(payee, {"action": "APPROVE"}),)

    def reject(self, payee: Payee, reason: str) -> tuple[ApiRequest, ...]:
        """Return the transition of the submission, with a message to the participant."""
        if len(reason) < MIN_REASON:
            raise UsageError(
                f"Prolific needs a reason of at least {MIN_REASON} characters, got {len(reason)}:"
                " explain to the participant what was missing."
            )
        body = {"action": "REJECT", "message": reason, "rejection_category": "OTHER"}
        return (_transition(payee, body),)

    def bonus(self, payee: Payee, amount: Decimal, reason: str) -> tuple[ApiRequest, ...]:
        """Return the requests that set up a bonus and pay it.

        Prolific pays again if the second one is repeated.
        """
        # Unlike the reward, a bonus is in pounds or dollars, not in pence or cents.
        line = f"{payee.ids['SESSION_ID']},{amount:.2f}"
        body = {"study_id": payee.ids["STUDY_ID"], "csv_bonuses": line}
        path = f"/bulk-bonus-payments/{PREVIOUS_ID}/pay/"
        return (
            # Only prepares the payment, so that a repetition costs nothing.
            ApiRequest(method="POST", path="/submissions/bonus-payments/", body=body),
            ApiRequest(method="POST", path=path, is_repeatable=False),
        )

    def authorize(
        self, request: ApiRequest, url: str, body: bytes, secrets: Mapping[str, str], now: datetime
    ) -> dict[str, str]:
        """Return the headers with the account's token."""
        headers = {"Authorization": f"Token {secrets[self.credentials[0]]}"}
        return headers | ({"Content-Type": "application/json"} if body else {})


def _action(outcome: Outcome, listing: Listing) -> Mapping[str, object]:
    """Return what Prolific does with a submission that has the completion code of an outcome."""
    if outcome == "failed" and listing.failed is not None:
        return {
            "action": "FIXED_SCREEN_OUT_PAYMENT",
            # In cents or pence.
            "fixed_screen_out_reward": int(listing.failed * 100),
            "slots": listing.places,
        }
    # Approved by `experiment pay`, after the server's record of the session.
    return {"action": "MANUALLY_REVIEW"}


def _transition(payee: Payee, body: Mapping[str, object]) -> ApiRequest:
    path = f"/submissions/{payee.ids['SESSION_ID']}/transition/"
    return ApiRequest(method="POST", path=path, body=body)


def _with_ids(address: str) -> str:
    """Return an address with placeholders, which Prolific replaces by its ids."""
    # Not percent-encoded: Prolific looks for {{%NAME%}} literally.
    return f"{address}?" + "&".join(f"{name}={{{{%{name}%}}}}" for name in PARAMETERS)


class Prolific(Recruiter):
    """Prolific learns a session's outcome from the completion code that the participant returns."""

    name = "prolific"
    title = "Prolific"
    parameters = PARAMETERS
    person = "PROLIFIC_PID"
    settings = (
        RecruiterSetting("prolific_code", "Prolific's completion code."),
        RecruiterSetting("prolific_failed", "Prolific's code for a failed qualification."),
        RecruiterSetting(
            "prolific_screened", "Prolific's code for participants who get too few trials."
        ),
    )
    fees = (
        PlatformFee("prolific", 0.333, "academic and non-profit", PRICING, FEES_READ),
        PlatformFee("prolific-corporate", 0.428, "companies", PRICING, FEES_READ),
    )
    api = ProlificApi()

    def address_help(self, address: str) -> str:
        """Return the address with Prolific's placeholders for its ids."""
        return _with_ids(address)

    def complete(self, departure: Departure) -> Completion:
        """Return the link back to Prolific, or only a code if the study has no Prolific code."""
        code = departure.settings.get(CODES[departure.outcome], "")
        if not code:
            return Completion(way="code", code=departure.code)
        return Completion(way="redirect", code=code, url=f"{COMPLETE}?{urlencode({'cc': code})}")

    def warnings(self, settings: Mapping[str, str]) -> list[str]:
        """Return a sentence for each outcome with which participants cannot return."""
        # Without the main code, the study is not meant for Prolific.
        if not settings.get(CODES["finished"]):
            return []
        codes = {outcome: settings.get(name, "") for outcome, name in CODES.items()}
        missing: dict[Outcome, str] = {
            "failed": "who fail the qualification",
            "screened-out": "for whom too few trials are left",
        }
        sentences = [
            f"Participants {who} get no way back to Prolific: create the study with"
            f" --{CODES[outcome].replace('_', '-')} CODE."
            for outcome, who in missing.items()
            if not codes[outcome]
        ]
        given = [code for code in codes.values() if code]
        if len(set(given)) < len(given):
            sentences.append("Prolific's completion codes must differ, or outcomes are mixed up.")
        return sentences


RECRUITER = Prolific()
