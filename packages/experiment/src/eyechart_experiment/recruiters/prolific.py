"""Prolific, which adds its ids to the address; participants return with a completion code."""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlencode

from eyechart_experiment.recruiters.recruiter import (
    Completion,
    Outcome,
    PlatformFee,
    Recruiter,
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


class Prolific(Recruiter):
    """Prolific learns a session's outcome from the completion code that the participant returns."""

    name = "prolific"
    title = "Prolific"
    parameters = PARAMETERS
    person = "PROLIFIC_PID"
    settings: ClassVar[Mapping[str, str]] = {
        "prolific_code": "Prolific's completion code.",
        "prolific_failed": "Prolific's code for a failed qualification.",
        "prolific_screened": "Prolific's code for participants who get too few trials.",
    }
    fees = (
        PlatformFee("prolific", 0.333, "academic and non-profit", PRICING, FEES_READ),
        PlatformFee("prolific-corporate", 0.428, "companies", PRICING, FEES_READ),
    )

    def address_help(self, address: str) -> str:
        """Return the address with placeholders, which Prolific replaces by its ids."""
        # Not percent-encoded: Prolific looks for {{%NAME%}} literally.
        return f"{address}?" + "&".join(f"{name}={{{{%{name}%}}}}" for name in PARAMETERS)

    def complete(
        self, ids: Mapping[str, str], settings: Mapping[str, str], code: str, outcome: Outcome
    ) -> Completion:
        """Return the link back to Prolific, or only a code if the study has no Prolific code."""
        platform_code = settings.get(CODES[outcome], "")
        if not platform_code:
            return Completion(way="code", code=code)
        url = f"{COMPLETE}?{urlencode({'cc': platform_code})}"
        return Completion(way="redirect", code=platform_code, url=url)

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
