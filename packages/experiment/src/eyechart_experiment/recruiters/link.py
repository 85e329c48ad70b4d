"""A plain link without a recruitment platform: anyone who has the address can take part."""

from collections.abc import Mapping

from eyechart_experiment.recruiters.recruiter import (
    Arrival,
    Completion,
    Outcome,
    Recruiter,
    check_id,
)


class PlainLink(Recruiter):
    """Participants are identified by a random name in their browser; only its hash is stored."""

    name = "link"
    title = "Plain link"
    parameters = ()
    person = "client"
    # Random, and shown nowhere.
    secret = "client"

    def address_help(self, address: str) -> str:
        """Return the address to share."""
        return address

    def arrive(self, ids: Mapping[str, str], more_hosts: tuple[str, ...] = ()) -> Arrival:
        """Return the participant, identified by the browser's random name."""
        client = ids.get(self.person, "")
        check_id(self.person, client)
        # No ids: nobody is paid through a plain link, so that none need to be stored.
        return Arrival(self.name, client, {})

    def complete(
        self, ids: Mapping[str, str], settings: Mapping[str, str], code: str, outcome: Outcome
    ) -> Completion:
        """Return the completion code."""
        return Completion(way="code", code=code)


RECRUITER = PlainLink()
