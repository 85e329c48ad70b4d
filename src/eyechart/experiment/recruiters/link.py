"""A plain link: nobody recruits, and whoever has the address can take part."""

from collections.abc import Mapping

from eyechart.experiment.recruiters.recruiter import (
    Arrival,
    Completion,
    Departure,
    Recruiter,
    check_id,
)


class PlainLink(Recruiter):
    """Participants are known by a random name that their browser keeps; none of it is stored."""

    name = "link"
    title = "Plain link"
    parameters = ()
    person = "client"

    def address_help(self, address: str) -> str:
        """Return the address."""
        return address

    def arrive(self, ids: Mapping[str, str], more_hosts: tuple[str, ...] = ()) -> Arrival:
        """Return who comes, by the browser's own name for itself."""
        client = ids.get(self.person, "")
        check_id(self.person, client)
        return Arrival(self.name, client, {})

    def complete(self, departure: Departure) -> Completion:
        """Return the code, for whoever asks for one."""
        return Completion(way="code", code=departure.code)


RECRUITER = PlainLink()
