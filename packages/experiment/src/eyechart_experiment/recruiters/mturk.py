"""Amazon Mechanical Turk: an ExternalQuestion shows the study in an iframe of the worker's page."""

from collections.abc import Mapping

from eyechart_experiment.recruiters.recruiter import (
    Arrival,
    BadIds,
    Completion,
    Outcome,
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
                host = origin(value) or ""
                # Compare only the origin: a path or user name could redirect the form elsewhere.
                if host not in (*self.form_hosts, *more_hosts) or value.rstrip("/") != host:
                    raise BadIds("turkSubmitTo is not an address of Mechanical Turk.")
                own_ids[name] = host
            else:
                check_id(name, value)
        return Arrival(self.name, own_ids[self.person], own_ids)

    def complete(
        self, ids: Mapping[str, str], settings: Mapping[str, str], code: str, outcome: Outcome
    ) -> Completion:
        """Return the form to submit, or only a completion code if the ids were deleted."""
        if not ids:
            return Completion(way="code", code=code)
        # No outcome: whoever is paid for what is decided by the code, which the server knows, not
        # by a field that the worker's browser sends.
        fields = {"assignmentId": ids["assignmentId"], "code": code}
        action = ids["turkSubmitTo"] + SUBMIT
        return Completion(way="form", code=code, action=action, fields=fields)


RECRUITER = MechanicalTurk()
