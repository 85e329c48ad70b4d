"""Prolific, which adds its ids to the address; participants return with a completion code."""

from urllib.parse import urlencode

from eyechart.experiment.recruiters.recruiter import (
    Completion,
    Departure,
    Recruiter,
    RecruiterSetting,
)

COMPLETE = "https://app.prolific.com/submissions/complete"


class Prolific(Recruiter):
    """Prolific learns a session's outcome from the completion code that the participant returns."""

    name = "prolific"
    title = "Prolific"
    parameters = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
    person = "PROLIFIC_PID"
    settings = (
        RecruiterSetting("prolific_code", "Prolific's completion code."),
        RecruiterSetting("prolific_failed", "Prolific's code for a failed qualification."),
    )

    def address_help(self, address: str) -> str:
        """Return the address with Prolific's placeholders for its ids."""
        # Prolific replaces {{%NAME%}} by the id; braces are doubled in an f-string.
        return f"{address}?" + "&".join(f"{name}={{{{%{name}%}}}}" for name in self.parameters)

    def complete(self, departure: Departure) -> Completion:
        """Return the link back to Prolific, or only a code if the study has no Prolific code."""
        code = departure.settings["prolific_failed" if departure.failed else "prolific_code"]
        if not code:
            return Completion(way="code", code=departure.code)
        return Completion(way="redirect", code=code, url=f"{COMPLETE}?{urlencode({'cc': code})}")


RECRUITER = Prolific()
