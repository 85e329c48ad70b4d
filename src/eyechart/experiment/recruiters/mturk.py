"""Amazon Mechanical Turk: an ExternalQuestion shows the study in an iframe of the worker's page."""

from collections.abc import Mapping

from eyechart.experiment.recruiters.recruiter import (
    Arrival,
    BadIds,
    Completion,
    Departure,
    Preview,
    Recruiter,
    check_id,
    origin,
)

# What Mechanical Turk sends as assignmentId before a worker accepts the task.
PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
SUBMIT = "/mturk/externalSubmit"


class MechanicalTurk(Recruiter):
    """Workers submit an assignment with a form, which is sent only to Mechanical Turk's hosts."""

    name = "mturk"
    title = "Mechanical Turk"
    parameters = ("assignmentId", "hitId", "workerId", "turkSubmitTo")
    person = "workerId"
    form_hosts = ("https://www.mturk.com", "https://workersandbox.mturk.com")
    frame_hosts = (
        "https://worker.mturk.com",
        "https://workersandbox.mturk.com",
        "https://requester.mturk.com",
        "https://requestersandbox.mturk.com",
        "https://www.mturk.com",
    )

    def address_help(self, address: str) -> str:
        """Return the address, with instructions on where to enter it."""
        return f"{address} as the ExternalURL of an ExternalQuestion"

    def arrive(self, ids: Mapping[str, str], more_hosts: tuple[str, ...] = ()) -> Arrival:
        """Return the worker; raise `Preview` if the HIT has not been accepted yet."""
        own_ids = {name: ids.get(name, "") for name in self.parameters}
        if own_ids["assignmentId"] == PREVIEW:
            raise Preview
        for name, value in own_ids.items():
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
        fields = {"assignmentId": ids["assignmentId"], "code": departure.code}
        fields["outcome"] = "not-qualified" if departure.failed else "complete"
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
